"""What every method is: hyper-parameters, a signal from whole groups, a loss from log-probs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from kappo.pressure import Adapted, Interface

if TYPE_CHECKING:
    from torch import Tensor

Source = Literal["policy", "demonstrations"]
Need = Literal["ref_logprobs"]
Signal = Mapping[str, NDArray[np.float64]]
"""Arrays whose first axis is the loss unit; they are cut into micro-batches and handed to `loss` as tensors."""


@dataclass(frozen=True)
class Batch:
    """Rollouts of P prompts with N completions each, before anything is sharded.

    mask: 1 on completion tokens, (P * N, T). ref_logprobs: log-probs of those tokens under the reference model, in
    nats, 0 outside the mask. adapted: (P, N) arrays.
    """

    mask: NDArray[np.float64]
    ref_logprobs: NDArray[np.float64]
    adapted: Adapted


class Method(Protocol):
    """source: where completions come from. samples_per_prompt: N. needs: what of a Batch costs extra.

    interface: the side of the pressure that it takes; pressures: names of the pressure classes it can take.
    loss returns (units,), averaged over all units, or (units, T), averaged over all completion tokens.
    """

    source: ClassVar[Source]
    samples_per_prompt: ClassVar[int]
    needs: ClassVar[frozenset[Need]]
    interface: ClassVar[Interface]
    pressures: ClassVar[tuple[str, ...]]

    def signal(self, batch: Batch) -> Signal: ...

    def loss(self, logprobs: Tensor, mask: Tensor, signal: Mapping[str, Tensor]) -> Tensor: ...

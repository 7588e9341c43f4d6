"""What every method is: hyper-parameters, a signal from whole groups, a loss from log-probs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from kappo.pressure.base import Adapted, Interface

if TYPE_CHECKING:
    from torch import Tensor

Source = Literal["policy", "bank", "demonstrations"]
Need = Literal["ref_logprobs"]
Signal = Mapping[str, NDArray[np.float64]]
"""Arrays whose first axis is the loss unit; they are cut into micro-batches and handed to `loss` as tensors."""


@dataclass(frozen=True)
class Batch:
    """Completions of P prompts, N each, before anything is sharded: rollouts, or what `select` took from the bank.

    mask: 1 on completion tokens, (P * N, T). ref_logprobs, behaviour_logprobs: log-probs of those tokens under the
    reference model and under the policy that sampled them, in nats, 0 outside the mask. adapted: (P, N) arrays.
    """

    mask: NDArray[np.float64]
    ref_logprobs: NDArray[np.float64]
    behaviour_logprobs: NDArray[np.float64]
    adapted: Adapted


class Method(Protocol):
    """source: where completions come from. samples_per_prompt: N. needs: what of a Batch costs extra.

    interface: the side of the pressure that it takes; pressures: names of the pressure classes it can take.
    uses_bank: whether its training depends on the bank, through coefficients or completions.
    sequences_per_unit: consecutive completions that make one loss unit, at most N.
    loss returns (units,), averaged over all units, or (units, T), averaged over all completion tokens; its logprobs and
    mask are (units * sequences_per_unit, T).
    """

    source: ClassVar[Source]
    sequences_per_unit: ClassVar[int]
    uses_bank: ClassVar[bool]
    pressures: ClassVar[tuple[str, ...]]

    @property
    def samples_per_prompt(self) -> int: ...

    @property
    def needs(self) -> frozenset[Need]: ...

    @property
    def interface(self) -> Interface: ...

    def signal(self, batch: Batch) -> Signal: ...

    def loss(self, logprobs: Tensor, mask: Tensor, signal: Mapping[str, Tensor]) -> Tensor: ...


class BankMethod(Method, Protocol):
    """A method whose source is the bank: it also says which of a prompt's M completions it learns from."""

    def usable(self, bank_rewards: NDArray[np.float64]) -> NDArray[np.bool_]:
        """(P, M) -> (P,): the prompts that can give completions."""
        ...

    def select(self, bank_rewards: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.int64]:
        """(P, M) of usable prompts and (P, N) uniform numbers -> (P, N) completions, by their place in the bank."""
        ...

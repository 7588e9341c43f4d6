"""PKPO: policy gradient of max@k from n >= k completions a prompt (Walder and Karkhanis, 2025).

loss = -n s_i sum_t log pi, averaged over prompts and completions: its gradient is -mean_x sum_i s_i grad log pi(y_i),
an unbiased estimate of minus the gradient of max@k. The weights s are never standardised: that would break them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kappo.config import within
from kappo.methods.base import Batch, Need, Signal, Source
from kappo.pressure.base import Interface
from kappo.theory.estimators import pkpo

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class PKPO:
    """k: of max@k, this method's own. samples_per_prompt: n; 0 stands for k."""

    k: int = within(2, at_least=2)
    samples: int = within(0, at_least=0)

    source: ClassVar[Source] = "policy"
    sequences_per_unit: ClassVar[int] = 1
    uses_bank: ClassVar[bool] = False
    needs: ClassVar[frozenset[Need]] = frozenset()
    interface: ClassVar[Interface] = "reward"
    pressures: ClassVar[tuple[str, ...]] = ("none",)

    def __post_init__(self) -> None:
        if 0 < self.samples < self.k:
            raise ValueError(f"samples = {self.samples} with k = {self.k}: max@k needs at least k completions a prompt")

    @property
    def samples_per_prompt(self) -> int:
        return self.samples or self.k

    def signal(self, batch: Batch) -> Signal:
        n = self.samples_per_prompt
        return {"weight": (n * pkpo(batch.adapted.reward, self.k)).ravel()}

    def loss(self, logprobs: Tensor, mask: Tensor, signal: Mapping[str, Tensor]) -> Tensor:
        """logprobs, mask: (units, T) -> (units,)."""
        return -signal["weight"] * (logprobs * mask).sum(-1)

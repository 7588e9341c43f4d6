"""Supervised fine-tuning: loss = -log pi(token | before), averaged over the demonstrations' completion tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kappo.methods.base import Batch, Need, Signal, Source
from kappo.pressure.base import Interface

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SFT:
    source: ClassVar[Source] = "demonstrations"
    samples_per_prompt: ClassVar[int] = 1
    sequences_per_unit: ClassVar[int] = 1
    uses_bank: ClassVar[bool] = False
    needs: ClassVar[frozenset[Need]] = frozenset()
    interface: ClassVar[Interface] = "reward"
    pressures: ClassVar[tuple[str, ...]] = ()

    def signal(self, batch: Batch) -> Signal:
        return {}

    def loss(self, logprobs: Tensor, mask: Tensor, signal: Mapping[str, Tensor]) -> Tensor:
        """logprobs, mask: (units, T) -> (units, T)."""
        return -logprobs * mask

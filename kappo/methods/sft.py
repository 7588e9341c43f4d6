"""Supervised fine-tuning: loss = -log pi(token | before), averaged over the demonstrations' completion tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kappo.methods.base import Batch, Signal

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SFT:
    source = "demonstrations"
    samples_per_prompt = 1
    needs_reference = False
    interface = "reward"
    pressures = ()

    def signal(self, batch: Batch) -> Signal:
        return {}

    def loss(self, logprobs: Tensor, mask: Tensor, signal: Mapping[str, Tensor]) -> Tensor:
        """logprobs, mask: (units, T) -> (units, T)."""
        return -logprobs * mask

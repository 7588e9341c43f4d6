"""A*PO: regression of the policy's log-ratio onto the optimum's (KAPPO eq. 14; Brantley et al., 2025).

loss = (scale * reward - beta log Z - beta sum_t [log pi - log pi_ref])^2, one completion a prompt, token *sum*,
no clip, no ratio, no half. Under binary pressure scale = a_k and Z is that of eq. 5: @k-A*PO.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from kappo.methods.base import Batch, Need, Signal, Source
from kappo.pressure.base import Interface

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class APO:
    """loss_scale: `raw` is eq. 14; `per_beta` divides by 2 beta, so that the gradient is that of -J."""

    loss_scale: Literal["raw", "per_beta"] = "raw"

    source: ClassVar[Source] = "policy"
    samples_per_prompt: ClassVar[int] = 1
    sequences_per_unit: ClassVar[int] = 1
    uses_bank: ClassVar[bool] = True
    needs: ClassVar[frozenset[Need]] = frozenset({"ref_logprobs"})
    interface: ClassVar[Interface] = "reward"
    pressures: ClassVar[tuple[str, ...]] = ("none", "binary", "winrate", "raw_reward")

    def signal(self, batch: Batch) -> Signal:
        """target = scale * reward - beta log Z, the regression target of beta * log-ratio; (P * N,) arrays."""
        a = batch.adapted
        target = a.scale * a.reward - a.beta * a.log_partition
        return {"target": target.ravel(), "beta": a.beta.ravel(), "ref_logprobs": batch.ref_logprobs}

    def loss(self, logprobs: Tensor, mask: Tensor, signal: Mapping[str, Tensor]) -> Tensor:
        """logprobs, mask: (units, T) -> (units,)."""
        log_ratio = ((logprobs - signal["ref_logprobs"]) * mask).sum(-1)
        squared = (signal["target"] - signal["beta"] * log_ratio).square()
        return squared if self.loss_scale == "raw" else squared / (2 * signal["beta"])

"""GRPO: a group's standardised rewards as advantages (KAPPO eq. 15, 139-140; Shao et al., 2024).

A_i = scale * (R_i - mean R) / (std R + eps) over the n completions of a prompt (the sample's std, as in TRL), and
loss = -mean_t min(ratio_t A_i, clip(ratio_t, 1 - clip, 1 + clip) A_i), ratio = pi / pi_old, no KL term.
Under binary pressure scale = a_k comes after standardisation, which would cancel it (eq. 139); under win-rate pressure
R is the transformed reward and scale = 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kappo.config import within
from kappo.methods.base import Batch, Need, Signal, Source
from kappo.pressure.base import Interface

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class GRPO:
    """standardize: false leaves out the division by the group's std, so that A = scale * (R - mean R).

    interface: `reward`, or `regularization`: scale = 1 and a term beta_eff(x) / 2 * (sum_t log pi / pi_ref)^2 / |y|,
    the k2 estimate, whose on-policy gradient is that of the reverse KL; it needs reference log-probs.
    """

    samples_per_prompt: int = within(8, at_least=2)
    standardize: bool = True
    interface: Interface = "reward"
    clip: float = within(0.2, above=0, below=1)
    eps: float = within(1e-6, above=0)

    source: ClassVar[Source] = "policy"
    sequences_per_unit: ClassVar[int] = 1
    uses_bank: ClassVar[bool] = True
    pressures: ClassVar[tuple[str, ...]] = ("none", "binary", "winrate", "raw_reward")

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({"ref_logprobs"} if self.interface == "regularization" else ())

    def signal(self, batch: Batch) -> Signal:
        a = batch.adapted
        centred = a.reward - a.reward.mean(axis=1, keepdims=True)
        std = a.reward.std(axis=1, ddof=1, keepdims=True)
        advantage = a.scale * (centred / (std + self.eps) if self.standardize else centred)
        signal = {"advantage": advantage.ravel(), "behaviour_logprobs": batch.behaviour_logprobs}
        if self.interface == "reward":
            return signal
        return {**signal, "ref_logprob": (batch.ref_logprobs * batch.mask).sum(axis=1), "beta": np.ravel(a.beta)}

    def loss(self, logprobs: Tensor, mask: Tensor, signal: Mapping[str, Tensor]) -> Tensor:
        """logprobs, mask: (units, T) -> (units,)."""
        advantage, lengths = signal["advantage"][:, None], mask.sum(-1)
        ratio = ((logprobs - signal["behaviour_logprobs"]) * mask).exp()
        clipped = ratio.clamp(1 - self.clip, 1 + self.clip)
        surrogate = ((ratio * advantage).minimum(clipped * advantage) * mask).sum(-1) / lengths
        if self.interface == "reward":
            return -surrogate
        log_ratio = (logprobs * mask).sum(-1) - signal["ref_logprob"]
        return signal["beta"] * log_ratio.square() / (2 * lengths) - surrogate

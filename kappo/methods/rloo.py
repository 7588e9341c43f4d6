"""RLOO: REINFORCE with the mean of a group's other rewards as baseline (Kool et al., 2019; Ahmadian et al., 2024).

r_i = scale * R_i - coef * KL_i where the KL is in the reward (the default, k1), else scale * R_i, and
loss = -(r_i - mean of the others' r) sum_t log pi + coef * KL_i where it is in the loss. With k1 in the reward or k2 in
the loss and coef = beta its fixed point is the optimum of eq. 4 (KAPPO). scale = a_k multiplies the reward alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kappo.config import within
from kappo.methods.base import Batch, Need, Signal, Source
from kappo.methods.kl import Estimator, Where, penalty
from kappo.methods.kl import loss as kl_loss
from kappo.pressure.base import Interface
from kappo.theory.estimators import leave_one_out

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class RLOO:
    """kl_coef: strength of the KL term, 0 for none; on the regularisation side it is each prompt's beta_eff instead.

    kl: its estimator; kl_in: where it stands (methods/kl.py).
    """

    samples_per_prompt: int = within(8, at_least=2)
    kl_coef: float = within(0.1, at_least=0)
    kl: Estimator = "k1"
    kl_in: Where = "reward"
    interface: Interface = "reward"

    source: ClassVar[Source] = "policy"
    sequences_per_unit: ClassVar[int] = 1
    uses_bank: ClassVar[bool] = True
    pressures: ClassVar[tuple[str, ...]] = ("none", "binary", "winrate", "raw_reward")

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({"ref_logprobs"} if self.kl_coef or self.interface == "regularization" else ())

    def signal(self, batch: Batch) -> Signal:
        a = batch.adapted
        rewards = a.scale * a.reward
        coef = a.beta if self.interface == "regularization" else np.full(rewards.shape, self.kl_coef)
        if self.kl_in == "reward":
            log_ratio = (batch.behaviour_logprobs - batch.ref_logprobs) * batch.mask
            rewards = rewards - coef * penalty(log_ratio, self.kl).reshape(rewards.shape)
            return {"advantage": self.advantage(rewards).ravel()}
        signal = {"advantage": self.advantage(rewards).ravel(), "coef": np.ravel(coef)}
        return {**signal, "ref_logprobs": batch.ref_logprobs}

    def advantage(self, rewards: np.ndarray) -> np.ndarray:
        """(P, N) -> (P, N)."""
        return leave_one_out(rewards)

    def loss(self, logprobs: Tensor, mask: Tensor, signal: Mapping[str, Tensor]) -> Tensor:
        """logprobs, mask: (units, T) -> (units,)."""
        loss = -signal["advantage"] * (logprobs * mask).sum(-1)
        if self.kl_in == "reward":
            return loss
        return loss + signal["coef"] * kl_loss((logprobs - signal["ref_logprobs"]) * mask, self.kl)

"""max@k pressure on the raw rewards (KAPPO, Section 4.3; its training is the paper's future work)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kappo.config import within
from kappo.pressure.base import Adapted, Floats, Interface, Rows, checked, untouched
from kappo.theory.raw_reward import DiscreteOptimum, solve_discrete


@dataclass(frozen=True)
class RawReward:
    """The reward becomes S_x(r) of eq. 90, from the bank's empirical distribution (eq. 98-110). Reward side.

    Its unit is the reward's, its origin the prompt's lowest bank reward, which log Z accounts for. At k = 1 it is the
    reward itself; for rewards in {0, 1} it is binary pressure.
    """

    k: int = within(1, at_least=1, at_most=1000)
    beta: float = within(0.1, at_least=1e-6, at_most=100)

    def fit(self, bank_rewards: Floats, interface: Interface = "reward") -> Rows:
        """bank_rewards: (P, M), any numbers. Raises ValueError for NaN, or on the regularisation side."""
        if interface != "reward":
            raise ValueError("raw-reward pressure transforms rewards: it has no regularisation side")
        rewards = checked(bank_rewards)
        optimum = self._optimum(rewards)
        p_star = (np.exp(optimum.log_p) * optimum.rewards).sum(axis=1)
        return untouched(rewards, self.beta, -optimum.log_c, p_star)

    def adapt(self, rewards: Floats, rows: Rows, interface: Interface = "reward") -> Adapted:
        """rewards: (P, N) of rollouts on the prompts of `rows`; the adapted reward is S_x of each."""
        scores = self._optimum(rows.rewards).transform(rewards)
        log_z = np.broadcast_to(rows.log_z[:, None], scores.shape)
        return Adapted(scores, np.ones(scores.shape), np.full(scores.shape, self.beta), log_z)

    def _optimum(self, rewards: Floats) -> DiscreteOptimum:
        return solve_discrete(rewards, self.k, self.beta)

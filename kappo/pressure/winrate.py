"""max@k pressure on the reference's quantiles (KAPPO, eq. 12, Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from kappo.config import within
from kappo.pressure.base import Adapted, Floats, Interface, Rows, checked, tilted, untouched
from kappo.theory import ties, winrate


@dataclass(frozen=True)
class WinRate:
    """max@k pressure on the reference's quantiles: Algorithm 2 of KAPPO (eq. 12), with Z = 1. Reward side.

    ties: the quantile of a reward that bank rewards share. `inclusive`: all of them count as below it (the paper's);
    `midrank`: half of them; `exact`: broken at random, and the optimum solved for that (theory/ties.py).
    """

    k: int = within(1, at_least=1, at_most=1000)
    beta: float = within(0.1, at_least=1e-6, at_most=100)
    ties: Literal["inclusive", "midrank", "exact"] = "inclusive"

    def fit(self, bank_rewards: Floats, interface: Interface = "reward") -> Rows:
        """bank_rewards: (P, M), any numbers. Raises ValueError for NaN, or on the regularisation side."""
        if interface != "reward":
            raise ValueError("win-rate pressure transforms rewards: it has no regularisation side")
        rewards = checked(bank_rewards)
        weights, _ = tilted(self._transformed(rewards, rewards) / self.beta)
        return untouched(rewards, self.beta, np.zeros(len(rewards)), (weights * rewards).sum(axis=1))

    def adapt(self, rewards: Floats, rows: Rows, interface: Interface = "reward") -> Adapted:
        """rewards: (P, N) of rollouts on the prompts of `rows`; the adapted reward is T at its quantile."""
        transformed = self._transformed(np.asarray(rewards, dtype=np.float64), rows.rewards)
        return Adapted(transformed, np.ones(rewards.shape), np.full(rewards.shape, self.beta), np.zeros(rewards.shape))

    def _transformed(self, rewards: Floats, bank: Floats) -> Floats:
        if self.ties == "exact":
            return np.stack([self._exact(r, b) for r, b in zip(rewards, bank, strict=True)])
        total = bank.shape[1]
        ordered = np.sort(bank, axis=1)
        upto = np.stack([np.searchsorted(b, r, side="right") for b, r in zip(ordered, rewards, strict=True)])
        if self.ties == "inclusive":
            return _table(total, self.k, self.beta)[2 * upto]
        below = np.stack([np.searchsorted(b, r, side="left") for b, r in zip(ordered, rewards, strict=True)])
        return _table(total, self.k, self.beta)[upto + below]

    def _exact(self, rewards: Floats, bank: Floats) -> Floats:
        """Scores of one prompt's rewards: of their atom, or of the edge between atoms where the bank has none."""
        levels, counts = np.unique(bank, return_counts=True)
        optimum = _tied(tuple(counts.tolist()), self.k, self.beta)
        place = np.searchsorted(levels, rewards)
        found = np.append(levels, np.nan)[place] == rewards
        return np.where(found, np.append(optimum.score, np.nan)[place], optimum.edge[place])


@lru_cache(maxsize=4096)
def _tied(counts: tuple[int, ...], k: int, beta: float) -> ties.TiedOptimum:
    return ties.solve(counts, k, beta)


@lru_cache(maxsize=64)
def _table(total: int, k: int, beta: float) -> Floats:
    """T at the quantiles 0, 1/2M, 2/2M, ..., 1."""
    return winrate.transform(np.arange(2 * total + 1) / 2, total, k, beta)

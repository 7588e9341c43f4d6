"""The @k adaptation itself: from a bank's rewards to per-prompt coefficients, from an @1 reward to an @k target.

Theory gives two equivalent interfaces per prompt: the reward side scales the reward and keeps beta (eq. 7), the
regularisation side keeps the reward and adapts beta (eq. 5). A method names the one it uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from kappo.config import within
from kappo.theory import binary

Floats = NDArray[np.float64]
Interface = Literal["reward", "regularization"]


@dataclass(frozen=True)
class Rows:
    """Per-prompt coefficients, arrays of length P; rewards (P, M) are the bank's.

    q: estimate of p_ref. a: reward multiplier a_k in [0, k]. beta_eff: per-prompt KL strength, capped where the
    interface needs it finite. log_z: log partition function in nats.
    """

    successes: NDArray[np.int64]
    q: Floats
    p_star: Floats
    a: Floats
    beta_eff: Floats
    log_z: Floats
    rewards: Floats

    def take(self, prompts: NDArray[np.int64]) -> Rows:
        """The rows of the given prompts, in that order."""
        return Rows(**{name: value[prompts] for name, value in vars(self).items()})


@dataclass(frozen=True)
class Adapted:
    """What a method optimises, arrays (P, N): target = scale * reward under KL strength beta, log_partition in nats."""

    reward: Floats
    scale: Floats
    beta: Floats
    log_partition: Floats


class Pressure(Protocol):
    beta: float

    def fit(self, bank_rewards: Floats, interface: Interface) -> Rows: ...

    def adapt(self, rewards: Floats, rows: Rows, interface: Interface) -> Adapted: ...


@dataclass(frozen=True)
class Binary:
    """pass@k pressure for rewards in {0, 1}: Algorithm 1 of KAPPO.

    On the reward side a success is worth a_k (eq. 7) with p_ref = N / M; on the regularisation side beta becomes
    beta / a_k with p_ref = N / (M + 0.5) and a cap of 2 (eq. 149).
    """

    k: int = within(1, at_least=1, at_most=1000)
    beta: float = within(0.1, at_least=1e-6, at_most=100)

    def fit(self, bank_rewards: Floats, interface: Interface = "reward") -> Rows:
        """bank_rewards: (P, M), each 0 or 1. Raises ValueError for other values."""
        rewards = np.asarray(bank_rewards, dtype=np.float64)
        if rewards.ndim != 2 or rewards.shape[1] == 0:
            raise ValueError(f"bank rewards of shape {rewards.shape}: expected (prompts, completions)")
        bad = np.argwhere(~np.isin(rewards, (0.0, 1.0)))
        if len(bad):
            row, column = bad[0]
            raise ValueError(
                f"reward {rewards[row, column]} of prompt {row}, completion {column}: binary pressure takes 0 and 1"
            )
        total = rewards.shape[1]
        alpha = binary.DPO_ALPHA if interface == "regularization" else 0.0
        successes = rewards.sum(axis=1).astype(np.int64)
        table = binary.solve_counts(np.arange(total + 1), total, self.k, self.beta, alpha)
        beta_eff = binary.dpo_beta(table) if interface == "regularization" else table.beta_eff
        pick = successes
        return Rows(
            successes=successes,
            q=successes / (total + alpha),
            p_star=table.p[pick],
            a=table.a[pick],
            beta_eff=beta_eff[pick],
            log_z=table.log_z[pick],
            rewards=rewards,
        )

    def adapt(self, rewards: Floats, rows: Rows, interface: Interface = "reward") -> Adapted:
        """rewards: (P, N) of rollouts on the prompts of `rows`."""
        shape = rewards.shape
        log_z = np.broadcast_to(rows.log_z[:, None], shape)
        if interface == "reward":
            scale = np.broadcast_to(rows.a[:, None], shape)
            return Adapted(rewards, scale, np.full(shape, self.beta), log_z)
        return Adapted(rewards, np.ones(shape), np.broadcast_to(rows.beta_eff[:, None], shape), log_z)


@dataclass(frozen=True)
class NoPressure:
    """The ordinary @1 method: binary pressure at k = 1, where a_k = 1 for every prompt."""

    beta: float = within(0.1, at_least=1e-6, at_most=100)

    def fit(self, bank_rewards: Floats, interface: Interface = "reward") -> Rows:
        return Binary(1, self.beta).fit(bank_rewards, interface)

    def adapt(self, rewards: Floats, rows: Rows, interface: Interface = "reward") -> Adapted:
        return Binary(1, self.beta).adapt(rewards, rows, interface)

"""The @k adaptation itself: from a bank's rewards to per-prompt coefficients, from an @1 reward to an @k target.

Theory gives two equivalent interfaces per prompt: the reward side scales the reward and keeps beta (eq. 7), the
regularisation side keeps the reward and adapts beta (eq. 5). A method names the one it uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Interface = Literal["reward", "regularization"]


class BadReward(ValueError):
    """A bank reward that a pressure does not take; prompt and completion count from 0."""

    def __init__(self, value: float, prompt: int, completion: int, expected: str):
        super().__init__(f"reward {value} of prompt {prompt}, completion {completion}: expected {expected}")
        self.value, self.prompt, self.completion, self.expected = value, prompt, completion, expected


@dataclass(frozen=True)
class Rows:
    """Per-prompt coefficients, arrays of length P; rewards (P, M) are the bank's.

    successes: bank rewards of 1. q: mean bank reward (for binary rewards the estimate of p_ref). p_star: mean reward
    of the optimal policy as the bank predicts it. a: reward multiplier, a_k in [0, k]. beta_eff: per-prompt KL
    strength, capped where the interface needs it finite. log_z: log partition function in nats.
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
    @property
    def beta(self) -> float: ...

    def fit(self, bank_rewards: Floats, interface: Interface) -> Rows: ...

    def adapt(self, rewards: Floats, rows: Rows, interface: Interface) -> Adapted: ...


def checked(rewards: Floats) -> Floats:
    """Bank rewards as (P, M). Raises ValueError for other shapes, BadReward for numbers that are not finite."""
    found = np.asarray(rewards, dtype=np.float64)
    if found.ndim != 2 or found.shape[1] == 0:
        raise ValueError(f"bank rewards of shape {found.shape}: expected (prompts, completions)")
    if not np.isfinite(found).all():
        row, column = np.argwhere(~np.isfinite(found))[0]
        raise BadReward(found[row, column], int(row), int(column), "a finite number")
    return found


def tilted(energies: Floats) -> tuple[Floats, Floats]:
    """Weights proportional to exp(energies) over each row, and the log of the row's mean of exp."""
    top = energies.max(axis=1, keepdims=True)
    weights = np.exp(energies - top)
    return weights / weights.sum(axis=1, keepdims=True), top[:, 0] + np.log(weights.mean(axis=1))


def untouched(rewards: Floats, beta: float, log_z: Floats, p_star: Floats) -> Rows:
    """Rows whose coefficients are the same for every prompt."""
    ones = np.ones(len(rewards))
    successes = (rewards == 1.0).sum(axis=1)
    return Rows(successes, rewards.mean(axis=1), p_star, ones, beta * ones, log_z, rewards)


def scaled(rewards: Floats, rows: Rows, interface: Interface, beta: float) -> Adapted:
    """Rewards (P, N) with the rows' coefficients on the given side."""
    shape = rewards.shape
    log_z = np.broadcast_to(rows.log_z[:, None], shape)
    if interface == "reward":
        return Adapted(rewards, np.broadcast_to(rows.a[:, None], shape), np.full(shape, beta), log_z)
    return Adapted(rewards, np.ones(shape), np.broadcast_to(rows.beta_eff[:, None], shape), log_z)

"""The @k adaptation itself: from a bank's rewards to per-prompt coefficients, from an @1 reward to an @k target.

Theory gives two equivalent interfaces per prompt: the reward side scales the reward and keeps beta (eq. 7), the
regularisation side keeps the reward and adapts beta (eq. 5). A method names the one it uses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from kappo import streams
from kappo.config import within
from kappo.theory import binary, winrate

Floats = NDArray[np.float64]
Interface = Literal["reward", "regularization"]


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
    beta: float

    def fit(self, bank_rewards: Floats, interface: Interface) -> Rows: ...

    def adapt(self, rewards: Floats, rows: Rows, interface: Interface) -> Adapted: ...


@dataclass(frozen=True)
class Binary:
    """pass@k pressure for rewards in {0, 1}: Algorithm 1 of KAPPO.

    On the reward side a success is worth a_k (eq. 7) with p_ref = N / M; on the regularisation side beta becomes
    beta / a_k with p_ref = N / (M + 0.5) and a cap of 2 (eq. 149).

    zero: what a prompt without a success in the bank gets. `paper`: a_k = k (eq. 148); `posterior`: the mean of
    a_k(p) over the posterior of p_ref given N = 0 under Jeffreys' prior; `drop`: a_k = 0, so that the prompt keeps
    the reference. Reward side only.
    assign: controls. `own`: each prompt its coefficient; `mean`: all prompts the mean one; `permuted`: coefficients
    dealt out at random.
    """

    k: int = within(1, at_least=1, at_most=1000)
    beta: float = within(0.1, at_least=1e-6, at_most=100)
    zero: Literal["paper", "posterior", "drop"] = "paper"
    assign: Literal["own", "mean", "permuted"] = "own"

    def fit(self, bank_rewards: Floats, interface: Interface = "reward") -> Rows:
        """bank_rewards: (P, M), each 0 or 1. Raises ValueError for other values."""
        rewards = _bank(bank_rewards)
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
        rows = Rows(
            successes=successes,
            q=successes / (total + alpha),
            p_star=table.p[successes],
            a=table.a[successes],
            beta_eff=beta_eff[successes],
            log_z=table.log_z[successes],
            rewards=rewards,
        )
        return self._controlled(rows, interface)

    def _controlled(self, rows: Rows, interface: Interface) -> Rows:
        """Coefficients by `zero` and `assign`; p_star and log_z follow from them."""
        if self.zero == "paper" and self.assign == "own":
            return rows
        if interface == "regularization":
            if self.zero != "paper":
                raise ValueError(f"zero = {self.zero!r}: prompts without a success give DPO no pair; set zero=paper")
            paired = (rows.successes > 0) & (rows.successes < rows.rewards.shape[1])
            beta_eff = _assigned(rows.beta_eff, self.assign, paired)
            return self._with(rows, self.beta / beta_eff, beta_eff)
        a, none = rows.a, rows.successes == 0
        if self.zero != "paper":
            value = 0.0 if self.zero == "drop" else self._posterior_mean(rows.rewards.shape[1])
            a = np.where(none, value, a)
        a = _assigned(a, self.assign, np.ones(len(a), dtype=bool))
        with np.errstate(divide="ignore"):
            return self._with(rows, a, self.beta / a)

    def _with(self, rows: Rows, a: Floats, beta_eff: Floats) -> Rows:
        """Other coefficients, and the optimum that goes with them: logit p* = logit q + a / beta (eq. 4)."""
        delta = a / self.beta
        p_star = np.exp(-binary.softplus(-binary.logit(rows.q) - delta))
        with np.errstate(divide="ignore"):
            log_z = np.logaddexp(np.log1p(-rows.q), np.log(rows.q) + delta)
        return replace(rows, a=a, beta_eff=beta_eff, log_z=log_z, p_star=p_star)

    def _posterior_mean(self, total: int) -> float:
        """E[a_k(p)], p ~ Beta(1/2, M + 1/2), by the midpoint rule in the posterior's quantiles."""
        quantiles = (np.arange(4096) + 0.5) / 4096
        p = betaincinv(0.5, total + 0.5, quantiles)
        return float(binary.solve(binary.logit(p), self.k, self.beta).a.mean())

    def adapt(self, rewards: Floats, rows: Rows, interface: Interface = "reward") -> Adapted:
        """rewards: (P, N) of rollouts on the prompts of `rows`."""
        return _scaled(rewards, rows, interface, self.beta)


@dataclass(frozen=True)
class NoPressure:
    """The ordinary @1 method, for any rewards: a = 1 and Z = mean exp(R / beta) over the bank.

    For rewards in {0, 1} this is binary pressure at k = 1.
    """

    beta: float = within(0.1, at_least=1e-6, at_most=100)

    def fit(self, bank_rewards: Floats, interface: Interface = "reward") -> Rows:
        rewards = _bank(bank_rewards)
        if np.isin(rewards, (0.0, 1.0)).all():
            return Binary(1, self.beta).fit(rewards, interface)
        if interface != "reward":
            raise ValueError("the regularisation side takes rewards in {0, 1}, this bank holds others")
        weights, log_z = _tilt(rewards / self.beta)
        return _plain(rewards, self.beta, log_z, (weights * rewards).sum(axis=1))

    def adapt(self, rewards: Floats, rows: Rows, interface: Interface = "reward") -> Adapted:
        return _scaled(rewards, rows, interface, self.beta)


@dataclass(frozen=True)
class WinRate:
    """max@k pressure on the reference's quantiles: Algorithm 2 of KAPPO (eq. 12), with Z = 1. Reward side.

    ties: the quantile of a reward that bank rewards share. `inclusive`: all of them count as below it (the paper's);
    `midrank`: half of them.
    """

    k: int = within(1, at_least=1, at_most=1000)
    beta: float = within(0.1, at_least=1e-6, at_most=100)
    ties: Literal["inclusive", "midrank"] = "inclusive"

    def fit(self, bank_rewards: Floats, interface: Interface = "reward") -> Rows:
        """bank_rewards: (P, M), any numbers. Raises ValueError for NaN, or on the regularisation side."""
        if interface != "reward":
            raise ValueError("win-rate pressure transforms rewards: it has no regularisation side")
        rewards = _bank(bank_rewards)
        weights, _ = _tilt(self._transformed(rewards, rewards) / self.beta)
        return _plain(rewards, self.beta, np.zeros(len(rewards)), (weights * rewards).sum(axis=1))

    def adapt(self, rewards: Floats, rows: Rows, interface: Interface = "reward") -> Adapted:
        """rewards: (P, N) of rollouts on the prompts of `rows`; the adapted reward is T at its quantile."""
        transformed = self._transformed(np.asarray(rewards, dtype=np.float64), rows.rewards)
        return Adapted(transformed, np.ones(rewards.shape), np.full(rewards.shape, self.beta), np.zeros(rewards.shape))

    def _transformed(self, rewards: Floats, bank: Floats) -> Floats:
        total = bank.shape[1]
        ordered = np.sort(bank, axis=1)
        upto = np.stack([np.searchsorted(b, r, side="right") for b, r in zip(ordered, rewards, strict=True)])
        if self.ties == "inclusive":
            return _table(total, self.k, self.beta)[2 * upto]
        below = np.stack([np.searchsorted(b, r, side="left") for b, r in zip(ordered, rewards, strict=True)])
        return _table(total, self.k, self.beta)[upto + below]


@lru_cache(maxsize=64)
def _table(total: int, k: int, beta: float) -> Floats:
    """T at the quantiles 0, 1/2M, 2/2M, ..., 1."""
    return winrate.transform(np.arange(2 * total + 1) / 2, total, k, beta)


def _bank(rewards: Floats) -> Floats:
    found = np.asarray(rewards, dtype=np.float64)
    if found.ndim != 2 or found.shape[1] == 0:
        raise ValueError(f"bank rewards of shape {found.shape}: expected (prompts, completions)")
    if not np.isfinite(found).all():
        row, column = np.argwhere(~np.isfinite(found))[0]
        raise ValueError(f"reward {found[row, column]} of prompt {row}, completion {column}: expected a finite number")
    return found


def _tilt(energies: Floats) -> tuple[Floats, Floats]:
    """Weights proportional to exp(energies) over each row, and the log of the row's mean of exp."""
    top = energies.max(axis=1, keepdims=True)
    weights = np.exp(energies - top)
    return weights / weights.sum(axis=1, keepdims=True), top[:, 0] + np.log(weights.mean(axis=1))


def _plain(rewards: Floats, beta: float, log_z: Floats, p_star: Floats) -> Rows:
    """Rows whose coefficients are the same for every prompt."""
    ones = np.ones(len(rewards))
    successes = (rewards == 1.0).sum(axis=1)
    return Rows(successes, rewards.mean(axis=1), p_star, ones, beta * ones, log_z, rewards)


def _assigned(values: Floats, how: str, taking_part: NDArray[np.bool_]) -> Floats:
    """The values of the prompts that take part, averaged or permuted among them."""
    found = values.copy()
    if how == "mean" and taking_part.any():
        found[taking_part] = values[taking_part].mean()
    elif how == "permuted":
        chosen = np.flatnonzero(taking_part)
        found[chosen] = values[chosen[streams.permutation(0, "pressure/permuted", len(chosen))]]
    return found


def _scaled(rewards: Floats, rows: Rows, interface: Interface, beta: float) -> Adapted:
    shape = rewards.shape
    log_z = np.broadcast_to(rows.log_z[:, None], shape)
    if interface == "reward":
        return Adapted(rewards, np.broadcast_to(rows.a[:, None], shape), np.full(shape, beta), log_z)
    return Adapted(rewards, np.ones(shape), np.broadcast_to(rows.beta_eff[:, None], shape), log_z)

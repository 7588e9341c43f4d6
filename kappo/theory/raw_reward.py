"""The KL-regularised max@k optimum for raw rewards (KAPPO, Section 4.3, eq. 8, 9 and 90-110, 115).

The optimal policy tilts the reference by exp(S_x(R) / beta), S_x(r) = H(r) = k int F*^(k-1): a transformation of the
reward that depends on the reward distribution F* of the optimum itself. A discrete reference (a bank) leaves one
unknown, c = 1 / Z, found by shooting in log c on recursion (104); a continuous one an initial value problem (95).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.optimize.elementwise import find_root

from kappo.theory.binary import Floats
from kappo.theory.winrate import check

FORGET = 40.0
"""How far below the grid, in log(r - low), the integration starts."""


@dataclass(frozen=True)
class DiscreteOptimum:
    """The optimum over the levels of one or many discrete references; arrays (..., m) but for log_c (...).

    rewards: ascending along the last axis, repetitions allowed. log_p: log of the optimum's mass on each entry.
    log_cdf: log P_j, cumulated. score: H_j, in units of the reward, H_1 = 0. log_c: -log Z of the score, in nats.
    """

    rewards: Floats
    log_p: Floats
    log_cdf: Floats
    score: Floats
    log_c: Floats
    k: int
    beta: float

    @property
    def beta_eff(self) -> Floats:
        """beta (r - r_1) / H(r), eq. 115, in [beta / k, inf]; at r_1 its limit from above, beta / (k P_1^(k-1))."""
        lowest = self.rewards[..., :1]
        rise = self.rewards - lowest
        top_of_lowest = np.where(rise == 0, self.log_cdf, -np.inf).max(axis=-1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            limit = self.beta / self.k * np.exp(-_power(top_of_lowest, self.k))
            return np.where(rise == 0, limit, self.beta * rise / self.score)

    def transform(self, rewards: ArrayLike) -> Floats:
        """S_x at the given rewards (..., N), by eq. 109: linear between levels with slope k P_j^(k-1).

        Below the lowest level the slope is that of an empty distribution: 0, but 1 at k = 1. In units of the reward.
        """
        r = np.asarray(rewards, dtype=np.float64)
        level = (self.rewards[..., None, :] <= r[..., :, None]).sum(axis=-1) - 1
        at = np.maximum(level, 0)
        base = np.take_along_axis(self.rewards, at, axis=-1)
        slope = self.k * np.exp(_power(np.take_along_axis(self.log_cdf, at, axis=-1), self.k))
        below = 1.0 if self.k == 1 else 0.0
        return np.take_along_axis(self.score, at, axis=-1) + np.where(level < 0, below, slope) * (r - base)


def solve_discrete(rewards: ArrayLike, k: int, beta: float, masses: ArrayLike | None = None) -> DiscreteOptimum:
    """Solve recursion (104) for P_m = 1 (eq. 105), for many references at once.

    rewards: (..., m), finite, in any order and with any repetitions, such as a bank's rows. masses: same shape, >= 0,
    each row of a positive sum (default: all alike, eq. 110). k >= 1; beta > 0. Raises ValueError outside these ranges.
    The root lies in -k (r_m - r_1) / beta <= log c <= 0, since 0 <= H <= k (r_m - r_1).
    """
    check(k, beta)
    values = np.asarray(rewards, dtype=np.float64)
    weights = np.ones_like(values) if masses is None else np.broadcast_to(np.asarray(masses, np.float64), values.shape)
    if values.ndim == 0 or values.shape[-1] == 0 or not np.isfinite(values).all():
        raise ValueError("rewards must be finite numbers, at least one a row")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and (weights.sum(axis=-1) > 0).all()):
        raise ValueError("masses must be finite numbers >= 0 with a positive sum in each row")
    order = np.argsort(values, axis=-1, kind="stable")
    values = np.take_along_axis(values, order, axis=-1)
    weights = np.take_along_axis(weights, order, axis=-1)
    shape, m = values.shape, values.shape[-1]
    with np.errstate(divide="ignore"):
        log_q = np.log(weights / weights.sum(axis=-1, keepdims=True)).reshape(-1, m)
    gaps = np.diff(values, axis=-1).reshape(len(log_q), m - 1)
    rows = np.arange(len(log_q))
    low = -k * gaps.sum(axis=-1) / beta

    def excess(log_c: Floats, row: Floats) -> Floats:
        at = row.astype(np.int64)
        return _shoot(log_c, log_q[at], gaps[at], k, beta)[1][..., -1]

    found = find_root(
        excess, (low - 1.0, np.full(len(rows), 1e-6)), args=(rows,), tolerances={"xrtol": 4e-16, "xatol": 1e-15}
    )
    log_c = np.where(gaps.sum(axis=-1) == 0, 0.0, found.x)
    log_p, log_cdf, score = _shoot(log_c, log_q, gaps, k, beta)
    return DiscreteOptimum(
        values, log_p.reshape(shape), log_cdf.reshape(shape), score.reshape(shape), log_c.reshape(shape[:-1]), k, beta
    )


def _shoot(log_c: Floats, log_q: Floats, gaps: Floats, k: int, beta: float) -> tuple[Floats, Floats, Floats]:
    """Recursion (104) from log c (n,): log p, log P and H, each (n, m). A trial beyond P = 1 goes on at slope k."""
    log_p, log_cdf, score = np.empty_like(log_q), np.empty_like(log_q), np.zeros_like(log_q)
    log_p[:, 0] = log_cdf[:, 0] = log_c + log_q[:, 0]
    for j in range(1, log_q.shape[1]):
        slope = k * np.exp(np.minimum(_power(log_cdf[:, j - 1], k), 0.0))
        score[:, j] = score[:, j - 1] + gaps[:, j - 1] * slope
        log_p[:, j] = log_c + log_q[:, j] + score[:, j] / beta
        log_cdf[:, j] = np.logaddexp(log_cdf[:, j - 1], log_p[:, j])
    return log_p, log_cdf, score


def _power(log_cdf: Floats, k: int) -> Floats:
    """log of P^(k-1), with P^0 = 1."""
    return (k - 1) * log_cdf if k > 1 else np.zeros_like(log_cdf)


@dataclass(frozen=True)
class ContinuousOptimum:
    """The optimum on a grid of rewards: its distribution function, S_x and beta_eff (eq. 115); log_c = -log Z."""

    rewards: Floats
    cdf: Floats
    score: Floats
    beta_eff: Floats
    log_c: float


def solve_continuous(
    density: Callable[[float], float], low: float, high: float, k: int, beta: float, rewards: ArrayLike
) -> ContinuousOptimum:
    """Solve (95) with (96), (97) by shooting in log c: F' = c f_ref exp(H / beta), H' = k F^(k-1).

    density: the reference's, positive and bounded inside the support [low, high]. rewards: the grid of the answer,
    ascending, inside the support. k >= 1; beta > 0. Raises ValueError outside these ranges. The unknowns are log F and
    log H, the variable log(r - low): small values keep their digits, and a start at the wrong value is forgotten on
    the way to the grid. About 10 digits at beta >= 0.01.
    """
    check(k, beta)
    grid = np.asarray(rewards, dtype=np.float64)
    if not (low < high and (np.diff(grid) > 0).all() and grid[0] >= low and grid[-1] <= high):
        raise ValueError(f"rewards must ascend inside the support [{low}, {high}]")
    above = grid[grid > low]
    nodes = np.log(np.union1d(above, high) - low)
    span = (nodes[0] - FORGET, nodes[-1])

    def full(x: float, y: Floats) -> float:
        return float(y[0])

    full.terminal, full.direction = True, 1  # type: ignore[attr-defined]

    def shoot(log_c: float, last: bool = False) -> Any:
        def slopes(x: float, y: Floats) -> tuple[float, float]:
            rise = math.exp(x)
            log_f = log_c + math.exp(min(y[1], 700.0)) / beta - y[0]
            return rise * density(low + rise) * math.exp(min(log_f, 700.0)), rise * k * math.exp((k - 1) * y[0] - y[1])

        rise = math.exp(span[0])
        log_cdf = log_c + math.log(rise * density(low + rise))
        start = (log_cdf, math.log(rise * k) + (k - 1) * log_cdf)
        events, at = (None, nodes) if last else (full, None)
        return solve_ivp(slopes, span, start, "DOP853", at, events=events, rtol=1e-12, atol=1e-12)

    def excess(log_c: float) -> float:
        end = shoot(log_c)
        return span[1] - end.t[-1] if end.status == 1 else end.y[0, -1]

    log_c = float(brentq(excess, -k * (high - low) / beta, 0.0, xtol=1e-14, rtol=1e-14))
    log_cdf, log_score = shoot(log_c, last=True).y[:, : len(above)]
    edge = [0.0] * (len(grid) - len(above))
    with np.errstate(over="ignore"):
        beta_eff = np.concatenate([edge or [], beta * np.exp(np.log(above - low) - log_score)])
    if edge:
        beta_eff[0] = beta if k == 1 else np.inf
    cdf, score = np.concatenate([edge, np.exp(log_cdf)]), np.concatenate([edge, np.exp(log_score)])
    return ContinuousOptimum(grid, np.minimum(cdf, 1.0), score, beta_eff, log_c)

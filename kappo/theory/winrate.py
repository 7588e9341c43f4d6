"""The KL-regularised max@k optimum for win-rate rewards (KAPPO, Proposition 4.7, Algorithm 2).

With c = beta C and J(v) = int_0^v dt / (1 + t^k), the normalisation int_0^1 du / (C + u^k / beta) = 1 reads
c^(1/k - 1) J(c^(-1/k)) = 1 / beta, and the quantile q of the reference's rewards lies at J(v) = q J(c^(-1/k)). All is
solved in log c and log v, so that beta = 1e-5 and k = 256 neither overflow nor lose digits. (The appendix prints
u^(k / beta) in Algorithm 2; the integrand is u^k / beta, as in eq. 12.)
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kappo.theory.binary import Floats, softplus

NEWTON_STEPS = 60
TERMS = 24
"""Terms of the accelerated alternating series: full double precision for arguments in [0, 1]."""


def _series_weights() -> Floats:
    """Weights of Cohen, Rodriguez Villegas and Zagier (2000), algorithm 1, for sum (-1)^n a_n."""
    d = (3 + np.sqrt(8.0)) ** TERMS
    d = (d + 1 / d) / 2
    b, c, weights = -1.0, -d, []
    for i in range(TERMS):
        c = b - c
        weights.append(c / d)
        b *= (i + TERMS) * (i - TERMS) / ((i + 0.5) * (i + 1))
    return np.array(weights)


WEIGHTS = _series_weights()
N = np.arange(TERMS)


def _below(v: Floats, k: int) -> Floats:
    """J(v) for 0 <= v <= 1."""
    return v * ((v**k)[..., None] ** N / (k * N + 1) @ WEIGHTS)


def _log_above(s: Floats, k: int) -> Floats:
    """log K(v), K(v) = int_v^inf dt / (1 + t^k), at s = log v >= 0."""
    w = np.exp(-k * s)
    return (1 - k) * s + np.log(w[..., None] ** N / (k * (N + 1) - 1) @ WEIGHTS)


def _whole(k: int) -> float:
    """J(infinity)."""
    return float(np.pi / k / np.sin(np.pi / k))


def _integral(s: float, k: int) -> float:
    """J(exp s)."""
    at = np.array(s)
    return float(_below(np.exp(at), k)) if s <= 0 else _whole(k) - float(np.exp(_log_above(at, k)))


def check(k: int, beta: float) -> None:
    """Raise ValueError unless k is a whole number >= 1 and beta a positive number."""
    if not (1 <= k < np.inf and int(k) == k):
        raise ValueError(f"k must be a whole number >= 1, got {k}")
    if not 0 < beta < np.inf:
        raise ValueError(f"beta must be a positive number, got {beta}")


@lru_cache(maxsize=256)
def log_c(k: int, beta: float) -> float:
    """log C of eq. 12. k >= 1; beta > 0. Raises ValueError outside these ranges."""
    check(k, beta)
    if k == 1:
        return float(-np.log(beta) - 1 / beta - np.log1p(-np.exp(-1 / beta)))
    start = -(k / (k - 1)) * np.log((1 / beta + 1 / (k - 1)) / _whole(k)) if beta < 1 else np.log(beta)
    y = float(start)
    for _ in range(NEWTON_STEPS):
        j = _integral(-y / k, k)
        value = -(1 - 1 / k) * y + np.log(j) + np.log(beta)
        slope = -(1 - 1 / k) - np.exp(-y / k - softplus(-y)) / (k * j)
        step = float(value / slope)
        y -= step
        if abs(step) <= 4e-16 * max(1.0, abs(y)):
            break
    return y - float(np.log(beta))


def _log_v(counts: Floats, total: float, k: int, beta: float) -> Floats:
    """log v at the quantiles counts / total, k >= 2; -inf at 0."""
    y = log_c(k, beta) + np.log(beta)
    top = -y / k
    whole = _integral(top, k)
    wanted = counts / total * whole
    low = wanted <= _integral(0.0, k)
    found = np.full(counts.shape, -np.inf)

    v = np.where(low, wanted, 0.0)
    for _ in range(NEWTON_STEPS):
        step = (_below(v, k) - np.where(low, wanted, 0.0)) * (1 + v**k)
        v = np.minimum(v - step, 1.0)
        if not (np.abs(step) > 4e-16 * v).any():
            break
    with np.errstate(divide="ignore"):
        found = np.where(low, np.log(v), found)
    if low.all():
        return found

    rest = (total - counts) / total * whole + (np.exp(_log_above(np.array(top), k)) if top > 0 else 0.0)
    if top <= 0:
        return np.where(low, found, top)
    log_rest = np.log(np.where(low, 1.0, rest))
    s = np.maximum(-(log_rest + np.log(k - 1)) / (k - 1), 0.0)
    for _ in range(NEWTON_STEPS):
        log_k = _log_above(s, k)
        step = np.where(low, 0.0, (log_k - log_rest) / np.exp(s - softplus(k * s) - log_k))
        s = np.maximum(s + step, 0.0)
        if not (np.abs(step) > 4e-16 * np.maximum(1.0, s)).any():
            break
    return np.where(low, found, s)


def _quantiles(counts: ArrayLike, total: float) -> Floats:
    found = np.asarray(counts, dtype=np.float64)
    if not total > 0 or not ((found >= 0) & (found <= total)).all():
        raise ValueError(f"counts must lie in [0, {total}]")
    return found


def transform(counts: ArrayLike, total: float, k: int, beta: float) -> Floats:
    """T of Algorithm 2 at the quantiles q = counts / total of the reference's rewards, in units of the reward.

    counts: in [0, total], any shape, halves allowed (mid-ranks). T(0) = beta log C; T(1) = beta log(C + 1 / beta).
    Convex and increasing; E[exp(T(U) / beta)] = 1 for U uniform. Raises ValueError outside the ranges.
    """
    return beta * log_c(k, beta) + rise(counts, total, k, beta)


def rise(counts: ArrayLike, total: float, k: int, beta: float) -> Floats:
    """T - T(0) at the quantiles counts / total, without the cancellation of a difference; `transform`'s ranges."""
    at = _quantiles(counts, total)
    return at / total if k == 1 else beta * softplus(k * _log_v(at, total, k, beta))


def inverse_psi(counts: ArrayLike, total: float, k: int, beta: float) -> Floats:
    """G = Psi^-1 of eq. 12 at the quantiles counts / total: G' = C + G^k / beta, G(0) = 0, G(1) = 1.

    How often the optimal policy's reward lies at or below that quantile, in [0, 1]; `transform`'s ranges.
    """
    at = _quantiles(counts, total)
    if k == 1:
        return np.exp((at / total - 1) / beta) * np.expm1(-at / total / beta) / np.expm1(-1 / beta)
    top = -(log_c(k, beta) + np.log(beta)) / k
    return np.exp(_log_v(at, total, k, beta) - top)


def table(total: int, k: int, beta: float) -> NDArray[np.float64]:
    """T_0 .. T_M of Algorithm 2, M = total."""
    return transform(np.arange(total + 1), total, k, beta)

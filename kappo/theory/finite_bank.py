"""What a bank of M completions costs: exact noise and bias of calibrated quantities (KAPPO, Appendix K, eq. 151-158).

A plug-in estimate is a function of N ~ Binomial(M, q) alone, so its mean and standard deviation are sums over the
M + 1 values of N. Quantities: p* and a_k from N / M; beta_eff from N / (M + 0.5) with the cap (eq. 153), relative to
the exact one; the win-rate score T at a reward of quantile q (eq. 155), relative to Delta_T = T(1) - T(0). Everywhere
q is the true success probability or quantile, in [0, 1], of any shape; other values raise ValueError.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, xlog1py, xlogy

from kappo.theory import binary, winrate
from kappo.theory.binary import Floats


@dataclass(frozen=True)
class Error:
    """Standard deviation and signed bias of an estimate, arrays of one shape, in the units of what is estimated."""

    sigma: Floats
    bias: Floats


def binomial(total: int, q: ArrayLike) -> Floats:
    """P(N = j), j = 0 .. total, N ~ Binomial(total, q), as (..., total + 1). q in [0, 1]."""
    at = np.asarray(q, dtype=np.float64)[..., None]
    j = np.arange(total + 1)
    log_choose = -np.log(total + 1) - betaln(total - j + 1, j + 1)
    return np.exp(log_choose + xlogy(j, at) + xlog1py(total - j, -at))


def error(table: ArrayLike, exact: ArrayLike, q: ArrayLike) -> Error:
    """Eq. 151 for an estimate that is table[N], N ~ Binomial(M, q), of `exact`.

    table: (M + 1,); exact and q: one shape, q in [0, 1].
    """
    values, truth, at = (np.asarray(v, dtype=np.float64) for v in (table, exact, q))
    weights = binomial(len(values) - 1, at)
    mean = weights @ values
    sigma = np.sqrt((weights * (values - mean[..., None]) ** 2).sum(axis=-1))
    return Error(sigma, (weights * (values - truth[..., None])).sum(axis=-1))


def p_star(total: int, k: int, beta: float, q: ArrayLike) -> Error:
    """Of p*, absolute."""
    return error(binary.solve_counts(np.arange(total + 1), total, k, beta).p, _exact(k, beta, q).p, q)


def a_k(total: int, k: int, beta: float, q: ArrayLike) -> Error:
    """Of a_k, absolute."""
    return error(binary.solve_counts(np.arange(total + 1), total, k, beta).a, _exact(k, beta, q).a, q)


def beta_eff(total: int, k: int, beta: float, q: ArrayLike) -> Error:
    """Of DPO's smoothed and capped beta_eff (eq. 153), relative to the exact one; NaN where that is infinite."""
    table = binary.dpo_beta(binary.solve_counts(np.arange(total + 1), total, k, beta, binary.DPO_ALPHA))
    exact = _exact(k, beta, q).beta_eff
    finite = np.where(np.isfinite(exact), exact, np.nan)
    found = error(table, np.where(np.isfinite(exact), exact, 0.0), q)
    return Error(found.sigma / finite, found.bias / finite)


def score(total: int, k: int, beta: float, q: ArrayLike) -> Error:
    """Of the win-rate score T at quantile q, relative to Delta_T."""
    ends = winrate.table(1, k, beta)
    exact = winrate.transform(q, 1.0, k, beta)
    table = winrate.table(total, k, beta)
    found = error(table - ends[0], exact - ends[0], q)
    return Error(found.sigma / (ends[1] - ends[0]), found.bias / (ends[1] - ends[0]))


def first_order(total: int, q: ArrayLike, slope: ArrayLike, curvature: ArrayLike) -> Error:
    """Lemma K.1, eq. 154, at fixed interior q: |theta'| sqrt(q (1 - q) / M) and theta'' q (1 - q) / 2 M, the leading
    terms for an estimate theta(N / M) with the given slope theta' and curvature theta'' at q.
    """
    variance = np.asarray(q, dtype=np.float64) * (1 - np.asarray(q, dtype=np.float64)) / total
    return Error(np.abs(slope) * np.sqrt(variance), np.asarray(curvature) * variance / 2)


def score_bounds(total: int, k: int, beta: float, q: ArrayLike) -> Error:
    """Lemma K.3, eq. 156: upper bounds of sigma and of the (never negative) bias of T, in units of the reward."""
    variance = np.asarray(q, dtype=np.float64) * (1 - np.asarray(q, dtype=np.float64)) / total
    top = np.exp(winrate.log_c(k, beta)) + 1 / beta
    return Error(k * np.sqrt(variance), k * (k - 1) * top * variance / 2)


def uniform_bound(total: int, k: int, delta: float) -> float:
    """Eq. 157: with probability at least 1 - delta no reward's T is off by more. delta in (0, 1)."""
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1), got {delta}")
    return float(k * np.sqrt(np.log(2 / delta) / (2 * total)))


def _exact(k: int, beta: float, q: ArrayLike) -> binary.BinaryOptimum:
    at = np.asarray(q, dtype=np.float64)
    if not ((at >= 0) & (at <= 1)).all():
        raise ValueError(f"q must lie in [0, 1], got {q!r}")
    return binary.solve(binary.logit(at), k, beta)

"""The KL-regularised pass@k optimum for binary rewards (KAPPO, Propositions 4.1 and 4.2).

Everything is computed from the logit of p_ref and in logarithms, so that beta = 1e-6, k = 1000 and
1 - p_ref = 1e-16 neither overflow nor lose digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

NEWTON_STEPS = 64
"""Upper bound; the iteration is monotone and needs at most about 26 steps."""

GRID = 128
"""Logits at which larger arrays are solved first, to start all others close to their roots."""

DPO_CAP = 2.0
DPO_ALPHA = 0.5


@dataclass(frozen=True)
class BinaryOptimum:
    """The optimum of one or many prompts; all arrays share one shape.

    log_p, log_1mp: logarithms of p* and 1 - p*. log_a: log of a_k = k (1 - p*)^(k-1) = beta / beta_eff.
    a: a_k, in [0, k]. beta_eff: in [beta / k, inf]. log_z: log of the partition function Z of eq. 5, in nats.
    """

    log_p: Floats
    log_1mp: Floats
    log_a: Floats
    a: Floats
    log_beta_eff: Floats
    beta_eff: Floats
    log_z: Floats

    @property
    def p(self) -> Floats:
        """Success probability p* of the optimal policy, in [0, 1]."""
        return np.exp(self.log_p)


def softplus(x: ArrayLike) -> Floats:
    """log(1 + exp(x)) without overflow."""
    return np.logaddexp(0.0, x)


def logit(p: ArrayLike) -> Floats:
    """log(p / (1 - p)); -inf at 0 and inf at 1."""
    p = np.asarray(p, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.log(p) - np.log1p(-p)


def solve(logit_ref: ArrayLike, k: int, beta: float) -> BinaryOptimum:
    """Solve eq. 6 for prompts with the given logits of p_ref.

    logit_ref: any shape, in [-inf, inf]. k >= 1; beta > 0. Raises ValueError outside these ranges or at NaN.
    With delta = a_k / beta = 1 / beta_eff and t = log delta, eq. 6 reads
    H(t) = t + log(beta / k) + (k - 1) softplus(logit_ref + exp t) = 0: increasing and convex with
    H(log(k / beta)) >= 0, so Newton's method falls monotonically onto the root.
    At p_ref = 0 the limit is p* = 0, a_k = k; at p_ref = 1 it is p* = 1, a_k = 0 (k > 1) or 1 (k = 1).
    """
    if not 1 <= k < np.inf or int(k) != k:
        raise ValueError(f"k must be a whole number >= 1, got {k}")
    if not (0 < beta < np.inf):
        raise ValueError(f"beta must be a positive number, got {beta}")
    ref = np.asarray(logit_ref, dtype=np.float64)
    if np.isnan(ref).any():
        raise ValueError("the reference success probability holds NaN")

    t = np.full(ref.shape, np.log(k / beta))
    if k > 1:
        inner = np.where(np.isfinite(ref), ref, 0.0)
        if inner.size > 2 * GRID:
            grid = np.linspace(inner.min(), inner.max(), GRID)
            t = np.interp(inner, grid, _newton(grid, np.full(GRID, np.log(k / beta)), k, beta))
        t = _newton(inner, t, k, beta)
        t = np.where(ref == np.inf, -np.inf, np.where(ref == -np.inf, np.log(k / beta), t))
    delta = np.exp(t)
    finite = np.where(np.isfinite(ref), ref, 0.0)
    logits = np.where(np.isfinite(ref), finite + delta, ref)
    with np.errstate(over="ignore", invalid="ignore"):
        inside = np.log1p(np.exp(-softplus(-finite)) * np.expm1(np.minimum(delta, 30.0)))
        if (delta >= 30.0).any():
            inside = np.where(delta < 30.0, inside, softplus(finite + delta) - softplus(finite))
    log_z = np.where(ref == np.inf, delta, np.where(ref == -np.inf, 0.0, inside))
    with np.errstate(over="ignore"):
        return BinaryOptimum(
            log_p=-softplus(-logits),
            log_1mp=-softplus(logits),
            log_a=np.log(beta) + t if k > 1 else np.zeros(ref.shape),
            a=beta * delta if k > 1 else np.ones(ref.shape),
            log_beta_eff=-t,
            beta_eff=np.exp(-t) if k > 1 else np.full(ref.shape, beta),
            log_z=log_z,
        )


def _newton(logits: Floats, t: Floats, k: int, beta: float) -> Floats:
    """The root of H for each logit, from a start t; steps shrink quadratically once they are small."""
    top, close = np.log(k / beta), False
    for _ in range(NEWTON_STEPS):
        delta = np.exp(t)
        at = logits + delta
        fails = softplus(at)
        step = (t - top + (k - 1) * fails) / (1.0 + (k - 1) * np.exp(at - fails) * delta)
        t = np.minimum(t - step, top)  # the root lies below; a start left of it may overshoot
        if close:
            break
        close = bool((np.abs(step) <= 1e-6 * np.maximum(1.0, np.abs(t))).all())
    return t


def solve_counts(successes: ArrayLike, total: int, k: int, beta: float, alpha: float = 0.0) -> BinaryOptimum:
    """`solve` for N successes out of M reference completions, p_ref = N / (M + alpha), without rounding p_ref first.

    successes: whole numbers in [0, total]. alpha >= 0 is the failure pseudo-count of Algorithm 1 (0.5 for DPO).
    """
    n = np.asarray(successes, dtype=np.float64)
    if not alpha >= 0:
        raise ValueError(f"alpha must be >= 0, got {alpha}")
    if total < 1 or ((n < 0) | (n > total) | (n != np.floor(n)) | np.isnan(n)).any():
        raise ValueError(f"successes must be whole numbers in [0, {total}], got {np.asarray(successes)!r}")
    with np.errstate(divide="ignore"):
        return solve(np.log(n) - np.log(total + alpha - n), k, beta)


def dpo_beta(optimum: BinaryOptimum, cap: float = DPO_CAP) -> Floats:
    """Algorithm 1, line 16 (eq. 149): min(beta / a_k, cap), compared in logs because a_k may underflow."""
    return np.where(optimum.log_beta_eff >= np.log(cap), cap, optimum.beta_eff)

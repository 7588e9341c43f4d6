"""Unbiased estimators of pass@k and max@k, and of the gradient of max@k, from n samples a problem."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kappo.theory.binary import Floats


def pass_at_k(successes: ArrayLike, samples: int, k: int) -> Floats:
    """Unbiased pass@k = 1 - C(n - c, k) / C(n, k) = 1 - prod_{i = n-c+1..n} (1 - k / i).

    successes: c, whole numbers in [0, n], any shape; samples: n; 1 <= k <= n. Raises ValueError otherwise: with
    n < k the quantity cannot be estimated without bias. Exactly 0 at c = 0 and exactly 1 where n - c < k.
    """
    c = np.asarray(successes, dtype=np.float64)
    if not 1 <= k <= samples:
        raise ValueError(f"pass@{k} needs between 1 and n = {samples} samples a problem: draw more samples or lower k")
    if ((c < 0) | (c > samples) | (c != np.floor(c)) | np.isnan(c)).any():
        raise ValueError(f"successes must be whole numbers in [0, {samples}]")
    i = np.arange(samples, k, -1, dtype=np.float64)
    log_all_fail = np.concatenate([[0.0], np.cumsum(np.log1p(-k / i))])
    within = np.minimum(c, samples - k).astype(np.int64)
    return np.where(samples - c < k, 1.0, -np.expm1(log_all_fail[within]))


def max_at_k(rewards: ArrayLike, k: int) -> Floats:
    """Unbiased max@k: the mean over all k-subsets of the n rewards (last axis) of their maximum.

    = sum_i C(i-1, k-1) / C(n, k) r_(i), r_(1) <= ... <= r_(n). Any real rewards; ties and order do not
    matter; for 0 and 1 it is pass@k. Raises ValueError unless 1 <= k <= n, or for NaN.
    """
    r = np.sort(np.asarray(rewards, dtype=np.float64), axis=-1)
    n = r.shape[-1]
    if not 1 <= k <= n:
        raise ValueError(f"max@{k} needs between 1 and n = {n} samples a problem: draw more samples or lower k")
    if np.isnan(r).any():
        raise ValueError("a reward is NaN")
    return r[..., k - 1 :] @ _top_weights(n, k)


def _top_weights(n: int, k: int) -> Floats:
    """C(i-1, k-1) / C(n, k) for i = k .. n: the chance that the i-th smallest is the largest of a k-subset."""
    i = np.arange(n, k, -1, dtype=np.float64)
    return (k / n * np.concatenate([[1.0], np.cumprod((i - k) / (i - 1))]))[::-1]


def pkpo(rewards: ArrayLike, k: int) -> Floats:
    """PKPO's weights s^(loo-1): sum_i s_i grad log pi(y_i) is an unbiased estimate of the gradient of max@k.

    rewards: (..., n), any real numbers. s_i = (k / n) E[(r_i - max of I)^+] over the (k-1)-subsets I of the other
    rewards: never negative; with n = k only a strict maximum earns anything. (Walder and Karkhanis 2025, their
    sloo_minus_one.) Raises ValueError unless 2 <= k <= n (at k = 1 the baseline is empty), or for NaN.
    """
    r = np.asarray(rewards, dtype=np.float64)
    n = r.shape[-1]
    if not 2 <= k <= n:
        raise ValueError(f"PKPO with k = {k}, n = {n}: expected 2 <= k <= n")
    if np.isnan(r).any():
        raise ValueError("a reward is NaN")
    order = np.argsort(r, axis=-1, kind="stable")
    ranked = np.take_along_axis(r, order, axis=-1)
    weights = np.zeros(n)
    weights[k - 2 : n - 1] = _top_weights(n - 1, k - 1)
    gaps = np.zeros_like(ranked)
    gaps[..., 1:] = np.cumsum(np.cumsum(weights)[:-1] * np.diff(ranked), axis=-1)
    scores = np.empty_like(r)
    np.put_along_axis(scores, order, k / n * gaps, axis=-1)
    return scores

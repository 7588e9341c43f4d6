"""Unbiased estimators of pass@k and max@k, and of the gradient of max@k, from n samples a problem."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


def policy_max_at_k(policy: ArrayLike, rewards: ArrayLike, k: int) -> tuple[Floats, Floats]:
    """E[max of k independent completions] of a known policy, and each completion's score S (KAPPO, eq. 90).

    policy, rewards: (..., n), probabilities that sum to 1 and their rewards. S_i = k int F^(k-1) up to r_i, from the
    lowest reward on: the gradient by the logits of a softmax policy is pi_i (S_i - sum_j pi_j S_j). k >= 1.
    """
    if not 1 <= k < np.inf or int(k) != k:
        raise ValueError(f"k must be a whole number >= 1, got {k}")
    pi, r = np.broadcast_arrays(np.asarray(policy, dtype=np.float64), np.asarray(rewards, dtype=np.float64))
    order = np.argsort(r, axis=-1, kind="stable")
    ranked = np.take_along_axis(r, order, axis=-1)
    below = np.cumsum(np.take_along_axis(pi, order, axis=-1), axis=-1)[..., :-1]
    gaps = np.diff(ranked, axis=-1)
    scores = np.zeros_like(ranked)
    scores[..., 1:] = np.cumsum(gaps * k * below ** (k - 1), axis=-1)
    placed = np.empty_like(scores)
    np.put_along_axis(placed, order, scores, axis=-1)
    return ranked[..., 0] + (gaps * -np.expm1(k * np.log(np.maximum(below, 1e-300)))).sum(axis=-1), placed


def pkpo(rewards: ArrayLike, k: int) -> Floats:
    """PKPO's weights s^(loo-1): sum_i s_i grad log pi(y_i) is an unbiased estimate of the gradient of max@k.

    rewards: (..., n), any real numbers. s_i = (k / n) E[(r_i - max of I)^+] over the (k-1)-subsets I of the other
    rewards: never negative; with n = k only a strict maximum earns anything. (Walder and Karkhanis 2025, their
    sloo_minus_one.) Raises ValueError unless 2 <= k <= n (at k = 1 the baseline is empty), or for NaN.
    """
    ranked, order, n = _ranked(rewards, k, 2)
    weights = np.zeros(n)
    weights[k - 2 : n - 1] = _top_weights(n - 1, k - 1)
    gaps = np.zeros_like(ranked)
    gaps[..., 1:] = np.cumsum(np.cumsum(weights)[:-1] * np.diff(ranked), axis=-1)
    return _placed(k / n * gaps, order)


def pkpo_plain(rewards: ArrayLike, k: int) -> Floats:
    """PKPO's weights without a baseline: s_i = (k / n) E[max of r_i and I], over the (k-1)-subsets I of the others.

    Same use and units as `pkpo`, higher variance. Raises ValueError unless 1 <= k <= n, or for NaN.
    """
    ranked, order, n = _ranked(rewards, k, 1)
    if k == 1:
        return _placed(ranked / n, order)
    weights = np.zeros(n)
    weights[k - 2 : n - 1] = _top_weights(n - 1, k - 1)
    chance_below = np.concatenate([[0.0], np.cumsum(weights)[:-1]])
    return _placed(k / n * (ranked * chance_below + _sum_above(weights[: n - 1], ranked)), order)


def pkpo_leave_one_out(rewards: ArrayLike, k: int) -> Floats:
    """PKPO's s^(loo): `pkpo_plain` minus k / (n - 1) times max@k of the other rewards.

    The scale of the baseline is the published one; k / n would be unbiased too. At k = 1 it is not RLOO's: r_i / n less
    the mean of the others / (n - 1).
    Raises ValueError unless 1 <= k < n (with n = k the others hold no k-subset), or for NaN.
    """
    ranked, order, n = _ranked(rewards, k, 1)
    if k >= n:
        raise ValueError(f"PKPO's leave-one-out baseline with k = {k}, n = {n}: expected k < n")
    weights = np.zeros(n - 1)
    weights[k - 1 :] = _top_weights(n - 1, k)
    below = np.zeros_like(ranked)
    below[..., 1:] = np.cumsum(weights * ranked[..., :-1], axis=-1)
    return pkpo_plain(rewards, k) - _placed(k / (n - 1) * (below + _sum_above(weights, ranked)), order)


def _ranked(rewards: ArrayLike, k: int, least: int) -> tuple[Floats, NDArray[np.int64], int]:
    r = np.asarray(rewards, dtype=np.float64)
    n = r.shape[-1]
    if not least <= k <= n:
        raise ValueError(f"PKPO with k = {k}, n = {n}: expected {least} <= k <= n")
    if np.isnan(r).any():
        raise ValueError("a reward is NaN")
    order = np.argsort(r, axis=-1, kind="stable")
    return np.take_along_axis(r, order, axis=-1), order, n


def _placed(ranked: Floats, order: NDArray[np.int64]) -> Floats:
    """Values of the ranks, at the places of the unsorted rewards."""
    scores = np.empty_like(ranked)
    np.put_along_axis(scores, order, ranked, axis=-1)
    return scores


def _sum_above(weights: Floats, ranked: Floats) -> Floats:
    """For each rank i: sum over j > i of weights[j - 1] r_(j); without i, rank j is the (j - 1)-th of the others."""
    terms = np.zeros_like(ranked)
    terms[..., :-1] = np.cumsum((weights * ranked[..., 1:])[..., ::-1], axis=-1)[..., ::-1]
    return terms


def leave_one_out(rewards: ArrayLike) -> Floats:
    """RLOO's advantage: each reward less the mean of the others on the last axis. Raises ValueError below 2 of them."""
    r = np.asarray(rewards, dtype=np.float64)
    n = r.shape[-1]
    if n < 2:
        raise ValueError(f"leave-one-out needs at least 2 samples, got {n}")
    return n / (n - 1) * (r - r.mean(axis=-1, keepdims=True))

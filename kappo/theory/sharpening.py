"""Optima of the four objectives of *Beyond Distribution Sharpening* (equations 1-6, table 1) on finite spaces.

All four are J(pi) = E_pi[r] - beta E_pi[log pi - alpha log pi_base]:

| objective | r | beta | optimum |
|---|---|---|---|
| task reward (eq. 3) | r_task | 0 | anything on argmax r_task |
| tilted (eq. 4) | r_task | > 0 | pi_base^alpha exp(r_task / beta) |
| sharpening (eq. 5) | alpha log pi_base | 0 | the mode of pi_base |
| tempered (eq. 6) | 0 | 1 | pi_base^alpha |

Completions lie on the last axis; log-probabilities and log Z are in nats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, logsumexp

from kappo.theory.binary import Floats


@dataclass(frozen=True)
class Optimum:
    """log_pi (..., n) of the optimal policy, log_z (...) = log sum pi_base^alpha exp(r / beta) = max J / beta."""

    log_pi: Floats
    log_z: Floats


def optimum(log_base: ArrayLike, rewards: ArrayLike, alpha: float, beta: float) -> Optimum:
    """The policy that maximises J at beta > 0; tempered: rewards 0. alpha >= 0. Raises ValueError outside these."""
    if not (0 < beta < np.inf and 0 <= alpha < np.inf):
        raise ValueError(f"alpha = {alpha}, beta = {beta}: expected alpha >= 0 and beta > 0; `best` is beta = 0")
    base = np.asarray(log_base, dtype=np.float64)
    logits = (alpha * base if alpha > 0 else np.where(base == -np.inf, -np.inf, 0.0)) + np.asarray(rewards) / beta
    log_z = logsumexp(logits, axis=-1)
    return Optimum(logits - log_z[..., None], log_z)


def best(rewards: ArrayLike) -> NDArray[np.bool_]:
    """Where the policies that maximise J at beta = 0 live: the completions of the highest reward."""
    found = np.asarray(rewards, dtype=np.float64)
    return found == found.max(axis=-1, keepdims=True)


def limit(log_base: ArrayLike, rewards: ArrayLike, alpha: float) -> Floats:
    """The tilted optimum as beta falls to 0: pi_base^alpha restricted to the completions of the highest reward."""
    kept = np.where(best(rewards), alpha * np.asarray(log_base, dtype=np.float64), -np.inf)
    return np.exp(log_softmax(kept, axis=-1))


def signal(log_pi: ArrayLike, log_base: ArrayLike, rewards: ArrayLike, alpha: float, beta: float) -> Floats:
    """A of grad J = E_pi[A grad log pi]: r - beta (log pi - alpha log pi_base)."""
    found = np.asarray(rewards, dtype=np.float64)
    return found - beta * (np.asarray(log_pi) - alpha * np.asarray(log_base)) if beta else found


def objective(log_pi: ArrayLike, log_base: ArrayLike, rewards: ArrayLike, alpha: float, beta: float) -> Floats:
    """J(pi), without the constant of a normalised pi_base^alpha."""
    return (np.exp(log_pi) * signal(log_pi, log_base, rewards, alpha, beta)).sum(axis=-1)


def gradient(logits: ArrayLike, log_base: ArrayLike, rewards: ArrayLike, alpha: float, beta: float) -> Floats:
    """dJ / d logits of a softmax policy: pi (A - E_pi[A])."""
    log_pi = log_softmax(np.asarray(logits, dtype=np.float64), axis=-1)
    pi, a = np.exp(log_pi), signal(log_pi, log_base, rewards, alpha, beta)
    return pi * (a - (pi * a).sum(axis=-1, keepdims=True))

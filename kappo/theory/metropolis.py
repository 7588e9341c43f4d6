"""Acceptance ratios of Metropolis-Hastings over token sequences, for samples of pi_base^alpha (power sampling).

A proposal keeps a prefix of the current sequence and draws the rest anew from the proposal distribution. Where the cut
falls is part of the proposal: drawn evenly over the positions of the current sequence, it has probability 1 / length,
and with sequences of different lengths that does not cancel.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kappo.theory.binary import Floats


def log_acceptance(
    alpha: float,
    base_current: ArrayLike,
    base_proposed: ArrayLike,
    drawn_current: ArrayLike,
    drawn_proposed: ArrayLike,
    length_current: ArrayLike,
    length_proposed: ArrayLike,
) -> Floats:
    """log min(1, pi(y') q(y | y') / (pi(y) q(y' | y))) with target pi = pi_base^alpha, unnormalised.

    base_*: log pi_base of the suffixes after the cut, in nats, of current y and proposed y'. drawn_*: log-probability
    of the same suffixes under the distribution that draws proposals. length_*: tokens in all, >= 1, the end token
    counted: the cut is drawn from so many positions. All of one shape. Raises ValueError for lengths below 1.
    """
    current, proposed = (np.asarray(v, dtype=np.float64) for v in (length_current, length_proposed))
    if (current < 1).any() or (proposed < 1).any():
        raise ValueError("lengths must be at least 1")
    target = alpha * (np.asarray(base_proposed, dtype=np.float64) - np.asarray(base_current, dtype=np.float64))
    back = np.asarray(drawn_current, dtype=np.float64) - np.asarray(drawn_proposed, dtype=np.float64)
    return np.minimum(0.0, target + back + np.log(current) - np.log(proposed))

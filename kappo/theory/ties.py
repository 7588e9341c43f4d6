"""Win-rate max@k with ties broken at random, solved exactly for a discrete reference (a bank).

Each completion gets a quantile u drawn evenly from its reward's atom [Q_(j-1), Q_j], and the policy, which cannot see
the draw, is to win max@k of u. Within an atom its distribution function F is a straight line, and eq. 90 with u for the
reward gives S_j = E[k int_0^u F^(k-1)] over the atom, p_j = q_j exp(S_j / beta) / Z. The objective is concave in p;
Newton's method in log p, on a path of falling beta, solves it. Not in the paper: its ties are inclusive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax

from kappo.theory.binary import Floats
from kappo.theory.winrate import check

NEWTON_STEPS = 60
NEAR = 1e-4


@dataclass(frozen=True)
class TiedOptimum:
    """log_p: of the optimum on each of the m atoms. score: S_j less beta log Z, so that sum_j q_j exp(S_j / beta) = 1.

    edge: the same for a reward that the reference never gives: below all atoms, between them, above all (m + 1). All
    scores are in units of the win rate.
    """

    log_p: Floats
    score: Floats
    edge: Floats


def solve(masses: ArrayLike, k: int, beta: float) -> TiedOptimum:
    """The optimum over atoms of the given masses, by ascending reward.

    masses: (m,), positive, of any sum. k >= 1; beta > 0. Raises ValueError outside these ranges.
    """
    check(k, beta)
    q = np.asarray(masses, dtype=np.float64)
    if q.ndim != 1 or len(q) == 0 or not (np.isfinite(q).all() and (q > 0).all()):
        raise ValueError("masses must be positive numbers, at least one")
    q = q / q.sum()
    nodes, weights = np.polynomial.legendre.leggauss(k // 2 + 1)
    rule = (nodes + 1) / 2, weights / 2
    tilt, strength = np.zeros(len(q)), max(beta, 1.0)
    while True:
        tilt = _newton(tilt, q, k, strength, rule)
        if strength == beta:
            break
        smaller = max(strength / 4, beta)
        tilt, strength = tilt * (strength / smaller), smaller
    log_p = log_softmax(np.log(q) + tilt)
    score, edge = _scores(np.exp(log_p), q, k, rule)
    shift = beta * np.logaddexp.reduce(np.log(q) + score / beta)
    return TiedOptimum(log_p, score - shift, edge - shift)


def _newton(tilt: Floats, q: Floats, k: int, beta: float, rule: tuple[Floats, Floats]) -> Floats:
    """log (p / q), up to a constant, of the optimum at this beta, from a start near it."""
    m = len(q)
    value, last = _loss(tilt, q, k, beta, rule), np.inf
    for _ in range(NEWTON_STEPS):
        p = np.exp(log_softmax(np.log(q) + tilt))
        score, _ = _scores(p, q, k, rule)
        residual = beta * tilt - score
        system = np.zeros((m + 1, m + 1))
        system[:m, :m] = beta * np.eye(m) - _slopes(p, q, k, rule) * p
        system[:m, m], system[m, :m] = -1.0, p
        step = np.linalg.solve(system, np.append(-residual, 0.0))[:m]
        length = np.abs(step).max()
        if length < NEAR:  # the loss is flat to rounding here; full steps converge quadratically
            tilt = tilt + step
            if length <= 1e-14 * max(1.0, np.abs(tilt).max()) or length > last / 2:
                break
            last = length
            continue
        size = 1.0
        while (trial := _loss(tilt + size * step, q, k, beta, rule)) > value + 1e-15 * abs(value) and size > 1e-9:
            size /= 2
        tilt, value = tilt + size * step, trial
    return tilt


def _levels(p: Floats, rule: tuple[Floats, Floats]) -> Floats:
    """F at the nodes of every atom, (m, nodes)."""
    below = np.concatenate([[0.0], np.cumsum(p)[:-1]])
    return np.minimum(below[:, None] + p[:, None] * rule[0], 1.0)


def _loss(tilt: Floats, q: Floats, k: int, beta: float, rule: tuple[Floats, Floats]) -> float:
    """beta KL(p | q) - max@k, less its constant: convex in p."""
    log_p = log_softmax(np.log(q) + tilt)
    p = np.exp(log_p)
    return float(beta * p @ (log_p - np.log(q)) + q @ (_levels(p, rule) ** k @ rule[1]))


def _scores(p: Floats, q: Floats, k: int, rule: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """S_j, and k int F^(k-1) up to the edges of the atoms."""
    nodes, weights = rule
    slope = k * _levels(p, rule) ** (k - 1)
    edge = np.concatenate([[0.0], np.cumsum(q * (slope @ weights))])
    return edge[:-1] + q * (slope @ (weights * (1 - nodes))), edge


def _slopes(p: Floats, q: Floats, k: int, rule: tuple[Floats, Floats]) -> Floats:
    """dS_j / dp_l, (m, m)."""
    if k == 1:
        return np.zeros((len(p), len(p)))
    nodes, weights = rule
    bend = q[:, None] * k * (k - 1) * _levels(p, rule) ** (k - 2) * weights
    whole, lower = bend.sum(axis=1), bend @ nodes
    upto = np.cumsum(whole)
    between = upto[:, None] - whole[:, None] - upto[None, :]
    below = np.tril(between + lower[None, :] + (bend @ (1 - nodes))[:, None], -1)
    return below + np.diag(bend @ (nodes * (1 - nodes)))

"""kappo.theory against the same sums written with scipy, one call an item: coefficients, Algorithm 2's table, max@k."""

from __future__ import annotations

import numpy as np
from _harness import report, side_by_side
from calibration import solve_with_brentq
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import comb

from kappo import streams
from kappo.evaluation import curve, interval
from kappo.theory import binary, winrate

PROMPTS, M = 7500, 30
PAIRS = [(k, beta) for k in (2, 4, 8, 16, 32, 64) for beta in (0.05, 0.1, 0.5, 1.0)]
KS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]


def table_with_quad(k: int, beta: float) -> np.ndarray:
    """C by root finding on a quadrature (eq. 12), then G at every quantile by another."""

    def psi(u: float, c: float) -> float:
        return quad(lambda x: 1 / (c + x**k / beta), 0, u, epsabs=1e-12)[0]

    c = brentq(lambda c: psi(1.0, c) - 1, 1e-3, 50)
    g = [brentq(lambda u, q=q: psi(u, c) - q, 0, 1) for q in np.arange(1, M) / M]
    return beta * np.log(c + np.array([0.0, *g, 1.0]) ** k / beta)


def curve_with_comb(rewards: np.ndarray) -> np.ndarray:
    """Each problem's max@k from binomials, problem by problem."""
    n, found = rewards.shape[1], np.zeros((len(rewards), len(KS)))
    for i, row in enumerate(np.sort(rewards, axis=1)):
        for j, k in enumerate(KS):
            chances = [comb(r, k - 1, exact=True) / comb(n, k, exact=True) for r in range(k - 1, n)]
            found[i, j] = row[k - 1 :] @ chances
    return found


def ours_of_table(k: int, beta: float) -> np.ndarray:
    winrate.log_c.cache_clear()
    return winrate.table(M, k, beta)


def main() -> None:
    counts = 1 + (streams.uniform(0, "bench", np.arange(PROMPTS)) * (M - 1)).astype(int)
    rewards = np.round(16 * streams.uniform(0, "bench/max", np.arange(500)[:, None], 0, np.arange(512))) / 16
    assert np.allclose(ours_of_table(4, 0.1), table_with_quad(4, 0.1), atol=1e-7), "the two disagree"
    assert np.allclose(curve(rewards[:4], KS), curve_with_comb(rewards[:4]), rtol=1e-9), "the two disagree"
    rows = [
        side_by_side(
            f"{PROMPTS} prompts x {len(PAIRS)} (k, beta)",
            lambda: [binary.solve_counts(np.arange(M + 1), M, k, beta).a[counts] for k, beta in PAIRS],
            lambda: solve_with_brentq(counts / M, *PAIRS[0]),
            "scipy brentq, one call a prompt, 1 of the 24 pairs",
            10.0,
            n=5,
        ),
        side_by_side(
            "binary solve, 7500 probabilities",
            lambda: binary.solve(binary.logit(counts / M), 4, 0.1),
            lambda: solve_with_brentq(counts / M, 4, 0.1),
            "scipy brentq, one call a prompt",
            50.0,
            n=5,
        ),
        side_by_side(
            "T table, M=30, k=4, beta=0.1",
            lambda: ours_of_table(4, 0.1),
            lambda: table_with_quad(4, 0.1),
            "scipy quad and brentq",
            1.0,
            n=5,
        ),
        side_by_side(
            "max@k, 500 x 512, 10 k, 1000 resamples",
            lambda: interval([curve(rewards, KS)], 1000),
            lambda: curve_with_comb(rewards[:10]),
            "exact binomials, 10 problems, no resampling",
            1.0,
            n=3,
        ),
    ]
    report("theory", rows)


if __name__ == "__main__":
    main()

"""Algorithm 1: coefficients of a bank against scipy.optimize.brentq on eq. 6, called for every prompt."""

from __future__ import annotations

import numpy as np
from _harness import report, side_by_side
from scipy.optimize import brentq

from kappo import streams
from kappo.pressure.binary import Binary

PROMPTS, M = 7500, 30


def solve_with_brentq(q: np.ndarray, k: int, beta: float) -> list[float]:
    def gap(p: float, ref: float) -> float:
        return k * (1 - p) ** (k - 1) - beta * np.log(p * (1 - ref) / (ref * (1 - p)))

    return [brentq(gap, ref, 1 - 1e-15, args=(ref,), xtol=1e-13) for ref in q]


def main() -> None:
    counts = 1 + (streams.uniform(0, "bench", np.arange(PROMPTS)) * (M - 1)).astype(int)
    rewards = (np.arange(M) < counts[:, None]).astype(float)
    rows = []
    for k, beta in ((2, 0.1), (4, 0.1), (8, 0.5)):
        ours, peer = Binary(k, beta).fit(rewards).p_star, np.array(solve_with_brentq(counts / M, k, beta))
        assert np.allclose(ours, peer, rtol=1e-9), "the two disagree"
        rows.append(
            side_by_side(
                f"{PROMPTS} prompts, k={k}, beta={beta:g}",
                lambda k=k, beta=beta: Binary(k, beta).fit(rewards),
                lambda k=k, beta=beta: solve_with_brentq(counts / M, k, beta),
                "scipy brentq, one call a prompt",
                50.0,
                n=5,
                amount=PROMPTS,
                unit="prompts/s",
            )
        )
    report("calibration", rows)


if __name__ == "__main__":
    main()

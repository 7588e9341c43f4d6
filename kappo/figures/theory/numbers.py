"""The numbers that KAPPO's text states about its mathematics and its costs, beside ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from kappo.figures.rows import Row
from kappo.figures.theory.optimum import REFERENCES, adaptive_pressure_rows
from kappo.figures.theory.optimum import K as FIGURE_K
from kappo.theory import binary, finite_bank, winrate
from kappo.theory.binary import Floats

if TYPE_CHECKING:
    from kappo.study_file import Theory

Curves = dict[tuple[str, str], list[float]]
"""Figure 1's values by panel and reference, `hard` or `easy`, by ascending reward."""

K, BETA, M = 4, 0.1, 30
"""What Appendix K computes its numbers at."""

LARGE, HUGE = 3000, 100_000
"""Bank sizes at which limits of large M are looked at."""

MISPRINT = "misprint"
LOST = "the number is missing in our copy of the text"
LIMIT = "a limit: ours at M = {:,}"


def numbers(settings: Theory) -> list[Row]:
    """A row a stated number: what, where, paper (as stated), ours, agrees, note.

    agrees: whether ours is the stated one to its last digit (whole numbers: to 1e-6), or keeps the stated bound; None
    where our copy of the text has lost the number. note: `misprint` marks formulas used as they are printed; `paper` is
    then what the paper's other equations demand. Rows of eq. 12 and 136 are at every k > 1 and beta of the settings,
    all others at the paper's own k, beta and M.
    """
    curves: Curves = {}
    for row in adaptive_pressure_rows(settings):
        curves.setdefault((row["panel"], row["reference"].split(":")[0]), []).append(row["y"])
    parts = _bank(), _limits(), _bounds(), _ordering(curves), _costs(), _misprints(settings, curves)
    return [row for part in parts for row in part]


def printed(rows: Sequence[Row]) -> str:
    """The rows as an aligned text table, a line a row, with a line of column names."""
    verdict = {True: "yes", False: "NO", None: "?"}
    lines = [("what", "where", "paper", "ours", "agrees", "note")]
    for row in rows:
        lines.append(
            (row["what"], row["where"], row["paper"], f"{row['ours']:.6g}", verdict[row["agrees"]], row["note"])
        )
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def agrees(paper: str, ours: float, within: float | None = None) -> bool | None:
    """Whether ours is the stated number, such as "0.553", "4.2 %", "225,000", "<= 5 %"; None for one that is lost.

    within: tolerance; without it, half a unit of the last decimal stated, or 1e-6 relative for whole numbers.
    """
    if not paper:
        return None
    found = re.fullmatch(r"(<=|<|>=)? ?(-?[\d,]+(?:\.(\d+))?)(?: %)?", paper)
    if not found:
        raise ValueError(f"{paper!r} is no stated number")
    stated, decimals = float(found[2].replace(",", "")), found[3]
    slack = 1e-9 * max(1.0, abs(stated))
    if found[1]:
        return {"<=": ours <= stated + slack, "<": ours < stated, ">=": ours >= stated - slack}[found[1]]
    if within is None:
        within = 0.5 * 10.0 ** -len(decimals) if decimals else 1e-6 * max(1.0, abs(stated))
    return bool(abs(ours - stated) <= within + slack)


def _row(what: str, where: str, paper: str, ours: Any, note: str = "", within: float | None = None) -> Row:
    found = float(ours)
    verdict = agrees(paper, found, within)
    return {"what": what, "where": where, "paper": paper, "ours": found, "agrees": verdict, "note": note}


def _bank() -> list[Row]:
    """Appendix K's examples and the end points of eq. 148, 152: k = 4, beta = 0.1, M = 30."""
    at = binary.solve_counts([0, 1, M], M, K, BETA)
    single = binary.solve_counts([M], M, 1, BETA)
    ends, p_star = "eq. 148, 152", finite_bank.p_star
    made = [
        _row("g(1/30), k=4", "K, sensitive regions", "0.553", at.p[1]),
        _row("g(0), k=4", ends, "0", at.p[0]),
        _row("g(1), k=4", ends, "1", at.p[2]),
        _row("a_k at N=0, k=4", ends, "4", at.a[0]),
        _row("a_k at N=M, k=4", ends, "0", at.a[2]),
        _row("beta log Z at N=0, k=4", ends, "0", BETA * at.log_z[0]),
        _row("beta log Z at N=M, k=4", ends, "0", BETA * at.log_z[2]),
        _row("target of a success at N=M, k=1", "eq. 148, text", "0", single.a[0] - BETA * single.log_z[0]),
        _row("Pr(N=0) = (1-q)^30, q=.01", "K, sensitive regions", "0.740", finite_bank.binomial(M, 0.01)[0]),
        _row("Pr(N=0) = (1-q)^30, q=.1", "K, sensitive regions", "0.042", finite_bank.binomial(M, 0.1)[0]),
        _row("Pr(N=M) = q^30, q=.99", "K.2, implications", "0.740", finite_bank.binomial(M, 0.99)[M]),
        _row("bias of p*, p_ref=.1, k=4", "K.1, implications", "-0.028", p_star(M, K, BETA, 0.1).bias),
        _row("bias of p*, p_ref=.5, k=4", "K.1, implications", "", p_star(M, K, BETA, 0.5).bias, LOST),
    ]
    for q in (0.5, 0.9, 0.99):
        error = finite_bank.score(M, K, BETA, q)
        made.append(_row(f"noise of T / Delta_T, q={q:g}, k=4", "K.2, implications", "", error.sigma, LOST))
        made.append(_row(f"bias of T / Delta_T, q={q:g}, k=4", "K.2, implications", "", error.bias, LOST))
    return made


def _limits() -> list[Row]:
    """Lemmas K.1 and K.2."""
    q, step = 0.1, 1e-4
    low, middle, high = binary.solve(binary.logit([q - step, q, q + step]), K, BETA).p
    slope, curvature = (high - low) / (2 * step), (high - 2 * middle + low) / step**2
    exact, leading = finite_bank.p_star(LARGE, K, BETA, q), finite_bank.first_order(LARGE, q, slope, curvature)
    smoothed = finite_bank.error(np.arange(M + 1) / (M + binary.DPO_ALPHA), 0.5, 0.5).bias

    cap_logit = _logit_where_beta_eff_is(binary.DPO_CAP)
    ends = binary.solve(cap_logit + np.array([-step, step]), K, BETA).beta_eff
    cap_q = 1 / (1 + np.exp(-cap_logit))
    slope_at_cap = (ends[1] - ends[0]) / (2 * step) / (cap_q * (1 - cap_q))
    shortfall = -slope_at_cap * np.sqrt(cap_q * (1 - cap_q) / (2 * np.pi * HUGE))
    noise, bias = exact.sigma / leading.sigma, exact.bias / leading.bias
    large, huge = LIMIT.format(LARGE), LIMIT.format(HUGE)
    return [
        _row("noise of p* / leading term, p_ref=.1", "lemma K.1, eq. 154", "1", noise, large, 0.01),
        _row("bias of p* / leading term, p_ref=.1", "lemma K.1, eq. 154", "1", bias, large, 0.01),
        _row("bias of q_D / (-q / (2M+1)), q=.5", "lemma K.2, proof", "1", smoothed / (-0.5 / (2 * M + 1))),
        _row("mean beta_eff where the exact one is > 2", "lemma K.2", "2", _mean_dpo(0.99), huge),
        _row("its bias where it is 2 / leading term", "lemma K.2", "1", (_mean_dpo(cap_q) - 2) / shortfall, huge, 0.01),
    ]


def _logit_where_beta_eff_is(value: float) -> float:
    """logit p_ref at which beta_eff has the value: there k (1 - p*)^(k-1) = beta / value."""
    p = 1 - (BETA / value / K) ** (1 / (K - 1))
    return float(binary.logit(p)) - 1 / value


def _mean_dpo(q: float) -> float:
    table = binary.dpo_beta(binary.solve_counts(np.arange(HUGE + 1), HUGE, K, BETA, binary.DPO_ALPHA))
    return float(finite_bank.error(table, 0.0, q).bias)


def _bounds() -> list[Row]:
    """Lemma K.3, over q in (0, 1)."""
    q = np.arange(1, 1000) / 1000
    rise = float(winrate.rise(1, 1, K, BETA))
    error, bound = finite_bank.score(M, K, BETA, q), finite_bank.score_bounds(M, K, BETA, q)
    slope = float(rise - winrate.rise(1 - 1e-7, 1, K, BETA)) / 1e-7
    noise, bias = (error.sigma * rise / bound.sigma).max(), (error.bias * rise / bound.bias).max()
    plain = finite_bank.score(M, 1, BETA, q).sigma / np.sqrt(q * (1 - q) / M)
    return [
        _row(
            "largest noise of T / its bound, k=4",
            "lemma K.3, eq. 156",
            "<= 1",
            noise,
        ),
        _row("largest bias of T / its bound, k=4", "lemma K.3, eq. 156", "<= 1", bias),
        _row("smallest bias of T, k=4", "lemma K.3, eq. 156", ">= 0", (error.bias * rise).min()),
        _row("steepest slope T'(1), k=4", "eq. 158", "<= 4", slope),
        _row("noise of T / sqrt(q (1-q) / M), k=1", "K.2, where error matters", "1", plain.max()),
    ]


def _ordering(curves: Curves) -> list[Row]:
    """Eq. 120 on the distributions of figure 1."""
    (hard, easy), where = REFERENCES, "eq. 120, figure 1"
    ratio = np.min(np.array(curves["b", easy]) / np.array(curves["b", hard]))
    gap = np.min(np.array(curves["c", hard]) - np.array(curves["c", easy]))
    return [
        _row("smallest beta_eff(easy) / beta_eff(hard)", where, ">= 1", ratio),
        _row("smallest S(hard) - S(easy)", where, ">= 0", gap),
    ]


def _costs() -> list[Row]:
    """Hours, rollouts and shares, from M = 30, 7,500 prompts, 128 prompts a step, 1,000 steps, 32 GPUs."""
    bank, shortest, longest, prompts, steps = 0.5, 10.0, 12.0, 128, 1000
    return [
        _row("bank / longest run, wall-clock", "eq. 147", "4.2 %", 100 * bank / longest),
        _row("bank / shortest run, wall-clock", "eq. 147", "5.0 %", 100 * bank / shortest),
        _row("bank / run, wall-clock, at most", "figure 3", "<= 5 %", 100 * bank / shortest),
        _row("completions in the bank", "reference calibration", "225,000", M * 7500),
        _row("minutes of the bank a run, six runs", "rollout comparison", "5", 60 * bank / 6),
        _row("the same, share of the shortest run", "rollout comparison", "< 1 %", 100 * bank / 6 / shortest),
        _row("completions a run, A*PO", "rollout comparison", "128,000", prompts * steps),
        _row("completions a run, PKPO, n=k=2", "rollout comparison", "", 2 * prompts * steps, LOST),
        _row("completions a run, PKPO, n=k=4", "rollout comparison", "", 4 * prompts * steps, LOST),
        _row("GPU-hours of the shortest run", "compute resources", "320", 32 * shortest),
        _row("GPU-hours of the longest run", "compute resources", "384", 32 * longest),
    ]


def _misprints(settings: Theory, curves: Curves) -> list[Row]:
    made = []
    for beta in settings.beta:
        for k in (k for k in settings.k if k > 1):
            right, as_printed = _mean_exponential(k, beta)
            what = f"E[exp(S / beta)], k={k}, beta={beta:g}"
            made.append(_row(what, "eq. 134, 136", "1", right))
            made.append(_row(what, "eq. 12 as printed", "1", as_printed, f"{MISPRINT}: Psi^-1(F)^k, not Psi^-1(F^k)"))
    right, as_printed = float(np.exp(winrate.log_c(K, BETA))), _printed_c()
    power = f"{MISPRINT}: u^k / beta, not u^(k / beta)"
    made += [
        _row("Psi(1) at its C, k=4", "eq. 131", "1", _psi(right)),
        _row("Psi(1) at its C, k=4", "algorithm 2 as printed", "1", _psi(as_printed), power),
        _row("C, k=4", "algorithm 2 as printed", f"{right:.5f}", as_printed, power),
        _row("T_0, k=4", "algorithm 2 as printed", f"{BETA * np.log(right):.5f}", BETA * np.log(as_printed), power),
    ]
    score = curves["c", "hard"][-1]
    bar = f"{MISPRINT}: the fraction bar is missing"
    made.append(_row("beta r / beta_eff, r=1, hard", "eq. 9 as printed", f"{score:.3f}", FIGURE_K**2 / score, bar))
    return made


def _mean_exponential(k: int, beta: float) -> tuple[float, float]:
    """E[exp(S / beta)] over a uniform quantile, by eq. 134 and by eq. 12 as printed; 1 - quantile = exp(-z)."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    z, weights = 18 * (nodes + 1), 18 * weights * np.exp(-18 * (nodes + 1))
    u = -np.expm1(-z)

    def inverse(q: Floats) -> Floats:
        return winrate.inverse_psi(q, 1.0, k, beta)

    c = float(np.exp(winrate.log_c(k, beta)))
    return float(c + weights @ inverse(u) ** k / beta), float(c + weights @ inverse(u**k) / beta)


def _psi(c: float) -> float:
    """Psi(1) of eq. 12."""
    return float(quad(lambda u: 1 / (c + u**K / BETA), 0, 1)[0])


def _printed_c() -> float:
    """The C that Algorithm 2 asks for with u^(k / beta)."""
    return float(brentq(lambda c: quad(lambda u: 1 / (c + u ** (K / BETA)), 0, 1)[0] - 1, 1e-3, 2))

"""claims.csv: a study's claims, each a difference of two arms paired within replicates, and its verdict.

A claim bounds a difference d: `at_least` c says d >= c, `at_most` c says d <= c, both together that d lies between.
It holds when the one-sided test of the opposite rejects, does not hold when the test of the claim itself rejects, both
at 5 % after Holm's correction over the study's claims, and is else not testable at this size. Several replicates:
Student's t over their differences. One: the normal approximation over its problems, a statement about it alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from kappo.evaluation import FILE, Floats, curve, interval
from kappo.figures.indexes import entries_of
from kappo.figures.rows import Row
from kappo.records import SAMPLES, by_prompt, read_table
from kappo.study_file import Arm, Claim

SIGNIFICANCE = 0.05
MISSING = "not in this run"
UNDECIDED = "not testable at this size"


def claims(indexes: Sequence[Path], wanted: Sequence[Claim], resamples: int) -> list[Row]:
    """Rows of claims.csv: the claim, mean difference with its 95 % interval, n replicates, p-values, verdict.

    Differences are fractions. p_holds, p_fails: Holm-adjusted. A claim about arms or splits that the indexes lack is
    `not in this run`.
    """
    entries = [{**entry, "folder": index.parent / entry["folder"]} for index in indexes for entry in entries_of(index)]
    differences = [_differences(entries, claim) for claim in wanted]
    raw = [_p_values(claim, values) for claim, values in zip(wanted, differences, strict=True)]
    tested = [i for i, values in enumerate(differences) if values]
    adjusted = {}
    for side in (0, 1):
        for i, p in zip(tested, holm([raw[i][side] for i in tested]), strict=True):
            adjusted[i, side] = p
    rows: list[Row] = []
    for i, (claim, values) in enumerate(zip(wanted, differences, strict=True)):
        row: Row = {"claim": claim.text, "split": claim.split, "k_eval": claim.k_eval, "bound": bound(claim)}
        row |= {"difference": "", "low": "", "high": "", "replicates": 0, "problems": 0, "p_holds": "", "p_fails": ""}
        row["verdict"] = MISSING
        if values:
            mean, low, high = (float(v[0]) for v in interval([d[:, None] for d in values], resamples, bounds=(-1, 1)))
            holds, fails = adjusted[i, 0], adjusted[i, 1]
            verdict = "holds" if holds < SIGNIFICANCE else "does not hold" if fails < SIGNIFICANCE else UNDECIDED
            row |= {"difference": mean, "low": low, "high": high, "replicates": len(values), "verdict": verdict}
            row |= {"problems": sum(map(len, values)), "p_holds": holds, "p_fails": fails}
        rows.append(row)
    return rows


def bound(claim: Claim) -> str:
    """The claimed range of the difference in words, in points."""
    sides = (("at least", claim.at_least), ("at most", claim.at_most))
    return " and ".join(f"{side} {100 * value:g}" for side, value in sides if value is not None)


def _differences(entries: Sequence[Mapping[str, Any]], claim: Claim) -> list[Floats]:
    """For each replicate that has both arms: left - right at k_eval by problem."""
    found = []
    for replicate in sorted({entry["replicate"] for entry in entries}):
        sides = []
        for arm in (claim.left, claim.right):
            here = [e for e in entries if e["split"] == claim.split and e["replicate"] == replicate and _is(e, arm)]
            if not here:
                break
            _, rewards = by_prompt(read_table(here[0]["folder"] / FILE, SAMPLES), "reward")
            sides.append(curve(rewards, [claim.k_eval])[:, 0])
        if len(sides) == 2:
            found.append(sides[0] - sides[1])
    return found


def _is(entry: Mapping[str, Any], arm: Arm) -> bool:
    return arm.names(Arm(entry["method"], entry["k"], entry["pressure"], entry["arm"]))


def _p_values(claim: Claim, values: Sequence[Floats]) -> tuple[float, float]:
    """One-sided p-values: of the opposite of the claim (small: it holds), and of the claim (small: it fails)."""
    if not values:
        return 1.0, 1.0
    means = np.array([d.mean() for d in values])
    if len(means) > 1:
        error, tail = means.std(ddof=1) / np.sqrt(len(means)), student(len(means) - 1)
    else:
        error, tail = values[0].std(ddof=1) / np.sqrt(len(values[0])), norm
    error = max(float(error), 1e-12)
    sides = []
    if claim.at_least is not None:
        sides.append(float(tail.sf((means.mean() - claim.at_least) / error)))
    if claim.at_most is not None:
        sides.append(float(tail.sf((claim.at_most - means.mean()) / error)))
    return max(sides), min(1.0, len(sides) * min(1 - p for p in sides))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the given order."""
    order = np.argsort(p, kind="stable")
    adjusted, worst = np.empty(len(p)), 0.0
    for rank, i in enumerate(order):
        worst = max(worst, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = worst
    return adjusted.tolist()


def verdict(rows: Sequence[Row]) -> str:
    """The table in words, in points."""
    lines = []
    for row in rows:
        if row["verdict"] == MISSING:
            lines.append(f"{MISSING:26}{row['claim']}")
            continue
        numbers = f"{100 * row['difference']:+.1f} [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]"
        lines.append(f"{row['verdict']:26}{row['claim']}: {numbers}, claimed {row['bound']}")
    n = max((row["replicates"] for row in rows), default=0)
    how = f"Student's t over {n} replicates" if n > 1 else "one replicate, over its problems: says nothing about others"
    return "\n".join([*lines, f"in points, 95 % intervals ({how}); verdicts at 5 %, Holm over the claims"])

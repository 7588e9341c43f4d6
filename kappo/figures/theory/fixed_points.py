"""Where every method goes on a table, and how it gets there: distance to the optimum against steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kappo.figures import style
from kappo.figures.rows import Row
from kappo.figures.theory.optimum import digits

FLOOR = 1e-5
"""Distances below are drawn here."""

REACHES, MISSES = style.COLOURS[1], style.COLOURS[0]


def fixed_points(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Each arm's last success probability by exact and sampled gradients, on what theory expects: folder/fixed_points.*

    rows: arm, why, reaches, step, exact, sampled, expected, optimum; the last step of each arm is drawn.
    """
    plt = style.pyplot()
    last = _last(rows)
    figure, axis = plt.subplots(figsize=(style.WIDTH * 1.25, 0.15 * len(last) + 0.6))
    heights = -np.arange(len(last))
    for height, row in zip(heights, last, strict=True):
        colour = REACHES if row["reaches"] else MISSES
        axis.plot([row["optimum"], row["expected"]], [height] * 2, color=colour, linewidth=0.8)
        axis.plot(row["optimum"], height, "|", color=style.BASE, markersize=8)
    for kind, marker, size in (("exact", "o", 5.0), ("sampled", "x", 3.5)):
        for reaches, colour in ((True, REACHES), (False, MISSES)):
            own = [(row[kind], at) for row, at in zip(last, heights, strict=True) if row["reaches"] is reaches]
            colour = style.BASE if kind == "sampled" else colour
            axis.plot(*np.array(own).T, marker, color=colour, markersize=size, clip_on=False, zorder=3)
    axis.set_yticks(heights, [f"{row['arm']}: {row['why']}" for row in last], fontsize=6)
    axis.set_ylim(heights[-1] - 0.7, 0.7)
    axis.set_xlim(0, 1)
    axis.set_xlabel("success probability reached: circle exact, cross sampled gradients; bar: the optimum $p^*$")
    handles = [plt.Line2D([], [], marker="o", linestyle="", color=c) for c in (REACHES, MISSES)]
    texts = ["theory: reaches $p^*$", "theory: does not"]
    figure.legend(handles, texts, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=2, frameon=False)
    return style.save(figure, folder / "fixed_points", digits(last))


def convergence(rows: Sequence[Row], folder: Path) -> list[Path]:
    """|p - p*| against steps for every arm, exact and sampled: folder/convergence.*; rows as for `fixed_points`."""
    plt = style.pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(style.WIDTH, 2.6), sharey=True, sharex=True)
    drawn = []
    for axis, kind in zip(axes, ("exact", "sampled"), strict=True):
        for arm in dict.fromkeys(row["arm"] for row in rows):
            own = [row for row in rows if row["arm"] == arm]
            distance = [abs(row[kind] - row["optimum"]) for row in own]
            colour = REACHES if own[0]["reaches"] else MISSES
            steps = [row["step"] for row in own]
            axis.plot(steps, np.maximum(distance, FLOOR), color=colour, linewidth=0.7, alpha=0.7)
            about = {name: own[0][name] for name in ("arm", "why", "reaches", "optimum", "expected")}
            for step, value in zip(steps, distance, strict=True):
                drawn.append({**about, "gradients": kind, "step": step, "distance": value})
        axis.set_yscale("log")
        axis.set_ylim(FLOOR, 1)
        axis.set_xlabel("steps")
        axis.set_title(f"{kind} gradients")
    axes[0].set_ylabel("distance to the optimum, $|p - p^*|$")
    handles = [plt.Line2D([], [], color=c) for c in (REACHES, MISSES)]
    texts = ["theory: reaches $p^*$", "theory: does not"]
    figure.tight_layout()
    figure.legend(handles, texts, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=2, frameon=False)
    return style.save(figure, folder / "convergence", digits(drawn))


def shared_parameters(rows: Sequence[Row], folder: Path) -> list[Path]:
    """J_4 of two prompts that share one logit shift, against it, and where each side ends: folder/shared_parameters.*

    rows: arm, step, shift, objective; arm `J_4` is the curve, with the shift for x.
    """
    plt = style.pyplot()
    figure, axis = plt.subplots(figsize=(style.WIDTH * 0.8, 2.5))
    curve = [row for row in rows if row["arm"] == "J_4"]
    axis.plot([row["shift"] for row in curve], [row["objective"] for row in curve], color=style.BASE)
    for at, row in enumerate(_last([row for row in rows if row["arm"] != "J_4"])):
        look: dict[str, Any] = {"color": style.COLOURS[at % len(style.COLOURS)], "marker": style.MARKERS[at]}
        label = f"{row['arm']}: {row['objective']:.4f}"
        axis.plot(row["shift"], row["objective"], linestyle="", markersize=5, label=label, zorder=3, **look)
    axis.set_xlabel("shared logit shift")
    axis.set_ylabel(r"$J_4$: mean of pass@4 $- \beta$ KL")
    figure.tight_layout()
    figure.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=2, frameon=False)
    return style.save(figure, folder / "shared_parameters", digits(list(rows)))


def _last(rows: Sequence[Row]) -> list[Row]:
    return list({row["arm"]: row for row in rows}.values())

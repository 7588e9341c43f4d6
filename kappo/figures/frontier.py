"""All arms of a study as points: what they gain at one attempt against what they keep at many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kappo.figures import style
from kappo.figures.curves import drawable
from kappo.figures.rows import Row, arm_of, arms_of


def points(rows: Sequence[Row]) -> list[Row]:
    """For each arm the metric at k_eval = 1 on the first split (x) and at the largest k_eval on the last split (y)."""
    picked = [row for row in drawable(rows) if row["split"] != "validation"]
    splits = list(dict.fromkeys(row["split"] for row in picked))
    most = max(row["k_eval"] for row in picked)
    made = []
    for arm in arms_of(picked):
        row: Row = dict(zip(("method", "pressure", "k", "arm"), arm, strict=True))
        for axis, split, k in (("x", splits[0], 1), ("y", splits[-1], most)):
            at = next(r for r in picked if arm_of(r) == arm and r["split"] == split and r["k_eval"] == k)
            row |= {axis: at["mean"], f"{axis}_low": at["low"], f"{axis}_high": at["high"]}
        made.append({**row, "x_is": f"{splits[0]} @1", "y_is": f"{splits[-1]} @{most}"})
    return made


def frontier(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Points with intervals, numbered; the legend names them: folder/frontier.{pdf,png,csv}."""
    plt = style.pyplot()
    made = points(rows)
    names = arms_of(made)
    figure, axis = plt.subplots(figsize=(style.WIDTH * 1.25, 0.5 + max(3.2, 0.155 * len(made))))
    for n, row in enumerate(made):
        base = row["method"] == "base"
        colour = style.BASE if base else style.COLOURS[n % len(style.COLOURS)]
        x, y = 100 * row["x"], 100 * row["y"]
        reach = [
            [[max(0.0, v - 100 * row[f"{a}_low"])], [max(0.0, 100 * row[f"{a}_high"] - v)]]
            for a, v in (("x", x), ("y", y))
        ]
        marker = "*" if base else style.MARKERS[n % len(style.MARKERS)]
        axis.errorbar(
            x,
            y,
            xerr=reach[0],
            yerr=reach[1],
            color=colour,
            marker=marker,
            linewidth=0.6,
            linestyle="none",
            label=f"{n}  {names[arm_of(row)]}",
        )
        axis.annotate(str(n), (x, y), textcoords="offset points", xytext=(3, 3), fontsize=6)
    axis.set_xlabel(f"{made[0]['x_is']} (%)")
    axis.set_ylabel(f"{made[0]['y_is']} (%)")
    axis.legend(frameon=False, fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    return style.save(figure, folder / "frontier", made)

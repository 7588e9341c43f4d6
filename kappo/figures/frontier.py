"""All arms of a study as points: what they keep at many attempts against what they gain at one, and against KL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kappo.figures import style
from kappo.figures.curves import drawable
from kappo.figures.rows import Row, arm_of, arms_of


def points(rows: Sequence[Row]) -> list[Row]:
    """For each arm its KL and the metric at k_eval = 1 on the first split (x), at the largest on the last split (y)."""
    picked = [row for row in drawable(rows) if row["split"] != "validation"]
    splits = list(dict.fromkeys(row["split"] for row in picked))
    most = max(row["k_eval"] for row in picked)
    made = []
    for arm in arms_of(picked):
        row: Row = dict(zip(("method", "pressure", "k", "arm"), arm, strict=True))
        row["kl"] = next(r["kl"] for r in picked if arm_of(r) == arm)
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
    figure, axes = plt.subplots(1, 2, figsize=(style.WIDTH * 1.4, 2.6), sharey=True)
    for n, row in enumerate(made):
        base = row["method"] == "base"
        look = {
            "color": style.BASE if base else style.COLOURS[n % len(style.COLOURS)],
            "marker": "*" if base else style.MARKERS[(n // len(style.COLOURS)) % len(style.MARKERS)],
            "linewidth": 0.5,
            "linestyle": "none",
        }
        x, y = 100 * row["x"], 100 * row["y"]
        sides = {"yerr": _reach(row, "y")}
        name = f"{n}  {names[arm_of(row)]}"
        axes[0].errorbar(x, y, xerr=_reach(row, "x"), **sides, **look, label=name)
        axes[1].errorbar(row["kl"], y, **sides, **look)
        for axis, at in zip(axes, (x, row["kl"]), strict=True):
            axis.annotate(str(n), (at, y), textcoords="offset points", xytext=(2, 2), fontsize=5.5)
    axes[0].set_xlabel(f"{made[0]['x_is']} (%)")
    axes[1].set_xlabel("KL to the base model (nats)")
    axes[0].set_ylabel(f"{made[0]['y_is']} (%)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.tight_layout()
    figure.legend(handles, labels, frameon=False, fontsize=6, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=4)
    return style.save(figure, folder / "frontier", made)


def _reach(row: Row, axis: str) -> list[list[float]]:
    """Lengths of the error bar below and above, in percent."""
    middle = 100 * row[axis]
    return [[max(0.0, middle - 100 * row[f"{axis}_low"])], [max(0.0, 100 * row[f"{axis}_high"] - middle)]]

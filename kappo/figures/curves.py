"""pass@k or max@k against k_eval (KAPPO, figures 2 and 4): a figure a method, a panel a split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kappo.errors import UserError
from kappo.figures import style
from kappo.figures.rows import Arm, Row, arm_of, arms_of, methods_of

TITLES = {"id": "in distribution", "hard": "hard", "validation": "validation (selects checkpoints)"}


INSIDE = 4
"""Curves whose legend still fits into a panel; that of more stands below."""


def drawable(rows: Sequence[Row]) -> list[Row]:
    """The rows over all replicates. Raises UserError when there are none."""
    found = [row for row in rows if row["replicate"] == "all"]
    if not found:
        raise UserError("at_k.csv has no rows of replicate `all`: make it again with `kappo tables`")
    return found


def panel(axis: Any, rows: Sequence[Row], arms: Mapping[Arm, str], split: str) -> list[Row]:
    """Draw the split's curves of some arms with their intervals; returns the rows drawn."""
    drawn: list[Row] = []
    trained = [arm for arm in arms if arm[0] != "base"]
    for arm, name in arms.items():
        line = sorted((r for r in rows if r["split"] == split and arm_of(r) == arm), key=lambda r: r["k_eval"])
        colour, marker, dashes = style.BASE, None, "--"
        if arm in trained:
            turn, place = divmod(trained.index(arm), len(style.COLOURS))
            colour, marker = style.COLOURS[place], style.MARKERS[place]
            dashes = ("-", ":", "-.")[turn % 3]
        ks = [row["k_eval"] for row in line]
        means, lows, highs = ([100 * row[name] for row in line] for name in ("mean", "low", "high"))
        axis.plot(ks, means, color=colour, marker=marker, linestyle=dashes, label=name, zorder=3)
        axis.fill_between(ks, lows, highs, color=colour, alpha=0.15, linewidth=0)
        drawn += line
    ks = sorted({row["k_eval"] for row in drawn})
    axis.set_xscale("log", base=2)
    axis.set_xticks(ks, [str(k) for k in ks])
    axis.minorticks_off()
    axis.set_ylim(0, 100)
    return drawn


def at_k(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw at_k.csv's test splits, one figure a method: folder/at_k_METHOD.{pdf,png,csv}; returns the paths."""
    picked = [row for row in drawable(rows) if row["split"] != "validation"]
    return [path for method in methods_of(picked) for path in _figure(picked, method, folder / f"at_k_{method}")]


def _figure(rows: Sequence[Row], method: str, stem: Path) -> list[Path]:
    plt = style.pyplot()
    arms = {arm: name for arm, name in arms_of(rows).items() if arm[0] in ("base", method)}
    splits, metric = list(dict.fromkeys(row["split"] for row in rows)), rows[0]["metric"]
    figure, axes = plt.subplots(1, len(splits), figsize=(style.WIDTH, 2.35), squeeze=False)
    drawn = []
    for axis, split in zip(axes[0], splits, strict=True):
        drawn += panel(axis, rows, arms, split)
        count = next(row["n_problems"] for row in rows if row["split"] == split)
        axis.set_title(f"{TITLES.get(split, split)} ({count} problems)")
        axis.set_xlabel(r"$k_{\mathrm{eval}}$")
    axes[0][0].set_ylabel(f"{metric}@$k_{{\\mathrm{{eval}}}}$ (%)")
    figure.tight_layout(w_pad=1.2)
    if len(arms) <= INSIDE:
        axes[0][-1].legend(frameon=False)
    else:
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=3, frameon=False)
    return style.save(figure, stem, drawn)

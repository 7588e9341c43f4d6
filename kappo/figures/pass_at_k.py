"""pass@k against k_eval for the base model and each trained k (KAPPO, figure 2): one panel a split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kappo.errors import UserError
from kappo.figures import style
from kappo.figures.at_k import Row, arms_of

TITLES = {"id": "in distribution", "hard": "hard"}


def pass_at_k(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the rows of at_k.csv whose replicate is `all` into folder/pass_at_k.{pdf,png,csv}; returns the paths."""
    plt = style.pyplot()
    drawn = [row for row in rows if row["replicate"] == "all" and row["metric"] == "pass"]
    if not drawn:
        raise UserError("at_k.csv has no rows of replicate `all`: make it again with `kappo tables`")
    splits = list(dict.fromkeys(row["split"] for row in drawn))
    arms = arms_of(drawn)
    trained = [arm for arm in arms if arm[0] != "base"]
    figure, axes = plt.subplots(1, len(splits), figsize=(style.WIDTH, 2.35), squeeze=False)
    for axis, split in zip(axes[0], splits, strict=True):
        for arm, name in arms.items():
            line = [r for r in drawn if r["split"] == split and (r["method"], r["pressure"], r["k"]) == arm]
            line.sort(key=lambda row: row["k_eval"])
            place = trained.index(arm) if arm in trained else -1
            colour = style.BASE if place < 0 else style.COLOURS[place % len(style.COLOURS)]
            marker = None if place < 0 else style.MARKERS[place % len(style.MARKERS)]
            k_eval = [row["k_eval"] for row in line]
            axis.plot(
                k_eval,
                [100 * row["mean"] for row in line],
                color=colour,
                marker=marker,
                linestyle="--" if place < 0 else "-",
                label=name,
                zorder=3,
            )
            axis.fill_between(
                k_eval,
                [100 * row["low"] for row in line],
                [100 * row["high"] for row in line],
                color=colour,
                alpha=0.15,
                linewidth=0,
            )
        ks = sorted({row["k_eval"] for row in drawn})
        axis.set_xscale("log", base=2)
        axis.set_xticks(ks, [str(k) for k in ks])
        axis.minorticks_off()
        axis.set_ylim(0, 100)
        axis.set_xlabel(r"$k_{\mathrm{eval}}$")
        first = next(row for row in drawn if row["split"] == split)
        axis.set_title(f"{TITLES.get(split, split)} ({first['n_problems']} problems)")
    axes[0][0].set_ylabel(r"pass@$k_{\mathrm{eval}}$ (%)")
    axes[0][0].legend(frameon=False, loc="lower right")
    figure.tight_layout(w_pad=1.2)
    return style.save(figure, folder / "pass_at_k", drawn)

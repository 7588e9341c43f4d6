"""Completions that each arm samples: its run, its run and the bank, and its run with its share of a bank used by N."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kappo.figures import style
from kappo.figures.curves import drawable
from kappo.figures.rows import Row, arm_of, arms_of


def table(rows: Sequence[Row]) -> list[Row]:
    """One row an arm of at_k.csv: run, run_and_bank, run_and_share; sharing: N, the study's arms that use the bank."""
    arms = {arm: next(r for r in rows if arm_of(r) == arm) for arm in arms_of(rows) if arm[0] != "base"}
    sharing = sum(row["bank_rollouts"] > 0 for row in arms.values())
    made = []
    for arm, row in arms.items():
        run, bank = row["rollouts"], row["bank_rollouts"]
        named = dict(zip(("method", "pressure", "k", "arm"), arm, strict=True))
        share = round(run + bank / max(sharing, 1))
        made.append({**named, "run": run, "run_and_bank": run + bank, "run_and_share": share, "sharing": sharing})
    return made


def rollouts(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Bars: folder/rollouts.{pdf,png,csv}."""
    plt = style.pyplot()
    made = table(drawable(rows))
    names = [arms_of(made)[arm_of(row)] for row in made]
    figure, axis = plt.subplots(figsize=(style.WIDTH, 0.6 + 0.28 * len(made)))
    for n, (column, text) in enumerate(
        (("run", "run"), ("run_and_share", f"run + bank / {made[0]['sharing']}"), ("run_and_bank", "run + bank"))
    ):
        places = [i + 0.26 * (n - 1) for i in range(len(made))]
        values = [row[column] / 1000 for row in made]
        axis.barh(places, values, height=0.24, color=(style.BASE, *style.COLOURS[1:3])[n], label=text)
    axis.set_yticks(range(len(made)), names)
    axis.invert_yaxis()
    axis.set_xlabel("completions (thousands)")
    axis.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1.0), ncol=3)
    figure.tight_layout()
    return style.save(figure, folder / "rollouts", made)

"""Training curves of the selected runs: reward, KL, entropy, length, clipped steps, pull by difficulty."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kappo.errors import UserError
from kappo.figures import style
from kappo.figures.indexes import runs_of
from kappo.figures.rows import Row, arm_of, arms_of

NUMBERS = {"k": int, "step": int, "value": float}
PANELS = {
    "reward": "mean reward",
    "kl": "KL to the reference (nats)",
    "entropy": "entropy (nats a token)",
    "length": "length (tokens)",
    "clipped": "share of steps clipped",
    "pull/none": "pull: none right in the bank",
    "pull/rare": "pull: 0-10 % right",
    "pull/some": "pull: 10-30 % right",
    "pull/often": "pull: over 30 % right",
}
WINDOW = 10


def training(indexes: Sequence[Path], results: Path) -> list[Row]:
    """Rows of training.csv: for each arm and replicate the means of every WINDOW steps. indexes: any split's."""
    made: list[Row] = []
    for entry in runs_of(indexes):
        path = results / "runs" / entry["run"] / "metrics.jsonl"
        try:
            lines = [json.loads(line) for line in path.read_text().splitlines()]
        except (OSError, json.JSONDecodeError) as error:
            raise UserError(f"{path} cannot be read ({error}): delete this run's folder and train again") from None
        arm = {name: entry[name] for name in ("method", "pressure", "k", "arm")}
        for metric in PANELS:
            windows: dict[int, list[float]] = {}
            for line in lines:
                if isinstance(line.get(metric), int | float):
                    windows.setdefault(-(-line["step"] // WINDOW) * WINDOW, []).append(line[metric])
            for step, values in windows.items():
                about = {"replicate": str(entry["replicate"]), "metric": metric, "step": step}
                made.append({**arm, **about, "value": float(np.mean(values))})
    return made


def training_curves(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Means over replicates, with their range: folder/training.{pdf,png,csv}."""
    plt = style.pyplot()
    arms = arms_of(rows)
    figure, axes = plt.subplots(3, 3, figsize=(style.WIDTH * 1.25, 5.6), sharex=True)
    dashes = {method: ("-", "--", ":", "-.")[i % 4] for i, method in enumerate(dict.fromkeys(arm[0] for arm in arms))}
    for axis, (metric, title) in zip(axes.ravel(), PANELS.items(), strict=True):
        for arm, name in arms.items():
            points: dict[int, list[float]] = {}
            for row in rows:
                if row["metric"] == metric and arm_of(row) == arm:
                    points.setdefault(row["step"], []).append(row["value"])
            steps = sorted(points)
            place = {1: 0, 2: 1, 4: 2}.get(arm[2], 3)
            colour = style.COLOURS[place]
            axis.plot(steps, [np.mean(points[s]) for s in steps], dashes[arm[0]], color=colour, label=name, linewidth=1)
            axis.fill_between(
                steps, [min(points[s]) for s in steps], [max(points[s]) for s in steps], color=colour, alpha=0.1, lw=0
            )
        axis.set_title(title, fontsize=7.5)
        if metric.startswith("pull"):
            axis.set_yscale("symlog", linthresh=1e-3)
    for axis in axes[-1]:
        axis.set_xlabel("step")
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="lower center", ncol=min(6, len(names)), frameon=False, fontsize=6.5)
    return style.save(figure, folder / "training", rows)

"""Training curves of the selected runs: reward, KL, entropy (nats), length, clipped steps, pull by difficulty."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kappo.errors import UserError
from kappo.figures import style
from kappo.figures.indexes import runs_of
from kappo.figures.rows import ARM, Row, arm_of, arms_of, methods_of
from kappo.records import read_json

COLUMNS = ARM | {"replicate": str, "on": str, "metric": str, "step": int, "value": float}
PANELS = {
    "reward": "mean reward",
    "kl": "KL to the base model",
    "entropy": "entropy a token",
    "length": "length (tokens)",
    "clipped": "share of steps clipped",
    "pull/none": "pull: none right in the bank",
    "pull/rare": "pull: 0-10 % right",
    "pull/some": "pull: 10-30 % right",
    "pull/often": "pull: over 30 % right",
}
WINDOW = 10
LEAST_PULL = 1e-3
"""Pulls below it are drawn on a linear scale, so that 0 has a place."""


def training(indexes: Sequence[Path], results: Path) -> list[Row]:
    """Rows of training.csv: for each arm and replicate the means of every WINDOW steps. indexes: any split's.

    A run that never samples, since it learns from the bank, has reward and KL from its checkpoints on the validation
    problems: rows whose `on` is validation.
    """
    made: list[Row] = []
    for entry in runs_of(indexes):
        folder = results / "runs" / entry["run"]
        arm = {name: entry[name] for name in ("method", "pressure", "k", "arm")}
        lines = _lines(folder / "metrics.jsonl")
        sources = {"training": lines}
        if not any("reward" in line for line in lines):
            checkpoints = read_json(folder / "validation.json", ["checkpoints"])["checkpoints"]
            found = [{"step": c["step"], "kl": c["kl"], "reward": c.get(f"{entry['metric']}@1")} for c in checkpoints]
            sources["validation"] = found
        for on, metric in ((on, metric) for on in sources for metric in PANELS):
            windows: dict[int, list[float]] = {}
            for line in sources[on]:
                if isinstance(line.get(metric), int | float):
                    windows.setdefault(-(-line["step"] // WINDOW) * WINDOW, []).append(line[metric])
            for step, values in windows.items():
                about = {"replicate": str(entry["replicate"]), "on": on, "metric": metric, "step": step}
                made.append({**arm, **about, "value": float(np.mean(values))})
    return made


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, json.JSONDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}): delete this run's folder and train again") from None


def training_curves(rows: Sequence[Row], folder: Path) -> list[Path]:
    """One figure a method, a line an arm: means over replicates, and their range.

    Writes folder/training_METHOD.{pdf,png,csv}; returns the paths.
    """
    return [path for method in methods_of(rows) for path in _figure(rows, method, folder / f"training_{method}")]


def _figure(rows: Sequence[Row], method: str, stem: Path) -> list[Path]:
    plt = style.pyplot()
    drawn = [row for row in rows if row["method"] == method]
    arms = {arm: name for arm, name in arms_of(rows).items() if arm[0] == method}
    pulls: list[Any] = []
    figure, axes = plt.subplots(3, 3, figsize=(style.WIDTH * 1.25, 4.8), sharex=True)
    for axis, (metric, title) in zip(axes.ravel(), PANELS.items(), strict=True):
        for place, (arm, name) in enumerate(arms.items()):
            points: dict[int, list[float]] = {}
            for row in drawn:
                if row["metric"] == metric and arm_of(row) == arm:
                    points.setdefault(row["step"], []).append(row["value"])
            steps = sorted(points)
            if not steps:
                continue
            colour = style.COLOURS[place % len(style.COLOURS)]
            dashes = style.DASHES[place // len(style.COLOURS) % len(style.DASHES)]
            axis.plot(steps, [np.mean(points[s]) for s in steps], dashes, color=colour, label=name, linewidth=1)
            axis.fill_between(
                steps, [min(points[s]) for s in steps], [max(points[s]) for s in steps], color=colour, alpha=0.12, lw=0
            )
        validated = any(row["on"] == "validation" for row in drawn if row["metric"] == metric)
        axis.set_title(f"{title}, validation" if validated else title)
        if metric.startswith("pull"):
            pulls.append(axis)
        if not axis.lines:
            axis.text(0.5, 0.5, "no such prompts", transform=axis.transAxes, ha="center", va="center", color=style.BASE)
    for axis in pulls:
        axis.sharey(pulls[-1])
    pulls[-1].set_yscale("symlog", linthresh=LEAST_PULL)
    pulls[-1].set_ylim(bottom=0)
    for axis in axes[-1]:
        axis.set_xlabel("step")
    figure.tight_layout()
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=4, frameon=False)
    return style.save(figure, stem, drawn)

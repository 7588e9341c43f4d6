"""Where a run gained: training prompts by their reference success, what calibration predicted and what was reached.

Both p_ref and the reached p come from fresh samples of the training prompts; the bank only sorts the prompts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kappo import calibration
from kappo.errors import UserError
from kappo.evaluation import FILE, interval
from kappo.figures import style
from kappo.figures.indexes import calibration_folder, entries_of
from kappo.figures.rows import ARM, NAMES, Arm, Row, arm_of, arms_of, methods_of
from kappo.records import SAMPLES, by_prompt, read_table

EDGES = (-1.0, 0.0, 1.01 / 30, 2.01 / 30, 4.01 / 30, 7.01 / 30, 11.01 / 30, 18.01 / 30, 1.0)
"""Bins (low, high] of the bank's mean reward; at M = 30: N = 0, 1, 2, 3-4, 5-7, 8-11, 12-18, more."""

COLUMNS = ARM | {
    "replicate": str,
    "bank_low": float,
    "bank_high": float,
    "prompts": int,
    "reference": float,
    "reached": float,
    "predicted": float,
    "gain": float,
    "gain_low": float,
    "gain_high": float,
}


def mechanism(indexes: Sequence[Path], results: Path, resamples: int) -> list[Row]:
    """Rows of mechanism.csv: for each arm, replicate (and `all`) and bin the mean rewards of its training prompts.

    indexes: files of `kappo evaluate` on the training problems. reference: the base model's; reached: the run's;
    predicted: the optimal policy's by the run's own coefficients (p* for binary rewards; nan for a method that uses
    none); gain = reached - reference,
    with a 95 % interval over prompts or, for `all`, over replicates.
    """
    found: dict[Arm, dict[str, dict[int, np.ndarray]]] = defaultdict(dict)
    for index in indexes:
        entries = entries_of(index)
        base = next((e for e in entries if e["method"] == "base"), None)
        if base is None:
            raise UserError(f"{index} has no base model: make it again with `kappo evaluate BASE ... --index`")
        ids, rewards = by_prompt(read_table(index.parent / base["folder"] / FILE, SAMPLES), "reward")
        reference = rewards.mean(axis=1)
        for entry in entries:
            if entry["method"] == "base":
                continue
            reached = by_prompt(read_table(index.parent / entry["folder"] / FILE, SAMPLES), "reward")[1].mean(axis=1)
            rows = calibration.read(calibration_folder(results, entry["run"]) / calibration.FILE, ids)
            place = np.digitize(rows.rewards.mean(axis=1), EDGES, right=True) - 1
            predicted = rows.p_star if entry["bank_rollouts"] else np.full(len(ids), np.nan)
            values = np.stack([reference, reached, predicted], axis=1)
            key = (entry["method"], entry["pressure"], entry["k"], entry["arm"])
            found[key][str(entry["replicate"])] = {i: values[place == i] for i in range(len(EDGES) - 1)}
    made: list[Row] = []
    for arm, replicates in found.items():
        groups = [(name, [bins]) for name, bins in replicates.items()] + [("all", list(replicates.values()))]
        for name, members in groups:
            for i in range(len(EDGES) - 1):
                parts = [bins[i] for bins in members if len(bins[i]) > 1]
                if parts:
                    made.append(_row(arm, name, i, parts, resamples))
    return made


def _row(arm: Arm, replicate: str, i: int, parts: list[np.ndarray], resamples: int) -> Row:
    means = np.mean([part.mean(axis=0) for part in parts], axis=0)
    gains = [(part[:, 1] - part[:, 0])[:, None] for part in parts]
    gain, low, high = (float(value[0]) for value in interval(gains, resamples, bounds=(-1.0, 1.0)))
    numbers = dict(zip(("reference", "reached", "predicted"), map(float, means), strict=True))
    bank = {"bank_low": max(EDGES[i], 0.0), "bank_high": EDGES[i + 1], "prompts": sum(map(len, parts))}
    arms = dict(zip(("method", "pressure", "k", "arm"), arm, strict=True))
    return {**arms, "replicate": replicate, **bank, **numbers, "gain": gain, "gain_low": low, "gain_high": high}


def _axes(rows: Sequence[Row]) -> tuple[Any, Any, list[Row], list[str]]:
    picked = [row for row in rows if row["replicate"] == "all"]
    methods = methods_of(picked)
    plt = style.pyplot()
    columns = min(2, len(methods))
    lines = -(-len(methods) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(style.WIDTH, 0.3 + 1.95 * lines), squeeze=False)
    for axis in axes.ravel()[len(methods) :]:
        axis.set_visible(False)
    return figure, axes.ravel(), picked, methods


def gain(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Gain in mean reward against the bank's mean reward: folder/gain.{pdf,png,csv}."""
    figure, axes, picked, methods = _axes(rows)
    arms = arms_of(picked)
    starts = sorted({row["bank_low"] for row in picked} | {row["bank_high"] for row in picked})
    names = [f"≤{100 * high:.0f}" if high else "0" for high in starts]
    for axis, method in zip(axes, methods, strict=False):
        own = [arm for arm in arms if arm[0] == method]
        for n, arm in enumerate(own):
            line = [row for row in picked if arm_of(row) == arm]
            x = [starts.index(row["bank_high"]) + 0.12 * (n - (len(own) - 1) / 2) for row in line]
            y = np.array([100 * row["gain"] for row in line])
            reach = [y - [100 * row["gain_low"] for row in line], [100 * row["gain_high"] for row in line] - y]
            colour = style.COLOURS[n % len(style.COLOURS)]
            axis.errorbar(x, y, yerr=np.maximum(reach, 0), color=colour, marker="o", linewidth=1, label=arms[arm])
        axis.axhline(0, color=style.BASE, linewidth=0.8, linestyle="--")
        axis.set_xticks(range(len(starts)), names)
        axis.set_title(NAMES.get(method, method.upper()))
        axis.set_xlabel("success in the bank (%)")
        axis.set_ylabel("gain (points)")
        axis.legend(frameon=False, fontsize=6)
    figure.tight_layout(w_pad=1.2)
    return style.save(figure, folder / "gain", picked)


def prediction(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Mean reward reached against the calibration's prediction, one point a bin: folder/prediction.{pdf,png,csv}."""
    figure, axes, picked, methods = _axes([row for row in rows if np.isfinite(row["predicted"])])
    arms = arms_of(picked)
    for axis, method in zip(axes, methods, strict=False):
        axis.plot([0, 100], [0, 100], color=style.BASE, linewidth=0.8, linestyle="--", label="reached = predicted")
        for n, arm in enumerate(arm for arm in arms if arm[0] == method):
            line = [row for row in picked if arm_of(row) == arm]
            points = [[100 * row[name] for row in line] for name in ("predicted", "reached")]
            sizes = [4 + 26 * np.sqrt(row["prompts"] / max(r["prompts"] for r in picked)) for row in line]
            axis.scatter(*points, s=sizes, color=style.COLOURS[n % len(style.COLOURS)], label=arms[arm], zorder=3)
        axis.set_xlim(-3, 103)
        axis.set_ylim(-3, 103)
        axis.set_title(NAMES.get(method, method.upper()))
        axis.set_xlabel("predicted by calibration (%)")
        axis.set_ylabel("reached (%)")
        axis.legend(frameon=False, fontsize=6)
    figure.tight_layout(w_pad=1.2)
    return style.save(figure, folder / "prediction", picked)

"""What the bank says about the training prompts, and the pressure that each k puts on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kappo import calibration
from kappo.figures import style
from kappo.figures.at_k import entries_of
from kappo.figures.rows import Row, arm_of, arms_of
from kappo.folders import MANIFEST
from kappo.records import COEFFICIENTS, read_json, read_table

NUMBERS = {"k": int, "bank_mean": float, "prompts": int, "pressure_on_best": float, "p_star": float}


def coefficients(indexes: Sequence[Path], results: Path) -> list[Row]:
    """Rows of coefficients.csv: for each arm and replicate and each mean bank reward the number of prompts and means.

    pressure_on_best: a_k, or beta / beta_eff on the regularisation side; 1 for every prompt where rewards are
    transformed instead.
    """
    made: list[Row] = []
    seen = set()
    for index in indexes:
        for entry in entries_of(index):
            if not entry["bank_rollouts"] or entry["run"] in seen:
                continue
            seen.add(entry["run"])
            id = read_json(results / "runs" / entry["run"] / MANIFEST, ["upstream"])["upstream"]["calibration"]
            folder = results / "calibration" / id
            about = read_json(folder / MANIFEST, ["slice"])["slice"]
            stored = read_table(folder / calibration.FILE, COEFFICIENTS)
            means = np.array([np.mean(rewards) for rewards in stored["bank_rewards"].to_pylist()]).round(6)
            values = np.asarray(stored["a"])
            if about["interface"] == "regularization":
                values = about["pressure"]["beta"] / np.asarray(stored["beta_eff"])
            p_star = np.asarray(stored["p_star"])
            arm = {name: entry[name] for name in ("method", "pressure", "k", "arm")}
            for mean in np.unique(means):
                here = means == mean
                numbers = {"pressure_on_best": float(values[here].mean()), "p_star": float(p_star[here].mean())}
                counts = {"bank_mean": float(mean), "prompts": int(here.sum())}
                made.append({**arm, "replicate": str(entry["replicate"]), **counts, **numbers})
    return made


def pressure(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Prompts by success in the bank; the multiplier and the predicted success of each arm: folder/pressure.*"""
    plt = style.pyplot()
    arms = arms_of(rows)
    figure, axes = plt.subplots(1, 3, figsize=(style.WIDTH * 1.25, 2.3))
    first = [row for row in rows if arm_of(row) == next(iter(arms))]
    replicates = len({row["replicate"] for row in first})
    edges = np.linspace(0, 1, 31)
    weights = [row["prompts"] / replicates for row in first]
    axes[0].hist([row["bank_mean"] for row in first], bins=[-1 / 30, *edges + 1e-9], weights=weights, color=style.BASE)
    axes[0].set_xlabel("mean reward in the bank")
    axes[0].set_ylabel("training prompts")
    for n, (arm, name) in enumerate(arms.items()):
        line: dict[float, list[Row]] = {}
        for row in rows:
            if arm_of(row) == arm:
                line.setdefault(row["bank_mean"], []).append(row)
        x = sorted(line)
        style_of = {"color": style.COLOURS[n % len(style.COLOURS)], "linestyle": "-" if arm[0] == "apo" else ":"}
        for axis, column in ((axes[1], "pressure_on_best"), (axes[2], "p_star")):
            axis.plot(x, [np.mean([row[column] for row in line[at]]) for at in x], label=name, **style_of)
    axes[1].set_ylabel(r"multiplier $a_k = \beta / \beta_{\mathrm{eff}}$")
    axes[2].plot([0, 1], [0, 1], color=style.BASE, linewidth=0.8, linestyle="--")
    axes[2].set_ylabel("predicted mean reward")
    axes[2].legend(frameon=False, fontsize=5.5)
    for axis in axes[1:]:
        axis.set_xlabel("mean reward in the bank")
    figure.tight_layout(w_pad=1.0)
    return style.save(figure, folder / "pressure", rows)

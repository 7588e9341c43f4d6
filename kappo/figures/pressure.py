"""What the bank says about the training prompts, and the pressure that each k puts on them.

For binary rewards that is the multiplier a_k of a prompt, for win-rates the transformed reward T_k of a quantile
(eq. 12).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kappo import calibration
from kappo.figures import style
from kappo.figures.indexes import calibration_folder, runs_of
from kappo.figures.rows import ARM, Row, arm_of, arms_of, methods_of
from kappo.folders import MANIFEST
from kappo.records import COEFFICIENTS, read_json, read_table
from kappo.theory import winrate

COLUMNS = ARM | {
    "beta": float,
    "replicate": str,
    "bank_mean": float,
    "prompts": int,
    "pressure_on_best": float,
    "p_star": float,
}


def coefficients(indexes: Sequence[Path], results: Path) -> list[Row]:
    """Rows of coefficients.csv: numbers of prompts and mean coefficients, for each arm, replicate and mean bank reward.

    Mean bank rewards are rounded to whole successes. pressure_on_best: a_k, or beta / beta_eff on the regularisation
    side; 1 for every prompt where rewards are transformed instead.
    """
    made: list[Row] = []
    for entry in runs_of(indexes):
        if not entry["bank_rollouts"]:
            continue
        folder = calibration_folder(results, entry["run"])
        about = read_json(folder / MANIFEST, ["slice"])["slice"]
        stored = read_table(folder / calibration.FILE, COEFFICIENTS)
        rewards = np.array(stored["bank_rewards"].to_pylist())
        means = np.round(rewards.mean(axis=1) * rewards.shape[1]) / rewards.shape[1]
        values = np.asarray(stored["a"])
        if about["interface"] == "regularization":
            values = about["pressure"]["beta"] / np.asarray(stored["beta_eff"])
        p_star = np.asarray(stored["p_star"])
        arm = {name: entry[name] for name in ("method", "pressure", "k", "arm")}
        arm["beta"] = float(about["pressure"]["beta"])
        for mean in np.unique(means):
            here = means == mean
            numbers = {"pressure_on_best": float(values[here].mean()), "p_star": float(p_star[here].mean())}
            counts = {"bank_mean": float(mean), "prompts": int(here.sum())}
            made.append({**arm, "replicate": str(entry["replicate"]), **counts, **numbers})
    return made


def pressure(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Prompts by success in the bank; the multiplier and the predicted success of each arm: folder/pressure.*"""
    plt = style.pyplot()
    arms, methods = arms_of(rows), methods_of(rows)
    figure, axes = plt.subplots(1, 3, figsize=(style.WIDTH * 1.25, 2.3))
    first = [row for row in rows if arm_of(row) == next(iter(arms))]
    replicates = len({row["replicate"] for row in first})
    counts: dict[float, float] = {}
    for row in first:
        counts[row["bank_mean"]] = counts.get(row["bank_mean"], 0) + row["prompts"] / replicates
    width = min(np.diff(sorted(counts)), default=0.05)
    axes[0].bar(list(counts), list(counts.values()), width=0.8 * width, color=style.BASE)
    axes[0].set_xlabel("mean reward in the bank")
    axes[0].set_ylabel("training prompts")
    ranked = any(arm[1] == "winrate" for arm in arms)
    q = np.arange(101)
    for n, (arm, name) in enumerate(arms.items()):
        own = [row for row in rows if arm_of(row) == arm]
        x = sorted({row["bank_mean"] for row in own})
        means = {
            column: [np.mean([row[column] for row in own if row["bank_mean"] == at]) for at in x]
            for column in ("pressure_on_best", "p_star")
        }
        look = {
            "color": style.COLOURS[n % len(style.COLOURS)],
            "linestyle": style.DASHES[methods.index(arm[0]) % len(style.DASHES)],
        }
        axes[2].plot(x, means["p_star"], label=name, **look)
        if not ranked:
            axes[1].plot(x, means["pressure_on_best"], **look)
        elif arm[1] == "winrate":
            transformed = winrate.transform(q, q[-1], arm[2], own[0]["beta"])
            axes[1].plot(q / q[-1], transformed - transformed[0], **look)
    axes[1].set_xlabel("reward's quantile in the bank" if ranked else "mean reward in the bank")
    axes[1].set_ylabel("$T_k$ above its lowest value" if ranked else r"multiplier $a_k = \beta / \beta_{\mathrm{eff}}$")
    axes[2].plot([0, 1], [0, 1], color=style.BASE, linewidth=0.8, linestyle="--")
    axes[2].set_xlabel("mean reward in the bank")
    axes[2].set_ylabel("predicted mean reward")
    figure.tight_layout(w_pad=1.0)
    handles, labels = axes[2].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=4, frameon=False)
    return style.save(figure, folder / "pressure", rows)

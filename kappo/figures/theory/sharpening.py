"""What the four objectives of *Beyond Distribution Sharpening* make of a model, exactly, on two small prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kappo.figures import style
from kappo.figures.rows import Row
from kappo.figures.theory.optimum import digits
from kappo.theory import sharpening
from kappo.theory.binary import Floats

if TYPE_CHECKING:
    from kappo.study_file import Theory


@dataclass(frozen=True)
class Prompt:
    """weights: of the base model's completions, by falling probability. rewards: 1 for the right ones."""

    name: str
    weights: tuple[float, ...]
    rewards: tuple[float, ...]

    @property
    def log_base(self) -> Floats:
        return np.log(self.weights) - np.log(sum(self.weights))


PROMPTS = (
    Prompt("easy prompt", (40, 20, 15, 12, 8, 5), (1, 0, 1, 0, 0, 0)),
    Prompt("hard prompt", (45, 25, 15, 8, 5, 2), (0, 0, 0, 1, 0, 1)),
)
"""The base model's favourite is right on the easy prompt, wrong on the hard one: .55 and .10 of its mass are right."""

ALPHA = 2.0
BETA = 0.25
"""Of the tempered and tilted optima in the bars and in pass@k."""

ALPHAS = (1.0, 1.25, 2.0, 4.0)
BETAS = tuple(float(b) for b in np.geomspace(0.05, 20, 81))

OBJECTIVES = ("base model", "sharpening", "tempered", "tilted", "task reward")
COLOURS = dict(zip(OBJECTIVES, (style.BASE, *(style.COLOURS[at] for at in (1, 4, 3, 0))), strict=True))
RIGHT, WRONG = style.COLOURS[2], "#c9ccd1"
SHADES = ("#bfb0dc", "#9377c4", "#653c9f", "#35135e")
"""Of ALPHAS, darker for more."""


def optimum(objective: str, prompt: Prompt, alpha: float, beta: float) -> Floats:
    """The optimal policy (n,) of an objective of OBJECTIVES, eq. 3-6; alpha >= 0 and beta > 0 where it has them.

    Sharpening: all mass on the mode (shared, where tied). Task reward: any policy on right completions is optimal; the
    one given is the limit of the tilted optima with alpha = 1 as beta falls to 0. Raises ValueError for another name.
    """
    base, rewards = prompt.log_base, np.array(prompt.rewards)
    if objective == "base model":
        return np.exp(base)
    if objective == "sharpening":
        mode = sharpening.best(base)
        return mode / mode.sum()
    if objective == "tempered":
        return np.exp(sharpening.optimum(base, 0 * rewards, alpha, 1.0).log_pi)
    if objective == "tilted":
        return np.exp(sharpening.optimum(base, rewards, alpha, beta).log_pi)
    if objective == "task reward":
        return sharpening.limit(base, rewards, 1.0)
    raise ValueError(f"objective = {objective!r}: expected one of {', '.join(OBJECTIVES)}")


def four_objectives_rows(settings: Theory) -> list[Row]:
    """All that is drawn, exact: y against x, of the optimum of an objective at alpha and beta ("" where it has none).

    mass: the optimum's probability of each completion of a prompt (x = 1, 2, ... by falling base probability; `right`
    says whether its reward is 1). pass@1: the mass of the right completions against the tilted objective's beta, at
    each alpha, and at beta = inf the tempered one's; without KL the task reward's is 1 and sharpening's that of the
    mode. pass@k: mean over both prompts, at the settings' k. entropy: in nats, mean over both prompts, against beta.
    """
    made = []
    for prompt in PROMPTS:
        for objective in OBJECTIVES:
            pi = optimum(objective, prompt, ALPHA, BETA)
            for at, (mass, reward) in enumerate(zip(pi, prompt.rewards, strict=True), start=1):
                made.append(
                    _row("mass", prompt.name, objective, _alpha(objective), _beta(objective), at, float(mass), reward)
                )
        for alpha, beta, pi in _path(prompt):
            objective = "tempered" if beta == np.inf else "tilted"
            made.append(_row("pass@1", prompt.name, objective, alpha, beta, beta, pi @ np.array(prompt.rewards)))
    for objective in OBJECTIVES:
        right = [optimum(objective, p, ALPHA, BETA) @ np.array(p.rewards) for p in PROMPTS]
        for k in settings.k:
            value = float(np.mean([1 - (1 - min(p, 1.0)) ** k for p in right]))
            made.append(_row("pass@k", "mean", objective, _alpha(objective), _beta(objective), k, value))
    for points in zip(*(_path(prompt) for prompt in PROMPTS), strict=True):
        alpha, beta = points[0][:2]
        value = float(np.mean([entropy(pi) for *_, pi in points]))
        made.append(_row("entropy", "mean", "tempered" if beta == np.inf else "tilted", alpha, beta, beta, value))
    return made


def entropy(pi: Floats) -> float:
    """In nats; pi (n,), zeros allowed."""
    return float(-(pi * np.log(np.where(pi > 0, pi, 1.0))).sum())


def _path(prompt: Prompt) -> list[tuple[float, float, Floats]]:
    """alpha, beta and the tilted optimum, then alpha, inf and the tempered one."""
    found = []
    for alpha in ALPHAS:
        found += [(alpha, beta, optimum("tilted", prompt, alpha, beta)) for beta in BETAS]
        found.append((alpha, np.inf, optimum("tempered", prompt, alpha, 1.0)))
    return found


def _alpha(objective: str) -> float | str:
    return ALPHA if objective in ("tempered", "tilted") else ""


def _beta(objective: str) -> float | str:
    return {"tempered": np.inf, "tilted": BETA}.get(objective, "")


def _row(panel: str, prompt: str, objective: str, alpha: Any, beta: Any, x: float, y: float, right: float = -1) -> Row:
    row = {"panel": panel, "prompt": prompt, "objective": objective, "alpha": alpha, "beta": beta}
    return {**row, "right": "" if right < 0 else int(right), "x": x, "y": float(y)}


def four_objectives(settings: Theory, folder: Path) -> list[Path]:
    """Draw the optima's mass, pass@1, pass@k and entropy: folder/four_objectives.{pdf,png,csv}; returns the paths."""
    plt = style.pyplot()
    rows = four_objectives_rows(settings)
    figure, axes = plt.subplots(2, 3, figsize=(style.WIDTH * 1.3, 3.7))
    for line, prompt in zip(axes, PROMPTS, strict=True):
        _bars(line[0], [row for row in rows if row["panel"] == "mass" and row["prompt"] == prompt.name])
        line[0].set_title(prompt.name)
        own = [row for row in rows if row["panel"] == "pass@1" and row["prompt"] == prompt.name]
        _against_beta(line[1], own)
        task = {"color": COLOURS["task reward"], "linestyle": "--", "zorder": 4, "clip_on": False}
        line[1].axhline(1, label="task reward alone", **task)
        line[1].set_ylim(0, 1.02)
        line[1].set_ylabel("pass@1")
        line[1].set_title(prompt.name)
    axes[1][0].set_xlabel("probability; green: right")
    axes[1][1].set_xlabel(r"$\beta$ (circles: $\infty$, tempered)")
    for objective in OBJECTIVES:
        own = [row for row in rows if row["panel"] == "pass@k" and row["objective"] == objective]
        marker = style.MARKERS[OBJECTIVES.index(objective) % len(style.MARKERS)]
        looks = {"color": COLOURS[objective], "marker": marker, "label": objective, "clip_on": False}
        axes[0][2].plot([row["x"] for row in own], [row["y"] for row in own], **looks)
    axes[0][2].set_xscale("log", base=2)
    axes[0][2].set_xticks(settings.k, [str(k) for k in settings.k])
    axes[0][2].minorticks_off()
    axes[0][2].set_ylim(0, 1.02)
    axes[0][2].set_title("both prompts")
    axes[0][2].set_ylabel("pass@$k$")
    axes[0][2].set_xlabel("$k$")
    _against_beta(axes[1][2], [row for row in rows if row["panel"] == "entropy"])
    axes[1][2].set_title("both prompts")
    axes[1][2].set_ylim(0, None)
    axes[1][2].set_ylabel("entropy (nats)")
    axes[1][2].set_xlabel(r"$\beta$ (circles: $\infty$, tempered)")
    figure.tight_layout(w_pad=1.0, h_pad=0.8)
    below = {"frameon": False, "loc": "upper center"}
    figure.legend(*axes[0][1].get_legend_handles_labels(), bbox_to_anchor=(0.5, 0.0), ncol=5, **below)
    figure.legend(*axes[0][2].get_legend_handles_labels(), bbox_to_anchor=(0.5, -0.06), ncol=5, **below)
    return style.save(figure, folder / "four_objectives", digits(rows))


def _bars(axis: Any, rows: Sequence[Row]) -> None:
    """A bar an objective, a piece a completion."""
    for at, objective in enumerate(OBJECTIVES):
        left = 0.0
        for row in (row for row in rows if row["objective"] == objective):
            colour = RIGHT if row["right"] else WRONG
            axis.barh(at, row["y"], left=left, height=0.7, color=colour, edgecolor="white", linewidth=0.7)
            left += row["y"]
    names = {
        "tempered": rf"tempered, $\alpha={ALPHA:g}$",
        "tilted": rf"tilted, $\alpha={ALPHA:g}$," + "\n" + rf"$\beta={BETA:g}$",
    }
    axis.set_yticks(range(len(OBJECTIVES)), [names.get(name, name) for name in OBJECTIVES])
    axis.invert_yaxis()
    axis.set_xlim(0, 1)
    axis.grid(axis="y", visible=False)


def _against_beta(axis: Any, rows: Sequence[Row]) -> None:
    """A line an alpha; beta = inf as a circle at the right edge."""
    edge = 3 * BETAS[-1]
    for alpha, colour in zip(ALPHAS, SHADES, strict=True):
        own = [row for row in rows if row["alpha"] == alpha]
        finite, last = own[:-1], own[-1]
        axis.plot([r["x"] for r in finite], [r["y"] for r in finite], color=colour, label=rf"$\alpha={alpha:g}$")
        axis.plot([edge], [last["y"]], "o", color=colour, clip_on=False)
    axis.set_xscale("log")
    axis.set_xlim(BETAS[0], edge)
    ticks = (0.1, 1, 10, edge)
    axis.set_xticks(ticks, ["0.1", "1", "10", r"$\infty$"])
    axis.minorticks_off()

"""What pressure the @k objectives put on prompts and rewards (KAPPO, figure 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import beta as beta_function

from kappo.figures import style
from kappo.figures.rows import Row
from kappo.theory import binary, raw_reward

if TYPE_CHECKING:
    from kappo.study_file import Theory

BETA = 0.5
K = 4
"""Of panels b and c. Both are the caption's."""

REFERENCES = {"hard": (2, 5), "easy": (5, 2)}
"""Beta(a, b) densities of the reward on [0, 1]: the paper draws two synthetic ones and does not name them."""

HIGHEST = 40.0
"""Where the axes of beta_eff / beta end; the curves go on to infinity."""


def look(ks: Sequence[int], k: int) -> dict[str, Any]:
    """Colour, dashes and label of a k: the same in all theory figures with the same list of k."""
    at = list(ks).index(k)
    return {
        "color": style.COLOURS[at % len(style.COLOURS)],
        "linestyle": style.DASHES[at % len(style.DASHES)],
        "label": f"$k={k}$",
    }


def digits(rows: Sequence[Row]) -> list[Row]:
    """Rows with fractions as text of nine significant digits: six decimals would lose p_ref = 1e-5 and beta = 5e-4."""
    return [{name: f"{v:.9g}" if isinstance(v, float) else v for name, v in row.items()} for row in rows]


def adaptive_pressure_rows(settings: Theory) -> list[Row]:
    """The curves of figure 1, at beta = 0.5.

    a: beta_eff / beta, in [1 / k, inf), against the reference's success probability, for each k of the settings
    (eq. 5, 6). b: beta_eff(r) / beta, in [1 / k, inf), and c: the transformed reward S(r), in [0, k] units of the
    reward, both against the reward r in (0, 1] at k = 4, for a hard and an easy reference (eq. 10, 95-97, 115).
    """
    p_ref = np.concatenate([np.geomspace(1e-4, 0.004, 20), np.arange(1, 200) / 200])
    made = []
    for k in settings.k:
        ratio = binary.solve(binary.logit(p_ref), k, BETA).beta_eff / BETA
        made += _curve("a", "p_ref", "beta_eff / beta", "binary", k, p_ref, ratio)
    r = np.arange(1, 201) / 200
    for name, (a, b) in REFERENCES.items():
        found = raw_reward.solve_continuous(_density(a, b), 0.0, 1.0, K, BETA, r)
        reference = f"{name}: Beta({a}, {b})"
        made += _curve("b", "reward", "beta_eff / beta", reference, K, r, found.beta_eff / BETA)
        made += _curve("c", "reward", "transformed reward S", reference, K, r, found.score)
    return made


def _density(a: int, b: int) -> Callable[[float], float]:
    scale = 1 / float(beta_function(a, b))
    return lambda r: scale * r ** (a - 1) * (1 - r) ** (b - 1)


def _curve(panel: str, x_is: str, y_is: str, reference: str, k: int, x: Any, y: Any) -> list[Row]:
    fixed = {"panel": panel, "reference": reference, "k": k, "beta": BETA, "x_is": x_is, "y_is": y_is}
    return [{**fixed, "x": float(at), "y": float(value)} for at, value in zip(x, y, strict=True)]


def adaptive_pressure(settings: Theory, folder: Path) -> list[Path]:
    """Draw figure 1, panels a to c: folder/adaptive_pressure.{pdf,png,csv}; returns the paths."""
    plt = style.pyplot()
    rows = adaptive_pressure_rows(settings)
    figure, axes = plt.subplots(1, 3, figsize=(style.WIDTH * 1.25, 2.2))
    lowest = min(row["y"] for row in rows if row["panel"] != "c")
    for axis in axes[:2]:
        axis.set_yscale("log")
        ticks = (0.1, 0.3, 1, 3, 10, 30)
        axis.set_yticks(ticks, [f"{at:g}" for at in ticks])
        axis.set_ylim(0.8 * lowest, HIGHEST)
        axis.minorticks_off()
        axis.set_ylabel(r"regularisation $\beta_{\mathrm{eff}}\,/\,\beta$")
    for k in settings.k:
        _plot(axes[0], [row for row in rows if row["panel"] == "a" and row["k"] == k], **look(settings.k, k))
    references = dict.fromkeys(row["reference"] for row in rows if row["panel"] != "a")
    for reference, colour, dashes in zip(references, style.COLOURS[4:], style.DASHES, strict=False):
        for axis, panel in ((axes[1], "b"), (axes[2], "c")):
            own = [row for row in rows if row["panel"] == panel and row["reference"] == reference]
            _plot(axis, own, color=colour, linestyle=dashes, label=reference)
    plain = {"color": style.BASE, "linewidth": 0.9, "linestyle": "-.", "label": "$k=1$: reward as it is", "zorder": 1}
    axes[1].axhline(1, **plain)
    axes[2].plot([0, 1], [0, 1], **plain)
    axes[0].set_xlabel(r"reference success probability $p_{\mathrm{ref}}$")
    axes[0].set_title("(a) binary rewards, pass@$k$")
    axes[1].set_xlabel("reward $r$")
    axes[1].set_title(f"(b) max@{K}")
    axes[2].set_xlabel("reward $r$")
    axes[2].set_ylabel("transformed reward $S(r)$")
    axes[2].set_title(f"(c) max@{K}")
    for axis in axes:
        axis.set_xlim(0, 1)
    axes[2].set_ylim(0, None)
    figure.tight_layout(w_pad=1.0)
    below = {"loc": "upper center", "frameon": False, "bbox_transform": figure.transFigure}
    middle = [axis.get_position().get_points()[:, 0] for axis in axes]
    axes[0].legend(bbox_to_anchor=(middle[0].mean(), 0.0), ncol=2, **below)
    axes[1].legend(bbox_to_anchor=((middle[1][0] + middle[2][1]) / 2, 0.0), ncol=3, **below)
    return style.save(figure, folder / "adaptive_pressure", digits(rows))


def _plot(axis: Any, rows: Sequence[Row], **looks: Any) -> None:
    axis.plot([row["x"] for row in rows], [row["y"] for row in rows], **looks)

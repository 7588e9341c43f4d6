"""What a file of rewards says, and the pressure that each k and beta put on its prompts: `kappo calibrate --plot`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from kappo.figures import style
from kappo.figures.rows import Row

MOST = 20_000
"""Points a curve; more are thinned evenly."""


def coefficients(rows: Sequence[Row], stem: Path) -> list[Path]:
    """Prompts by mean reward, and a_k, beta_eff or transformed rewards for each (k, beta): stem.pdf, .png, .csv.

    rows: as in records.STANDALONE, of one pressure and interface.
    """
    plt = style.pyplot()
    drawn = list(_points(rows))
    figure, axes = plt.subplots(1, 2, figsize=(style.WIDTH, 2.3))
    first = [row for row in rows if (row["k"], row["beta"]) == (rows[0]["k"], rows[0]["beta"])]
    axes[0].hist([row["q"] for row in first], bins=min(31, len(first)), color=style.BASE)
    axes[0].set_xlabel("mean reward in the bank")
    axes[0].set_ylabel("prompts")
    pairs = list(dict.fromkeys((row["k"], row["beta"]) for row in drawn))
    betas = list(dict.fromkeys(beta for _, beta in pairs))
    ks = list(dict.fromkeys(k for k, _ in pairs))
    for k, beta in pairs:
        own = sorted((row["x"], row["y"]) for row in drawn if (row["k"], row["beta"]) == (k, beta))
        own = own[:: -(-len(own) // MOST)]
        x, y = np.array(own).T
        look = {
            "color": style.COLOURS[ks.index(k) % len(style.COLOURS)],
            "marker": style.MARKERS[betas.index(beta) % len(style.MARKERS)],
        }
        axes[1].plot(x, y, linestyle="", label=rf"$k$ = {k}, $\beta$ = {beta:g}", markersize=2.2, **look)
    kind = drawn[0]["drawn"]
    axes[1].set_xlabel("mean reward in the bank" if kind != "score" else "reward's quantile in its prompt's bank")
    axes[1].set_ylabel(
        {"a": r"multiplier $a_k$", "beta_eff": r"$\beta_{\mathrm{eff}}$"}.get(kind, "score above lowest")
    )
    figure.tight_layout(w_pad=1.2)
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=3, frameon=False)
    return style.save(figure, stem, drawn)


def _points(rows: Sequence[Row]) -> Iterator[Row]:
    """Distinct points, as drawn."""
    seen = set()
    for row in rows:
        about = {"pressure": row["pressure"], "k": row["k"], "beta": row["beta"]}
        if row["scores"]:
            rewards, scores = np.array(row["rewards"]), np.array(row["scores"])
            xs = (rewards[:, None] >= rewards).mean(axis=1)
            kind, points = "score", set(zip(xs.tolist(), (scores - scores.min()).tolist(), strict=True))
        else:
            kind = "beta_eff" if row["interface"] == "regularization" else "a"
            points = {(row["q"], row[kind])}
        for x, y in points:
            if (row["k"], row["beta"], x, y) not in seen:
                seen.add((row["k"], row["beta"], x, y))
                yield {**about, "drawn": kind, "x": x, "y": y}

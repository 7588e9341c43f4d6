"""@k-A*PO beside PKPO, for each trained k > 1 (KAPPO, figures 3 and 8, table 1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kappo.errors import UserError
from kappo.figures import style
from kappo.figures.curves import TITLES, drawable, panel
from kappo.figures.rows import Row, arm_of, arms_of, write
from kappo.records import write_text

METHODS = ("base", "apo", "pkpo")


def agreement(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Figure 8: the test splits. Writes folder/agreement.{pdf,png,csv}; returns the paths."""
    return _draw([row for row in drawable(rows) if row["split"] != "validation"], folder / "agreement")


def agreement_validation(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Figure 3 and table 1: the split that selected. Adds folder/agreement_validation_table.{csv,md}."""
    picked = [row for row in drawable(rows) if row["split"] == "validation"]
    paths = _draw(picked, folder / "agreement_validation")
    chosen = [row for row in picked if row["method"] in METHODS]
    write(folder / "agreement_validation_table.csv", chosen)
    write_text(folder / "agreement_validation_table.md", markdown(chosen))
    return [*paths, folder / "agreement_validation_table.csv", folder / "agreement_validation_table.md"]


def markdown(rows: Sequence[Row]) -> str:
    """Table 1: one line an arm, one column a k_eval; percent with intervals."""
    ks = sorted({row["k_eval"] for row in rows})
    lines = ["| in % | " + " | ".join(f"{rows[0]['metric']}@{k}" for k in ks) + " |", "|---" * (len(ks) + 1) + "|"]
    for arm, name in arms_of(rows).items():
        at = {row["k_eval"]: row for row in rows if arm_of(row) == arm}
        cells = [f"{100 * at[k]['mean']:.1f} [{100 * at[k]['low']:.1f}, {100 * at[k]['high']:.1f}]" for k in ks]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _draw(rows: Sequence[Row], stem: Path) -> list[Path]:
    plt = style.pyplot()
    picked = [row for row in rows if row["method"] in METHODS]
    ks = sorted({row["k"] for row in picked if row["method"] == "pkpo"})
    if not ks:
        raise UserError(f"figure {stem.name}: the study trains no PKPO; add it to the grid, or drop this figure")
    splits = list(dict.fromkeys(row["split"] for row in picked))
    arms = {arm: name for arm, name in arms_of(picked).items() if not arm[3]}
    figure, axes = plt.subplots(len(splits), len(ks), figsize=(style.WIDTH, 0.4 + 1.9 * len(splits)), squeeze=False)
    drawn = []
    for line, split in zip(axes, splits, strict=True):
        for axis, k in zip(line, ks, strict=True):
            drawn += panel(axis, picked, {arm: name for arm, name in arms.items() if arm[2] in (0, k)}, split)
            axis.set_title(f"{TITLES.get(split, split)}, k = {k}")
            axis.legend(frameon=False, loc="upper left", fontsize=6.5)
        line[0].set_ylabel(r"pass@$k_{\mathrm{eval}}$ (%)")
    for axis in axes[-1]:
        axis.set_xlabel(r"$k_{\mathrm{eval}}$")
    figure.tight_layout(w_pad=1.2)
    unique = list({(row["split"], *arm_of(row), row["k_eval"]): row for row in drawn}.values())
    return style.save(figure, stem, unique)

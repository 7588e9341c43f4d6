"""How every figure looks, and how it is saved: PDF, PNG and CSV with bytes that depend on the data alone."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kappo.figures.rows import Row, write
from kappo.records import write_bytes

WIDTH = 5.5
"""Inches: the text width of the usual conference styles."""

BASE = "#5f6368"
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's palette: distinct for colour-blind readers."""
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", ":", "-.")


def pyplot() -> Any:
    """matplotlib.pyplot, set up for small print in a paper, without a display."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update(
        {
            "font.size": 8,
            "axes.titlesize": 8.5,
            "axes.labelsize": 8,
            "legend.fontsize": 7.5,
            "xtick.labelsize": 7.5,
            "ytick.labelsize": 7.5,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "#e6e6e6",
            "grid.linewidth": 0.6,
            "lines.linewidth": 1.4,
            "lines.markersize": 3.5,
            "pdf.fonttype": 42,
            "savefig.bbox": "tight",
            "savefig.pad_inches": 0.03,
        }
    )
    return pyplot


def save(figure: Any, stem: Path, rows: Sequence[Row]) -> list[Path]:
    """Write stem.pdf, stem.png (300 dpi) and stem.csv, the numbers drawn."""
    paths = []
    for kind, metadata in (
        ("pdf", {"CreationDate": None, "Creator": "kappo", "Producer": None}),
        ("png", {"Software": "kappo"}),
    ):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=300, metadata=metadata)
        paths.append(stem.with_suffix(f".{kind}"))
        write_bytes(paths[-1], buffer.getvalue())
    paths.append(stem.with_suffix(".csv"))
    write(paths[-1], rows)
    pyplot().close(figure)
    return paths

"""Rows of tables: read, written, and how arms are named and ordered. Every figure builds on this."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kappo.errors import UserError
from kappo.records import write_text

Row = dict[str, Any]
Arm = tuple[str, str, int, str]
"""method, pressure, k, and the text by which a study sets runs apart ("" for most)."""

ARM: dict[str, type] = {"method": str, "pressure": str, "k": int, "arm": str}
"""The columns that name an arm, with their types."""

NAMES = {"apo": "A*PO", "base": "base model"}
PRESSURES = {"none": "raw reward", "winrate": "win-rate", "raw_reward": "raw reward"}


def write(path: Path, rows: Sequence[Row]) -> None:
    """CSV; fractions with six decimals. Raises UserError when there are no rows."""
    if not rows:
        raise UserError(f"no rows for {path}: the index files of `kappo evaluate` name no evaluation")
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: f"{v:.6f}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    write_text(path, buffer.getvalue())


def read(path: Path, columns: Mapping[str, type]) -> list[Row]:
    """Rows with the columns' types. Raises UserError when the file is missing or empty, or lacks one of them."""
    try:
        with open(path, newline="") as handle:
            rows: list[Row] = list(csv.DictReader(handle))
    except FileNotFoundError:
        raise UserError(f"{path} is missing: make it with `kappo tables`") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is no CSV file: name a folder that `kappo tables` makes") from None
    missing = [name for name in columns if not rows or name not in rows[0]]
    if missing:
        raise UserError(f"{path} has no column {missing[0]!r} or no rows: make it again with `kappo tables`")
    try:
        return [{**row, **{name: kind(row[name]) for name, kind in columns.items()}} for row in rows]
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} holds a cell that is no number ({error}): make it again with `kappo tables`") from None


def arm_of(row: Mapping[str, Any]) -> Arm:
    return row["method"], row["pressure"], row["k"], row["arm"]


def label(arm: Arm, twin: bool = False) -> str:
    """How figures and tables name an arm; the pressure is named where arms differ in it alone (twin)."""
    method, pressure, k, apart = arm
    if method == "base":
        return NAMES["base"]
    notes = [note for note in (PRESSURES.get(pressure, pressure) if twin else "", apart) if note]
    return f"{NAMES.get(method, method.upper())} k={k}" + (f" ({', '.join(notes)})" if notes else "")


def arms_of(rows: Sequence[Row]) -> dict[Arm, str]:
    """Arms in order, the base model first, each with its label."""
    arms = list(dict.fromkeys(arm_of(row) for row in rows))
    arms.sort(key=lambda arm: arm[0] != "base")
    twins = [(method, k, apart) for method, _, k, apart in arms]
    return {arm: label(arm, twins.count((arm[0], arm[2], arm[3])) > 1) for arm in arms}


def methods_of(rows: Sequence[Row]) -> list[str]:
    """Trained methods, in order."""
    return [m for m in dict.fromkeys(row["method"] for row in rows) if m != "base"]

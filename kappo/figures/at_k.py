"""at_k.csv: pass@k of every selected run and the base model, for each k_eval, split and replicate."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kappo.errors import UserError
from kappo.evaluation import FILE, curve, interval, successes
from kappo.records import SAMPLES, read_json, read_table, write_text

COLUMNS = (
    "task",
    "split",
    "metric",
    "method",
    "pressure",
    "k",
    "k_eval",
    "replicate",
    "mean",
    "low",
    "high",
    "n_problems",
    "n_samples",
    "rollouts",
    "bank_rollouts",
)
NUMBERS = {"k": int, "k_eval": int, "mean": float, "low": float, "high": float}

Row = dict[str, Any]


def at_k(indexes: Sequence[Path], ks: Sequence[int], resamples: int) -> list[Row]:
    """Rows of at_k.csv. indexes: files of `kappo evaluate`, one a replicate and test set.

    mean, low, high are fractions; intervals are 95 % bootstrap intervals over problems, and over replicates too where
    replicate is `all`. Methods, splits and k keep the order of the indexes. k is 0 for the base model.
    """
    arms: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for index in indexes:
        for entry in read_json(index):
            arms[tuple(entry[name] for name in ("task", "split", "method", "pressure", "k"))].append(entry)
    rows: list[Row] = []
    for (task, split, method, pressure, k), entries in arms.items():
        curves = []
        for entry in entries:
            counts, n = successes(read_table(Path(entry["folder"]) / FILE, SAMPLES))
            curves.append((str(entry["replicate"]), curve(counts, n, ks), n))
        groups = [(name, [values], n) for name, values, n in curves]
        groups.append(("all", [values for _, values, _ in curves], min(n for _, _, n in curves)))
        for replicate, values, n in groups:
            means, lows, highs = interval(values, resamples)
            for k_eval, mean, low, high in zip(ks, means, lows, highs, strict=True):
                rows.append(
                    {
                        "task": task,
                        "split": split,
                        "metric": "pass",
                        "method": method,
                        "pressure": pressure,
                        "k": k,
                        "k_eval": k_eval,
                        "replicate": replicate,
                        "mean": f"{mean:.6f}",
                        "low": f"{low:.6f}",
                        "high": f"{high:.6f}",
                        "n_problems": sum(len(v) for v in values),
                        "n_samples": n,
                        "rollouts": entries[0]["rollouts"],
                        "bank_rollouts": entries[0]["bank_rollouts"],
                    }
                )
    return rows


def write(path: Path, rows: Sequence[Row]) -> None:
    if not rows:
        raise UserError(f"no rows for {path}: the index files of `kappo evaluate` name no evaluation")
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, buffer.getvalue())


def read(path: Path) -> list[Row]:
    """Rows with numbers as numbers. Raises UserError when the file is missing, empty or lacks a column."""
    try:
        with open(path, newline="") as handle:
            rows: list[Row] = list(csv.DictReader(handle))
    except FileNotFoundError:
        raise UserError(f"{path} is missing: make it with `kappo tables`") from None
    missing = [name for name in COLUMNS if not rows or name not in rows[0]]
    if missing:
        raise UserError(f"{path} has no column {missing[0]!r} or no rows: make it again with `kappo tables`")
    try:
        return [{**row, **{name: kind(row[name]) for name, kind in NUMBERS.items()}} for row in rows]
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} holds a cell that is no number ({error}): make it again with `kappo tables`") from None


def label(method: str, k: int) -> str:
    """How figures and tables name an arm."""
    names = {"apo": "A*PO", "base": "base model"}
    return names.get(method, method.upper()) + ("" if method == "base" else f" k={k}")


def summary(rows: Sequence[Row], shown: Sequence[int] | None = None) -> str:
    """A printed table: pass@k at the smallest and largest k_eval with intervals, each split, base first. In %."""
    picked = [row for row in rows if row["replicate"] == "all"]
    ks = sorted({row["k_eval"] for row in picked})
    ks = list(shown or sorted({ks[0], ks[-1]}))
    splits = list(dict.fromkeys(row["split"] for row in picked))
    arms = list(dict.fromkeys((row["method"], row["k"]) for row in picked))
    arms.sort(key=lambda arm: arm[0] != "base")
    cells = {(row["split"], row["k_eval"], row["method"], row["k"]): row for row in picked}
    heads = [f"{split} pass@{k}" for split in splits for k in ks]
    lines = ["".ljust(14) + "".join(head.rjust(24) for head in heads)]
    for method, k in arms:
        line = label(method, k).ljust(14)
        for split in splits:
            for k_eval in ks:
                row = cells[split, k_eval, method, k]
                line += f"{100 * row['mean']:.1f} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]".rjust(24)
        lines.append(line)
    sizes = ", ".join(
        f"{split}: {next(r['n_problems'] for r in picked if r['split'] == split)} problems x "
        f"{next(r['n_samples'] for r in picked if r['split'] == split)} samples"
        for split in splits
    )
    return "\n".join([*lines, f"in %, with 95 % bootstrap intervals; {sizes}"])

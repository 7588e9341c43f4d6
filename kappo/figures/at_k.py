"""at_k.csv: pass@k of every selected run and the base model, for each k_eval, split and replicate."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kappo.errors import UserError
from kappo.evaluation import FILE, curve, interval
from kappo.records import SAMPLES, by_prompt, read_json, read_table, write_text

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

    mean, low, high are fractions; intervals are those of `evaluation.interval`. Methods, splits and k keep the order
    of the indexes. k is 0 for the base model.
    """
    if min(ks, default=0) < 1 or len(set(ks)) < len(ks):
        raise UserError(f"--k {list(ks)}: expected whole numbers >= 1, each once")
    if resamples < 100:
        raise UserError(f"--bootstrap {resamples}: expected at least 100")
    arms: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for index in indexes:
        for entry in _entries(index):
            arm = arms[tuple(entry[name] for name in ("task", "split", "method", "pressure", "k"))]
            if any(other["replicate"] == entry["replicate"] for other in arm):
                raise UserError(
                    f"{index}: {label(entry['method'], entry['k'])} on split {entry['split']!r}, replicate "
                    f"{entry['replicate']} is there twice; name each index once, and give test sets splits of their own"
                )
            arm.append({**entry, "folder": index.parent / entry["folder"]})
    rows: list[Row] = []
    for (task, split, method, pressure, k), entries in arms.items():
        curves = []
        for entry in entries:
            path = entry["folder"] / FILE
            rewards = by_prompt(read_table(path, SAMPLES), "reward")[1]
            n = rewards.shape[1]
            if n < max(ks):
                raise UserError(f"--k {max(ks)}: {path} holds {n} samples a problem; unbiased pass@k needs n >= k")
            curves.append((str(entry["replicate"]), curve(rewards, ks), n))
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


def _entries(index: Path) -> list[Mapping[str, Any]]:
    found = read_json(index)
    wanted = {"task", "split", "method", "pressure", "k", "replicate", "folder", "rollouts", "bank_rollouts"}
    if not (isinstance(found, list) and found and all(isinstance(e, dict) and wanted <= set(e) for e in found)):
        raise UserError(f"{index} is no index file of `kappo evaluate`: make it again")
    return found


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
    except UnicodeDecodeError:
        raise UserError(f"{path} is no CSV file: name the at_k.csv that `kappo tables` makes") from None
    missing = [name for name in COLUMNS if not rows or name not in rows[0]]
    if missing:
        raise UserError(f"{path} has no column {missing[0]!r} or no rows: make it again with `kappo tables`")
    try:
        return [{**row, **{name: kind(row[name]) for name, kind in NUMBERS.items()}} for row in rows]
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} holds a cell that is no number ({error}): make it again with `kappo tables`") from None


def label(method: str, k: int, pressure: str = "") -> str:
    """How figures and tables name an arm; the pressure is named where arms differ in it alone."""
    names = {"apo": "A*PO", "base": "base model"}
    named = names.get(method, method.upper()) + ("" if method == "base" else f" k={k}")
    return f"{named} ({pressure})" if pressure else named


def arms_of(rows: Sequence[Row]) -> dict[tuple[str, str, int], str]:
    """Arms (method, pressure, k) in order, the base model first, each with its label."""
    arms = list(dict.fromkeys((row["method"], row["pressure"], row["k"]) for row in rows))
    arms.sort(key=lambda arm: arm[0] != "base")
    twins = [(method, k) for method, _, k in arms]
    return {arm: label(arm[0], arm[2], arm[1] if twins.count((arm[0], arm[2])) > 1 else "") for arm in arms}


def summary(rows: Sequence[Row], shown: Sequence[int] | None = None) -> str:
    """A printed table: pass@k at the smallest and largest k_eval with intervals, each split, base first. In %."""
    picked = [row for row in rows if row["replicate"] == "all"]
    ks = sorted({row["k_eval"] for row in picked})
    ks = list(shown or sorted({ks[0], ks[-1]}))
    splits = list(dict.fromkeys(row["split"] for row in picked))
    arms = arms_of(picked)
    width = max(14, *(len(name) + 2 for name in arms.values()))
    cells = {(row["split"], row["k_eval"], row["method"], row["pressure"], row["k"]): row for row in picked}
    heads = [f"{split} pass@{k}" for split in splits for k in ks]
    lines = ["".ljust(width) + "".join(head.rjust(24) for head in heads)]
    for arm, name in arms.items():
        line = name.ljust(width)
        for split in splits:
            for k_eval in ks:
                row = cells.get((split, k_eval, *arm))
                shown_as = "-"
                if row is not None:
                    shown_as = f"{100 * row['mean']:.1f} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"
                line += shown_as.rjust(24)
        lines.append(line)
    sizes = ", ".join(
        f"{split}: {next(r['n_problems'] for r in picked if r['split'] == split)} problems x "
        f"{next(r['n_samples'] for r in picked if r['split'] == split)} samples"
        for split in splits
    )
    replicates = {row["replicate"] for row in rows} - {"all"}
    how = "bootstrap over problems" if len(replicates) == 1 else f"Student's t over {len(replicates)} replicates"
    return "\n".join([*lines, f"in %, with 95 % intervals ({how}); {sizes}"])

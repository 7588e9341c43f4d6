"""at_k.csv: pass@k or max@k of every selected run and the base model, for each k_eval, split and replicate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kappo.errors import UserError
from kappo.evaluation import FILE, curve, interval
from kappo.figures.indexes import entries_of
from kappo.figures.rows import Row, arm_of, arms_of, label
from kappo.records import SAMPLES, by_prompt, read_table

COLUMNS = {
    "task": str,
    "split": str,
    "metric": str,
    "method": str,
    "pressure": str,
    "k": int,
    "arm": str,
    "k_eval": int,
    "replicate": str,
    "mean": float,
    "low": float,
    "high": float,
    "n_problems": int,
    "n_samples": int,
    "kl": float,
    "rollouts": int,
    "bank_rollouts": int,
}


def at_k(indexes: Sequence[Path], ks: Sequence[int], resamples: int) -> list[Row]:
    """Rows of at_k.csv. indexes: files of `kappo evaluate`, one a replicate and test set.

    kl: KL of the selected checkpoint to the base model, on the validation prompts, in nats a completion. mean, low,
    high are fractions; intervals are those of `evaluation.interval`. Methods, splits and k keep the order
    of the indexes. k is 0 for the base model.
    """
    if min(ks, default=0) < 1 or len(set(ks)) < len(ks):
        raise UserError(f"--k {list(ks)}: expected whole numbers >= 1, each once")
    if resamples < 100:
        raise UserError(f"--bootstrap {resamples}: expected at least 100")
    arms: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for index in indexes:
        for entry in entries_of(index):
            arm = arms[tuple(entry[name] for name in ("task", "split", "metric", "method", "pressure", "k", "arm"))]
            if any(other["replicate"] == entry["replicate"] for other in arm):
                raise UserError(
                    f"{index}: {label(arm_of(entry))} on split {entry['split']!r}, replicate "
                    f"{entry['replicate']} is there twice; name each index once, and give test sets splits of their own"
                )
            arm.append({**entry, "folder": index.parent / entry["folder"]})
    rows: list[Row] = []
    for (task, split, metric, method, pressure, k, arm), entries in arms.items():
        curves = []
        for entry in entries:
            path = entry["folder"] / FILE
            rewards = by_prompt(read_table(path, SAMPLES), "reward")[1]
            n = rewards.shape[1]
            if n < max(ks):
                raise UserError(f"--k {max(ks)}: {path} holds {n} samples a problem; unbiased pass@k needs n >= k")
            curves.append((str(entry["replicate"]), curve(rewards, ks), n, entry["kl"]))
        groups = [(name, [values], n, kl) for name, values, n, kl in curves]
        together = [values for _, values, _, _ in curves]
        kl_mean = float(np.mean([kl for _, _, _, kl in curves]))
        groups.append(("all", together, min(n for _, _, n, _ in curves), kl_mean))
        for replicate, values, n, kl in groups:
            means, lows, highs = interval(values, resamples)
            for k_eval, mean, low, high in zip(ks, means, lows, highs, strict=True):
                rows.append(
                    {
                        "task": task,
                        "split": split,
                        "metric": metric,
                        "method": method,
                        "pressure": pressure,
                        "k": k,
                        "arm": arm,
                        "k_eval": k_eval,
                        "replicate": replicate,
                        "mean": float(mean),
                        "low": float(low),
                        "high": float(high),
                        "n_problems": sum(len(v) for v in values),
                        "n_samples": n,
                        "kl": float(kl),
                        "rollouts": entries[0]["rollouts"],
                        "bank_rollouts": entries[0]["bank_rollouts"],
                    }
                )
    return rows


def summary(rows: Sequence[Row], shown: Sequence[int] | None = None) -> str:
    """A printed table: the metric at the smallest and largest k_eval with intervals, each test split, base first."""
    picked = [row for row in rows if row["replicate"] == "all" and row["split"] != "validation"]
    ks = sorted({row["k_eval"] for row in picked})
    ks = list(shown or sorted({ks[0], ks[-1]}))
    splits = list(dict.fromkeys(row["split"] for row in picked))
    arms = arms_of(picked)
    width = max(14, *(len(name) + 2 for name in arms.values()))
    cells = {(row["split"], row["k_eval"], *arm_of(row)): row for row in picked}
    heads = [f"{split} {picked[0]['metric']}@{k}" for split in splits for k in ks]
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


def means(rows: Sequence[Row]) -> dict[str, float]:
    """The means over all replicates by a readable name, for a tracker."""
    names = arms_of(rows)
    return {
        f"{row['split']}/{names[arm_of(row)]}/{row['metric']}@{row['k_eval']}": row["mean"]
        for row in rows
        if row["replicate"] == "all"
    }

"""Golden numbers, computed with 60 decimal digits by code that shares nothing with the package; 17 digits are kept.

algorithm1: tables of Algorithm 1, rows j = 0 .. M, for A*PO (alpha 0) and DPO (alpha 0.5, cap 2).
binary: optima for (k, beta, p_ref). Inputs are exact in float64; values below its range read as 0.
winrate: log C and T_0 .. T_M of Algorithm 2 for (k, beta, M).
estimators: pass@k, max@k, PKPO's weights and policy gradients by exact fractions; `kind` says which.
maxk_discrete: max@k optima over discrete rewards. sensitivity: finite-bank noise and bias. theory_figures: panel a, and
bc for Beta reward densities. sharpening: optima and gradients of four objectives, trees of tokens; `kind` says which.
"""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any


def numbers(value: Any) -> Any:
    """Decimal strings -> floats, at any depth; other text stays."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    if isinstance(value, list):
        return [numbers(v) for v in value]
    if isinstance(value, dict):
        return {k: numbers(v) for k, v in value.items()}
    return value


@lru_cache
def records(name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(inputs, outputs) of every record of golden/<name>.json.gz."""
    with gzip.open(Path(__file__).parent / f"{name}.json.gz", "rt") as handle:
        return [(numbers(r["inputs"]), numbers(r["outputs"])) for r in json.load(handle)["records"]]

"""Index files of `kappo evaluate`: which model was evaluated on what, and where its run's coefficients lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kappo.errors import UserError
from kappo.folders import MANIFEST
from kappo.records import read_json

Entry = Mapping[str, Any]

ABOUT = ("task", "split", "metric", "method", "pressure", "k", "arm", "replicate", "kl", "rollouts", "bank_rollouts")
KEYS = {*ABOUT, "folder", "run", "step"}


def entries_of(index: Path) -> list[Entry]:
    """The evaluations that an index names. Raises UserError for any other file."""
    found = read_json(index)
    if not (isinstance(found, list) and found and all(isinstance(e, dict) and set(e) >= KEYS for e in found)):
        raise UserError(f"{index} is no index file of `kappo evaluate`: make it again")
    return found


def runs_of(indexes: Sequence[Path]) -> list[Entry]:
    """One entry for each run that the indexes name, in order; base models have none."""
    entries = [entry for index in indexes for entry in entries_of(index) if entry["run"]]
    return list({(entry["run"], entry["arm"]): entry for entry in reversed(entries)}.values())[::-1]


def calibration_folder(results: Path, run: str) -> Path:
    """Where the coefficients that a run was trained with lie."""
    upstream = read_json(results / "runs" / run / MANIFEST, ["upstream"])["upstream"]
    return results / "calibration" / upstream["calibration"]

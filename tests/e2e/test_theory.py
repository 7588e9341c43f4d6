"""The theory study as a user runs it: one command, all figures and tables, nothing twice."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, digests, environment

pytestmark = pytest.mark.slow

FIGURES = {
    *("adaptive_pressure", "optimal_success", "bank_error_binary", "bank_error_winrate", "estimators"),
    *("four_objectives", "fixed_points", "convergence", "shared_parameters"),
}


def run(folder: Path, *more: str) -> str:
    command = [sys.executable, str(ROOT / "workflow" / "run.py"), "--study", "theory", "--cores", "1"]
    command += ["--set", "theory.k=[1,4] theory.beta=[0.1]", *more]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_theory(tmp_path: Path) -> None:
    said = run(tmp_path)
    study = tmp_path / "results" / "theory"
    assert {p.stem for p in (study / "figures").iterdir()} == FIGURES
    assert len(list((study / "figures").iterdir())) == 3 * len(FIGURES)
    for stated in ("0.553", "0.740", "0.042", "-0.028", "4.2 %", "5.0 %"):
        assert stated in said
    with open(study / "tables" / "numbers.csv", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert {row["agrees"] for row in rows if not row["note"]} == {"True"}
    with open(study / "tables" / "fixed_points.csv", newline="") as handle:
        last = {row["arm"]: row for row in csv.DictReader(handle)}
    assert float(last["RLOO, k1 in reward"]["exact"]) == pytest.approx(0.475357, abs=1e-6)
    assert float(last["RLOO, k3 in loss"]["exact"]) == pytest.approx(0.602566, abs=1e-6)

    before = digests(tmp_path / "results")
    assert "Nothing to do" in run(tmp_path)
    (study / "figures" / "fixed_points.pdf").unlink()
    assert "Nothing to do" not in run(tmp_path)
    assert digests(tmp_path / "results") == before

"""The workflow as a user meets it: figures from nothing, nothing twice, only what a change touches."""

from __future__ import annotations

import csv
import fcntl
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, digests, environment, run_study

pytestmark = pytest.mark.slow

FIGURES = (
    *(
        "at_k_apo",
        "at_k_dpo",
        "at_k_grpo",
        "at_k_pkpo",
        "at_k_rloo",
        "at_k_qrpo",
        "agreement",
        "agreement_validation",
        "pressure",
        "gain",
        "prediction",
        *("training_apo", "training_dpo", "training_grpo", "training_pkpo", "training_rloo", "training_qrpo"),
        "rollouts",
    ),
    "frontier",
)


def planned_jobs(folder: Path, settings: str, study: str = "smoke") -> dict[str, int]:
    """Rule -> number of jobs that `snakemake -n` lists for a study with these overrides."""
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--cores", "2", "-n"]
    command += ["--config", f"study={study}", f"set={settings}"]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    text = done.stdout + done.stderr
    if "Nothing to be done" in text:
        return {}
    table = text.rsplit("Job stats:", 1)[1]
    return {rule: int(n) for rule, n in re.findall(r"^(\w+) +(\d+)$", table, re.M) if rule not in ("all", "total")}


def test_figures_table_and_summary(finished: Path) -> None:
    study = finished / "results" / "smoke"
    for name in FIGURES:
        for kind, magic in (("pdf", b"%PDF"), ("png", b"\x89PNG"), ("csv", b"")):
            assert (study / "figures" / f"{name}.{kind}").read_bytes().startswith(magic)
    with open(study / "tables" / "at_k.csv", newline="") as handle:
        rows = list(csv.DictReader(handle))
    arms = {
        *(("base", "0", ""), ("apo", "1", ""), ("apo", "2", "online"), ("apo", "4", ""), ("dpo", "2", "")),
        *(("grpo", "2", "lr 0.0006"), ("pkpo", "2", ""), ("qrpo", "2", ""), ("rloo", "2", "")),
        *(("rloo", "1", "tempered"), ("rloo", "1", "sharpening")),
    }
    assert {(r["split"], r["method"], r["k"], r["arm"]) for r in rows} == {
        (split, *arm) for split in ("id", "hard", "validation") for arm in arms
    }
    assert all(float(r["low"]) <= float(r["mean"]) <= float(r["high"]) for r in rows)
    sampled = {(r["method"], r["rollouts"], r["bank_rollouts"]) for r in rows if r["method"] != "base"}
    bank = {("apo", "96"), ("dpo", "0"), ("grpo", "192"), ("qrpo", "0"), ("rloo", "192")}
    assert sampled == {*((*run, "256") for run in bank), ("pkpo", "192", "0")}
    with open(study / "tables" / "claims.csv", newline="") as handle:
        claimed = list(csv.DictReader(handle))
    assert [row["replicates"] for row in claimed] == ["1", "1"]
    assert all(row["verdict"] in ("holds", "does not hold", "not testable at this size") for row in claimed)
    assert (study / "figures" / "agreement_validation_table.md").read_text().count("PKPO k=2") == 1
    printed = (finished / "first.log").read_text()
    assert "pass@16" in printed
    assert "results/smoke/figures/" in printed
    assert "A*PO k=1 gains at one attempt" in printed


def test_every_stage_leaves_metrics_manifest_and_wandb_run(finished: Path) -> None:
    results = finished / "results"
    folders = [
        p for kind in ("models", "banks", "calibration", "runs", "evaluations") for p in (results / kind).iterdir()
    ]
    assert len(folders) == 1 + 1 + 8 + 10 + 44
    for folder in folders:
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["id"] == folder.name
        assert manifest["files"]
        assert [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert list((folder / "wandb").glob("offline-run-*/run-*.wandb")), f"{folder} has no offline W&B run"


def test_a_second_run_does_nothing_and_says_so(finished: Path) -> None:
    before = digests(finished / "results")
    assert "Nothing to do" in run_study(finished).stdout
    assert digests(finished / "results") == before


@pytest.mark.parametrize("settings", ["tracking=disabled", "runtime.threads=2 runtime.micro_batch_size=4"])
def test_how_a_run_is_carried_out_reruns_nothing(finished: Path, settings: str) -> None:
    assert planned_jobs(finished, settings) == {}


def test_moved_results_rerun_nothing(finished: Path) -> None:
    moved = finished / "elsewhere"
    (finished / "results").rename(moved)
    try:
        assert planned_jobs(finished, f"paths.results={moved}") == {}
    finally:
        moved.rename(finished / "results")


def test_changing_one_beta_reruns_what_depends_on_it(finished: Path) -> None:
    grid = "grid=[{method:apo,pressure:binary,k:1,beta:0.1,lr:6e-4},{method:apo,pressure:binary,k:4,beta:0.3,lr:6e-4}]"
    assert planned_jobs(finished, f'"{grid}"') == {
        "calibrate": 1,
        "train": 1,
        "select": 1,
        "evaluate": 4,
        "tables": 1,
        "figures": 1,
    }


def test_a_study_with_the_same_runs_shares_them_and_changes_nothing_for_the_first(finished: Path) -> None:
    other = finished / "conf" / "study" / "other.yaml"
    other.parent.mkdir(parents=True)
    try:
        other.write_text("# @package _global_\ndefaults: [smoke, _self_]\nname: other\n")
        assert planned_jobs(finished, "", "other") == {"select": 1, "evaluate": 4, "tables": 1, "figures": 1}
        assert planned_jobs(finished, "") == {}
    finally:
        shutil.rmtree(finished / "conf")
        shutil.rmtree(finished / "results" / "other")


def test_more_resamples_rerun_tables_and_figures_only(finished: Path) -> None:
    assert planned_jobs(finished, "eval.bootstrap=300") == {"tables": 1, "figures": 1}


def test_a_second_workflow_is_refused_and_told_who_runs(finished: Path) -> None:
    with open(finished / "results" / ".workflow.lock", "w") as handle:
        handle.write("pid 12345 on somewhere: run.py\n")
        handle.flush()
        fcntl.flock(handle, fcntl.LOCK_EX)
        done = run_study(finished, check=False)
    assert done.returncode == 2
    assert "pid 12345" in done.stderr


def test_a_bad_setting_stops_before_anything_runs(tmp_path: Path) -> None:
    done = run_study(tmp_path, "--set", "train.stepz=3", check=False)
    assert done.returncode == 2
    assert "train.stepz = 3" in done.stderr
    assert "'train.steps'" in done.stderr
    assert not (tmp_path / "results").exists()

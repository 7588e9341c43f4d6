"""kill -9 and rerun: the same bytes. Stages die at chosen writes, the workflow while a stage is running."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import ROOT, digests, environment, run_study

pytestmark = pytest.mark.slow

DIE_AT_WRITE = """
import os, signal, sys
from kappo import records
left, replace = int(sys.argv[1]), os.replace
def dying(source, target):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
records.os.replace = dying
from kappo.cli import main
main(sys.argv[2:])
"""


def run_and_die(folder: Path, writes: int, *arguments: str) -> int:
    """One stage that is killed at its n-th file write; its exit code."""
    command = [sys.executable, "-c", DIE_AT_WRITE, str(writes), *arguments]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True).returncode


@pytest.mark.parametrize(
    ("kind", "verb", "writes", "which"),
    [
        ("models", "base", 8, "*"),
        ("banks", "bank", 6, "*"),
        ("runs", "train", 9, "rules-apo-k1-*"),
        ("runs", "train", 9, "rules-apo-k2-*"),  # online: its running success rate must be found again
    ],
)
def test_a_stage_killed_again_and_again_ends_with_the_same_bytes(
    finished: Path, tmp_path: Path, kind: str, verb: str, writes: int, which: str
) -> None:
    shutil.copytree(finished / "results", tmp_path / "results")
    made = next((tmp_path / "results" / kind).glob(which))
    shutil.rmtree(made)
    arguments = (verb, "--cell", f"results/cells/{made.name}.yaml")
    kills = 0
    while (code := run_and_die(tmp_path, writes, *arguments)) == -signal.SIGKILL:
        kills += 1
        assert kills < 12, "no progress between kills"
    assert code == 0
    assert kills >= 1
    assert digests(tmp_path / "results") == digests(finished / "results")


def test_an_evaluation_killed_between_models_ends_with_the_same_bytes(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished / "results", tmp_path / "results")
    for folder in (tmp_path / "results" / "evaluations").iterdir():
        if folder.name.startswith(("rules-id", "rules-hard")):
            shutil.rmtree(folder)
    base = next((tmp_path / "results" / "models").iterdir()).relative_to(tmp_path)
    for test in ("rules_id", "rules_hard"):
        arguments = ["evaluate", str(base), "--selection", "results/smoke/selection/r0.json"]
        arguments += ["--index", f"results/smoke/evaluations/{test}-r0.json"]
        cell = next((tmp_path / "results" / "smoke" / "cells").glob(f"test-{test.replace('_', '-')}-*.yaml"))
        arguments += ["--cell", str(cell.relative_to(tmp_path))]
        assert run_and_die(tmp_path, 55, *arguments) == -signal.SIGKILL
        assert run_and_die(tmp_path, 10**6, *arguments) == 0
    assert digests(tmp_path / "results") == digests(finished / "results")


def kill_at(folder: Path, trace: str, victims: str) -> None:
    """Start the workflow; once a file of this pattern exists kill -9 its runner, or its runner and Snakemake.

    Everything else, the stages above all, must end by itself.
    """
    command = [sys.executable, str(ROOT / "workflow" / "run.py"), "--study", "smoke", "--cores", "2"]
    process = subprocess.Popen(command, cwd=folder, env=environment(), stderr=subprocess.DEVNULL)
    while not any((folder / "results").glob(trace)):
        assert process.poll() is None, f"the workflow ended without {trace}"
        time.sleep(0.01)
    family = psutil.Process(process.pid).children(recursive=True)
    if victims == "runner and snakemake":
        for child in [child for child in family if "snakemake" in child.cmdline()]:
            child.kill()
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive, f"outlived the workflow: {[child.cmdline() for child in alive]}"


def test_a_workflow_killed_twice_leaves_no_orphans_and_ends_with_the_same_bytes(finished: Path, tmp_path: Path) -> None:
    kill_at(tmp_path, "banks/*/chunks/00000.parquet", "runner")
    kill_at(tmp_path, "runs/*/checkpoints/*/state.json", "runner and snakemake")
    run_study(tmp_path)
    assert digests(tmp_path / "results") == digests(finished / "results")

"""The smoke study, run for real in a folder of its own."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HASHED = (".csv", ".parquet", ".safetensors", ".yaml", ".json", ".jsonl", ".pdf", ".png", ".txt")
NOTES = ("run.json", "done.json")


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "WANDB_MODE": "offline"}


def run_study(folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """workflow/run.py for the smoke study, with `folder` as working folder; results lie in folder/results."""
    command = [sys.executable, str(ROOT / "workflow" / "run.py"), "--study", "smoke", "--cores", "2", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    assert not check or done.returncode == 0, done.stderr[-4000:]
    return done


def kappo(folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kappo", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    assert not check or done.returncode == 0, done.stderr[-4000:]
    return done


def digests(results: Path) -> dict[str, str]:
    """SHA-256 of everything that must not depend on how often or when a run was interrupted."""
    found = {}
    for path in sorted(results.rglob("*")):
        inside = path.relative_to(results)
        if path.is_file() and path.suffix in HASHED and path.name not in NOTES and "wandb" not in inside.parts:
            found[str(inside)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the finished smoke study; tests must leave its results as they are."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "first.log").write_text(run_study(folder).stdout)
    return folder

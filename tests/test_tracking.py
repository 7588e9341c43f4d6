"""W&B offline runs, read back by W&B's own command."""

import json
import subprocess
import sys

import pytest

from kappo.tracking import Tracker

pytestmark = pytest.mark.slow

CONFIG = {"k": 4, "pressure": {"beta": 0.1}}


def records(folder):
    """The records of each session of the run, in order of time."""
    found = []
    for session in sorted((folder / "wandb").glob("offline-run-*")):
        command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(session)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append([json.loads(line) for line in done.stdout.splitlines()])
    return found


def steps(session):
    return [r["history"]["item"]["_step"] for r in session if r["type"] == "history"]


def tracker(folder):
    return Tracker(folder, "offline", "kappo", "train", "smoke", CONFIG)


@pytest.fixture
def sessions(tmp_path):
    """A run that stopped behind step 2, its checkpoint at step 1, and was resumed."""
    with tracker(tmp_path).open() as first:
        first.log(1, {"reward": 0.1})
        offset = first.flush()
        first.log(2, {"reward": 0.2})
    (tmp_path / "at_k.csv").write_text("method,replicate,mean\napo,all,0.5\nbase,0,1\n")
    with tracker(tmp_path).open(offset) as resumed:
        resumed.log(2, {"reward": 0.2})
        resumed.log(3, {"reward": 0.3})
        resumed.log_table("at_k", tmp_path / "at_k.csv")
    return records(tmp_path)


def test_a_resumed_run_appends_to_its_wandb_run(sessions, tmp_path):
    abouts = [next(r["run"] for r in session if r["type"] == "run") for session in sessions]
    assert len({about["run_id"] for about in abouts}) == 1
    for about in abouts:
        assert (about["run_group"], about["job_type"], about["project"]) == ("smoke", "train", "kappo")
        assert about["config"]["update"].items() >= CONFIG.items()
    assert [steps(session) for session in sessions] == [[1, 2], [3]]
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3]


def test_tables_keep_numbers_as_numbers(sessions, tmp_path):
    (path,) = (tmp_path / "wandb").glob("offline-run-*/files/media/table/table/at_k_*.table.json")
    shown = json.loads(path.read_text())
    assert shown["columns"] == ["method", "replicate", "mean"]
    assert shown["data"] == [["apo", "all", 0.5], ["base", "0", 1.0]]

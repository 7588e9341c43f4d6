import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parents[2] / "examples"


def run(name):
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    done = subprocess.run([sys.executable, FOLDER / name], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def logs(output):
    """The lines that a trainer logs, one a step."""
    return [ast.literal_eval(line) for line in output.splitlines() if line.startswith("{") and "'loss'" in line]


@pytest.mark.parametrize(("name", "steps"), [("trl_grpo.py", 2), ("trl_rloo.py", 4), ("trl_dpo.py", 2)])
def test_trl(name, steps):
    pytest.importorskip("trl", reason="TRL, whose trainers the example extends, is not installed")
    logged = logs(run(name))
    assert len(logged) == steps
    assert all(float(step["grad_norm"]) > 0 for step in logged)


def test_verl():
    lines = run("verl_reward.py").splitlines()[-4:]
    scores = {line.split()[0]: ast.literal_eval(line.split(maxsplit=1)[1])["score"] for line in lines}
    assert scores["sum-2-4"] == 4.0
    assert sorted(scores, key=scores.get) == ["sum-1-3", "sum-1-4", "sum-2-3", "sum-2-4"]


def test_each_is_short():
    lengths = {file.name: len(file.read_text().splitlines()) for file in FOLDER.glob("*.py") if file.name != "tiny.py"}
    assert len(lengths) == 4
    assert max(lengths.values()) <= 30

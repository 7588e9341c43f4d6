"""The verbs without the workflow: sweeps, missing parts, locks, calibration on its own."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kappo import records
from kappo.theory import binary
from tests.e2e.conftest import digests, environment, kappo

pytestmark = pytest.mark.slow

SMOKE = """model.warmup.steps=60 data.problems=32 validation.problems=16 bank.samples_per_prompt=8
bank.prompts_per_chunk=8 train.prompts_per_step=16 eval.validation_samples=8 eval.max_failed_share=1.0
eval.samples_per_problem=16 eval.k=[1,4,16]""".split()  # noqa: SIM905 - the settings of conf/study/smoke.yaml


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished / "results", tmp_path / "results")
    return tmp_path


def test_a_sweep_without_the_workflow(copy: Path) -> None:
    before = set((copy / "results" / "runs").iterdir())
    done = kappo(copy, "train", "-m", "method=apo", "k=1,4", "beta=0.2", "train.steps=2", *SMOKE)
    new = sorted(set((copy / "results" / "runs").iterdir()) - before)
    assert len(new) == 2
    assert all((run / "manifest.json").is_file() for run in new)
    assert "pass@4" in done.stdout
    assert not (copy / "multirun").exists()
    again = kappo(copy, "train", "k=4", "beta=0.2", "train.steps=2", *SMOKE)
    assert "complete already" in again.stderr


def test_missing_parts_are_named_with_the_command_that_makes_them(tmp_path: Path) -> None:
    done = kappo(tmp_path, "train", "k=4", "data.problems=256", check=False)
    assert done.returncode == 2
    assert "kappo base data.problems=256" in done.stderr
    done = kappo(tmp_path, "bank", check=False)
    assert done.returncode == 2
    assert done.stderr.rstrip().endswith("kappo base")


def test_the_base_model_loads_with_transformers(finished: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = next((finished / "results" / "models").iterdir())
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("4,2=8;3,5=?", return_tensors="pt").input_ids
    assert tokenizer.decode(ids[0]) == "4,2=8;3,5=?"
    assert model(ids).logits.shape == (1, 11, len(tokenizer))


def test_a_second_writer_is_refused_and_told_who_holds_the_folder(copy: Path) -> None:
    run = next((copy / "results" / "runs").iterdir())
    (run / "manifest.json").unlink()
    with open(run / ".lock", "w") as handle:
        handle.write("pid 12345 on somewhere: kappo train\n")
        handle.flush()
        fcntl.flock(handle, fcntl.LOCK_EX)
        done = kappo(copy, "train", "--cell", f"results/cells/{run.name}.yaml", check=False)
    assert done.returncode == 2
    assert "pid 12345" in done.stderr


def test_a_damaged_file_is_made_again(copy: Path) -> None:
    bank = next((copy / "results" / "banks").iterdir())
    good = (bank / "bank.parquet").read_bytes()
    (bank / "bank.parquet").write_bytes(good[: len(good) // 2])
    kappo(copy, "bank", "--cell", f"results/cells/{bank.name}.yaml")
    assert (bank / "bank.parquet").read_bytes() == good


def test_a_damaged_checkpoint_is_trained_again_to_the_same_bytes(finished: Path, copy: Path) -> None:
    run = next((copy / "results" / "runs").iterdir())
    weights = run / "checkpoints" / "step-000003" / "model.safetensors"
    good = weights.read_bytes()
    weights.write_bytes(good[: len(good) // 2] + bytes(len(good) - len(good) // 2))
    kappo(copy, "train", "--cell", f"results/cells/{run.name}.yaml")
    assert digests(copy / "results") == digests(finished / "results")


def test_a_short_chunk_is_sampled_again(copy: Path) -> None:
    bank = next((copy / "results" / "banks").iterdir())
    good, chunk = (bank / "bank.parquet").read_bytes(), bank / "chunks" / "00001.parquet"
    records.write_table(chunk, pq.read_table(chunk).slice(8))
    (bank / "manifest.json").unlink()
    kappo(copy, "bank", "--cell", f"results/cells/{bank.name}.yaml")
    assert (bank / "bank.parquet").read_bytes() == good


def test_evaluate_prints_pass_at_k(copy: Path) -> None:
    run = next((copy / "results" / "runs").iterdir())
    done = kappo(copy, "evaluate", str(run), "--set", "data=rules_hard", "tracking=disabled", *SMOKE[-3:])
    assert "pass@16" in done.stdout


def test_calibrate_needs_no_torch_and_agrees_with_the_theory(copy: Path) -> None:
    bank = next((copy / "results" / "banks").iterdir())
    arguments = ["calibrate", str(bank), "--k", "2", "--beta", "0.05", "--interface", "regularization"]
    code = (
        "import sys\nfrom kappo.cli import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "finally:\n    assert not {'torch', 'transformers', 'wandb', 'matplotlib', 'snakemake'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=copy, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    folder = copy / done.stdout.strip()
    rows = pq.read_table(folder / "coefficients.parquet").to_pydict()
    for successes, n, beta_eff in zip(rows["successes"], rows["n"], rows["beta_eff"], strict=True):
        want = float(binary.dpo_beta(binary.solve_counts(successes, n, 2, 0.05, 0.5)))
        assert beta_eff == pytest.approx(want, rel=1e-13)
    assert json.loads((folder / "manifest.json").read_text())["upstream"] == {"bank": bank.name}


@pytest.mark.parametrize("arguments", [["--k", "0"], ["--beta", "-1"], ["--k", "2", "--pressure", "none"]])
def test_calibrate_refuses_impossible_values(finished: Path, arguments: list[str]) -> None:
    bank = next((finished / "results" / "banks").iterdir())
    done = kappo(finished, "calibrate", str(bank), *arguments, check=False)
    assert done.returncode == 2
    assert arguments[1] in done.stderr

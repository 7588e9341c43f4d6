"""`kappo calibrate FILE`: coefficients for trainers of one's own."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from kappo.calibration import by_prompt_id
from kappo.commands.calibrate import calibrate
from kappo.errors import UserError
from kappo.pressure.raw_reward import RawReward
from kappo.pressure.winrate import WinRate
from kappo.theory import binary

RNG = np.random.default_rng(0)
BANK = {f"p{i}": (RNG.random(12 if i % 3 else 7) < i / 20).astype(float).tolist() for i in range(21)}
RANKED = {f"p{i}": RNG.integers(0, 5, 9).tolist() for i in range(6)}


def written(path, bank):
    path.write_text("".join(json.dumps({"prompt_id": id, "reward": rewards}) + "\n" for id, rewards in bank.items()))
    return str(path)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("interface", ["reward", "regularization"])
def test_coefficients_are_theorys_whatever_the_number_of_completions(tmp_path, suffix, interface):
    source, output = written(tmp_path / "r.jsonl", BANK), tmp_path / f"c.{suffix}"
    calibrate([source, "--k", "1,4", "--beta", "0.1,5e-4", "--interface", interface, "-o", str(output)])
    alpha = 0.5 if interface == "regularization" else 0.0
    for k in (1, 4):
        for beta in (0.1, 5e-4):
            a = by_prompt_id(output, "a", k, beta)
            beta_eff = by_prompt_id(str(output), "beta_eff", k=k, beta=beta)
            assert list(a) == list(BANK)
            for id, rewards in BANK.items():
                want = binary.solve_counts(sum(rewards), len(rewards), k, beta, alpha)
                assert a[id] == pytest.approx(float(want.a), rel=1e-13)
                want = float(binary.dpo_beta(want) if alpha else want.beta_eff)
                assert beta_eff[id] == pytest.approx(want, rel=1e-13)


@pytest.mark.parametrize("name", ["winrate", "raw_reward"])
def test_transformed_rewards(tmp_path, name):
    source, output = written(tmp_path / "r.jsonl", RANKED), tmp_path / "c.parquet"
    extra = ["--ties", "midrank"] if name == "winrate" else []
    calibrate([source, "--k", "3", "--pressure", name, "-o", str(output), *extra])
    pressure = WinRate(3, 0.1, "midrank") if name == "winrate" else RawReward(3, 0.1)
    bank = np.array(list(RANKED.values()), dtype=float)
    want = pressure.adapt(bank, pressure.fit(bank)).reward
    rows = parquet.read_table(output)
    np.testing.assert_array_equal(rows["scores"].to_pylist(), want)
    np.testing.assert_array_equal(rows["rewards"].to_pylist(), bank)


def test_estimator_and_zero(tmp_path):
    source, output = written(tmp_path / "r.jsonl", BANK), tmp_path / "c.csv"
    calibrate([source, "--k", "4", "--estimator", "posterior", "--zero", "drop", "-o", str(output)])
    a = by_prompt_id(output, "a")
    for id, rewards in BANK.items():
        p = RNG.beta(sum(rewards) + 0.5, len(rewards) - sum(rewards) + 0.5, 200_000)
        draws = binary.solve(binary.logit(p), 4, 0.1).a
        want = draws.mean() if sum(rewards) else 0.0
        assert a[id] == pytest.approx(want, abs=5 * draws.std() / len(draws) ** 0.5 + 1e-12)


def test_the_file_lies_beside_ones_work_and_the_plot_where_it_is_asked_for(tmp_path, monkeypatch, capsys):
    (tmp_path / "data").mkdir()
    source = written(tmp_path / "data" / "mine.jsonl", BANK)
    monkeypatch.chdir(tmp_path)
    calibrate([source, "--k", "2", "--plot", "look"])
    said = capsys.readouterr().out
    assert "21 prompts, 7 to 12 completions each" in said
    assert {p.name for p in tmp_path.iterdir()} == {
        "data", "mine-coefficients.csv", "look.pdf", "look.png", "look.csv"
    }  # fmt: skip
    drawn = {line.split(",")[-1] for line in (tmp_path / "look.csv").read_text().splitlines()[1:]}
    assert drawn == {f"{a:.6f}" for a in by_prompt_id("mine-coefficients.csv", "a").values()}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ties", "exact"], "--ties exact with --pressure binary"),
        (["--k", "2", "--pressure", "winrate", "--zero", "drop"], "--zero drop"),
        (["--k", "2", "--pressure", "winrate", "--interface", "regularization"], "no regularisation side"),
        (["--k", "1.5"], "--k = '1.5'"),
        (["--beta", "0"], "beta = 0.0"),
        (["-o", "c.txt"], "c.txt"),
        (["--cell", "x.yaml"], "--cell"),
        (["--reward-column", "score"], "no column 'score'"),
    ],
)
def test_what_does_not_go_together(tmp_path, monkeypatch, arguments, said):
    source = written(tmp_path / "r.jsonl", BANK)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        calibrate([source, *arguments])
    assert said in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == ["r.jsonl"]


def test_a_reward_that_binary_pressure_does_not_take_is_named_by_its_prompt(tmp_path):
    source = written(tmp_path / "r.jsonl", {**BANK, "odd": [1.0, 0.5]})
    with pytest.raises(UserError, match=r"reward 0.5 of prompt 'odd', completion 1.*winrate"):
        calibrate([source, "-o", str(tmp_path / "c.csv")])


def test_reading_one_of_several(tmp_path):
    source, output = written(tmp_path / "r.jsonl", BANK), tmp_path / "c.csv"
    calibrate([source, "--k", "1,4", "-o", str(output)])
    with pytest.raises(UserError, match="k = 1, 4; k = None"):
        by_prompt_id(output, "a")
    with pytest.raises(UserError, match="k = 2"):
        by_prompt_id(output, "a", k=2)
    with pytest.raises(UserError, match="no column 'b'"):
        by_prompt_id(output, "b", k=4)


ODD = [
    "007",
    "7",
    "1",
    "01",
    "1e5",
    "true",
    "NA",
    "null",
    "nan",
    "2024-01-02T00:00:00",
    "1" * 23,
    "1" * 22 + "2",
    "\u00e9, x",
]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("source", ["csv", "jsonl", "parquet"])
def test_ids_are_text_from_end_to_end(tmp_path, source, suffix):
    rewards = {id: [1.0] * i + [0.0] * (len(ODD) - i) for i, id in enumerate(ODD)}
    path = tmp_path / f"r.{source}"
    rows = pa.table({"prompt_id": np.repeat(ODD, len(ODD)).tolist(), "reward": np.concatenate(list(rewards.values()))})
    if source == "csv":
        csv.write_csv(rows, path)
    elif source == "parquet":
        parquet.write_table(rows, path)
    else:
        written(path, rewards)
    calibrate([str(path), "-o", str(tmp_path / f"c.{suffix}")])
    found = by_prompt_id(tmp_path / f"c.{suffix}", "q")
    assert found == pytest.approx({id: i / len(ODD) for i, id in enumerate(ODD)})


def test_a_plot_does_not_overwrite_rewards_or_coefficients(tmp_path, monkeypatch):
    source = tmp_path / "in.csv"
    source.write_text("prompt_id,reward\na,1\na,0\n")
    monkeypatch.chdir(tmp_path)
    for arguments in (["--plot", "in", "-o", "x.csv"], ["--plot", "x", "-o", "x.csv"], ["--plot", ""]):
        with pytest.raises(UserError, match="--plot"):
            calibrate(["in.csv", *arguments])
    assert [p.name for p in tmp_path.iterdir()] == ["in.csv"]


def test_rewards_beyond_float64_are_refused(tmp_path):
    source = written(tmp_path / "r.jsonl", {"a": [1e308, -1e308], "b": [0.0, 1.0]})
    with pytest.raises(UserError, match="prompt 'a'"):
        calibrate([source, "--pressure", "raw_reward", "--k", "4", "-o", str(tmp_path / "c.csv")])


def test_values_named_twice_count_once(tmp_path):
    source, output = written(tmp_path / "r.jsonl", BANK), tmp_path / "c.csv"
    calibrate([source, "--k", "4,4", "--beta", "0.1,0.10", "-o", str(output)])
    assert len(by_prompt_id(output, "a")) == len(BANK)


def test_coefficients_of_transformed_rewards_are_not_handed_out(tmp_path):
    source, output = written(tmp_path / "r.jsonl", RANKED), tmp_path / "c.csv"
    calibrate([source, "--pressure", "winrate", "-o", str(output)])
    with pytest.raises(UserError, match="scores"):
        by_prompt_id(output, "a")
    with pytest.raises(UserError, match="expected numbers"):
        by_prompt_id(output, "pressure")


def test_the_file_of_rewards_is_not_overwritten(tmp_path):
    source = written(tmp_path / "r.jsonl", BANK)
    with pytest.raises(UserError, match="itself"):
        calibrate([source, "-o", source])


def test_needs_numpy_scipy_and_pyarrow_only(tmp_path):
    table = pa.table({"prompt_id": list(BANK), "reward": list(BANK.values())})
    parquet.write_table(table, tmp_path / "r.parquet")
    code = (
        "import sys\n"
        "class Only:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in sys.argv[1].split(','):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Only())\n"
        "from kappo.cli import main\nmain(sys.argv[2:])"
    )
    others = "torch,transformers,hydra,omegaconf,tqdm,wandb,matplotlib,yaml,pandas,datasets,psutil"
    for pressure in ("binary", "winrate", "raw_reward", "none"):
        arguments = ["calibrate", "r.parquet", "--pressure", pressure, "-o", f"{pressure}.csv"]
        done = subprocess.run(
            [sys.executable, "-c", code, others, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert by_prompt_id(tmp_path / f"{pressure}.csv", "q")

import csv
import json
from itertools import combinations

import numpy as np
import pytest

from kappo.errors import UserError
from kappo.figures import at_k
from kappo.figures import rows as tables
from kappo.figures.curves import at_k as draw
from kappo.records import SAMPLES, table, write_table

KS = (1, 2, 4)
N = 6
ARMS = {"base": ("base", "none", 0), "apo1": ("apo", "binary", 1), "apo4": ("apo", "binary", 4)}


def rewards(arm, split, replicate):
    seed = [*ARMS].index(arm) + 10 * ["id", "hard"].index(split) + 100 * replicate
    return (np.random.default_rng(seed).random((5, N)) < 0.4).astype(float)


def samples(values):
    problems, n = values.shape
    columns = {
        "prompt_id": np.repeat([f"p{i}" for i in range(problems)], n).tolist(),
        "level": [1] * problems * n,
        "sample": list(range(n)) * problems,
        "reward": values.ravel(),
        "verdict": ["right" if v else "wrong" for v in values.ravel()],
        "length": [3] * problems * n,
    }
    return table(columns, SAMPLES)


@pytest.fixture
def indexes(tmp_path):
    made = []
    for replicate in (0, 1):
        for split in ("id", "hard"):
            entries = []
            for arm, (method, pressure, k) in ARMS.items():
                folder = tmp_path / f"{arm}-{split}-{replicate}"
                write_table(folder / "samples.parquet", samples(rewards(arm, split, replicate)))
                about = {"method": method, "pressure": pressure, "k": k, "arm": "", "rollouts": 100 * k}
                about |= {"bank_rollouts": 30, "metric": "pass", "run": "", "step": 0, "kl": 0.5}
                place = {"task": "rules", "split": split, "replicate": replicate, "folder": str(folder)}
                entries.append({**about, **place})
            made.append(tmp_path / f"{split}-{replicate}.json")
            made[-1].write_text(json.dumps(entries))
    return made


@pytest.fixture
def rows(indexes, tmp_path):
    tables.write(tmp_path / "at_k.csv", at_k.at_k(indexes, KS, 200))
    return tables.read(tmp_path / "at_k.csv", at_k.COLUMNS)


def enumerated(values, k):
    return np.mean([np.mean([max(row[list(s)]) for s in combinations(range(N), k)]) for row in values])


def cell(rows, **wanted):
    (found,) = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    return found


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("split", ["id", "hard"])
@pytest.mark.parametrize("k_eval", KS)
def test_means_are_brute_force_draw(rows, arm, split, k_eval):
    method, pressure, k = ARMS[arm]
    about = {"task": "rules", "split": split, "method": method, "pressure": pressure, "k": k, "k_eval": k_eval}
    means = [enumerated(rewards(arm, split, replicate), k_eval) for replicate in (0, 1)]
    for replicate, want, size in (("0", means[0], 5), ("1", means[1], 5), ("all", np.mean(means), 10)):
        row = cell(rows, replicate=replicate, **about)
        assert row["mean"] == pytest.approx(want, abs=6e-7)
        assert row["low"] - 1e-6 <= row["mean"] <= row["high"] + 1e-6
        assert (row["n_problems"], row["n_samples"]) == (size, N)
        assert (row["metric"], row["rollouts"], row["bank_rollouts"]) == ("pass", 100 * k, 30)


def test_one_row_for_every_combination(rows):
    keys = [tuple(row[name] for name in ("split", "method", "k", "k_eval", "replicate")) for row in rows]
    assert len(keys) == len(set(keys)) == 2 * 3 * 3 * 3
    assert list(rows[0]) == list(at_k.COLUMNS)


def test_too_few_samples_are_an_error(indexes):
    with pytest.raises(UserError, match=r"--k 7: .* holds 6 samples"):
        at_k.at_k(indexes, (7,), 200)


@pytest.mark.parametrize(("ks", "resamples"), [((0,), 200), ((1, 1), 200), ((), 200), ((1,), 0)])
def test_impossible_k_and_resamples(indexes, ks, resamples):
    with pytest.raises(UserError, match="expected"):
        at_k.at_k(indexes, ks, resamples)


def test_an_index_twice_is_refused(indexes):
    with pytest.raises(UserError, match="is there twice"):
        at_k.at_k([*indexes, indexes[0]], KS, 200)


@pytest.mark.parametrize("content", ["{}", "[]", "[1]", '[{"task": "rules"}]'])
def test_foreign_indexes(tmp_path, content):
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(UserError, match="no index file"):
        at_k.at_k([tmp_path / "index.json"], KS, 200)


def test_arms_that_differ_in_pressure_alone_stay_apart(rows):
    twins = [{**row, "pressure": "none"} for row in rows if row["method"] == "apo" and row["k"] == 1]
    text = at_k.summary([*rows, *twins])
    assert "A*PO k=1 (binary)" in text
    assert "A*PO k=1 (raw reward)" in text


def test_missing_samples_and_indexes(indexes, tmp_path):
    with pytest.raises(UserError, match=r"none\.json is missing"):
        at_k.at_k([tmp_path / "none.json"], KS, 200)
    (tmp_path / "base-id-0" / "samples.parquet").unlink()
    with pytest.raises(UserError, match=r"base-id-0/samples\.parquet is missing"):
        at_k.at_k(indexes, KS, 200)


def test_read_refuses_what_is_no_table(rows, tmp_path):
    with pytest.raises(UserError, match=r"none\.csv is missing: make it with `kappo tables`"):
        tables.read(tmp_path / "none.csv", at_k.COLUMNS)
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(UserError, match=r"empty\.csv has no column 'task' or no rows"):
        tables.read(tmp_path / "empty.csv", at_k.COLUMNS)
    tables.write(tmp_path / "short.csv", [{k: v for k, v in rows[0].items() if k != "high"}])
    with pytest.raises(UserError, match=r"short\.csv has no column 'high'"):
        tables.read(tmp_path / "short.csv", at_k.COLUMNS)


def test_labels():
    assert tables.label(("base", "none", 0, "")) == "base model"
    assert tables.label(("apo", "binary", 4, "")) == "A*PO k=4"
    assert tables.label(("grpo", "binary", 2, "mean a_k"), twin=True) == "GRPO k=2 (binary, mean a_k)"


def test_summary(rows):
    lines = at_k.summary(rows).splitlines()
    assert lines[0].split("  ")[-1].strip() == "hard pass@4"
    assert [line[:14].strip() for line in lines[1:4]] == ["base model", "A*PO k=1", "A*PO k=4"]
    row = cell(rows, split="hard", method="apo", k=4, k_eval=4, replicate="all")
    assert lines[3].endswith(f"{100 * row['mean']:.1f} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]")
    assert "replicates); id: 10 problems x 6 samples" in lines[-1]


def test_summary_of_chosen_k(rows):
    head = at_k.summary(rows, shown=[2]).splitlines()[0]
    assert head.split() == ["id", "pass@2", "hard", "pass@2"]


def test_figure_bytes_depend_on_the_rows_alone(rows, tmp_path):
    first, second = (draw(rows, tmp_path / name) for name in ("one", "two"))
    assert [path.name for path in first] == ["at_k_apo.pdf", "at_k_apo.png", "at_k_apo.csv"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert first[0].read_bytes().startswith(b"%PDF")
    assert first[1].read_bytes().startswith(b"\x89PNG")
    changed = [{**row, "mean": 1 - row["mean"]} for row in rows]
    assert draw(changed, tmp_path / "three")[0].read_bytes() != first[0].read_bytes()


def test_figure_csv_holds_what_is_drawn(rows, tmp_path):
    path = draw(rows, tmp_path)[2]
    with open(path, newline="") as handle:
        drawn = list(csv.DictReader(handle))
    order = ("split", "method", "k", "k_eval")
    want = [row for row in rows if row["replicate"] == "all"]
    assert sorted(tuple(row[n] for n in order) for row in drawn) == sorted(
        tuple(str(r[n]) for n in order) for r in want
    )
    shown = {tuple(row[n] for n in order): row["mean"] for row in drawn}
    assert all(shown[tuple(str(row[n]) for n in order)] == f"{row['mean']:.6f}" for row in want)

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from kappo import reward_table
from kappo.errors import UserError

IDS = ["b", "a", "c"]
REWARDS = np.array([[0.0, 1.0], [1.0, 1.0], [0.5, 0.25]])


def long(order=range(6)):
    ids, rewards = np.repeat(IDS, 2), REWARDS.ravel()
    return pa.table({"prompt_id": ids[list(order)].tolist(), "reward": rewards[list(order)], "text": ["t"] * 6})


def jsonl(table, path):
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


WRITERS = {".parquet": parquet.write_table, ".csv": csv.write_csv, ".jsonl": jsonl}


@pytest.mark.parametrize("suffix", WRITERS)
def test_long_files_need_not_be_sorted(tmp_path, suffix):
    WRITERS[suffix](long([0, 2, 4, 1, 3, 5]), tmp_path / f"r{suffix}")
    found = reward_table.read(tmp_path / f"r{suffix}", "prompt_id", "reward")
    assert list(found) == IDS
    np.testing.assert_array_equal(list(found.values()), REWARDS)


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_wide_files_of_lists_of_any_length(tmp_path, suffix):
    rows = [[0.0, 1.0], [1.0, 1.0, 0.0], [0.5]]
    WRITERS[suffix](pa.table({"id": [3, 1, 2], "scores": rows}), tmp_path / f"r{suffix}")
    found = reward_table.read(tmp_path / f"r{suffix}", "id", "scores")
    assert {id: values.tolist() for id, values in found.items()} == {"3": [0, 1], "1": [1, 1, 0], "2": [0.5]}
    assert reward_table.by_size(found) == {2: ["3"], 3: ["1"], 1: ["2"]}


def test_wide_files_of_columns(tmp_path):
    columns = {"prompt": IDS, "r_0": REWARDS[:, 0], "r_1": REWARDS[:, 1].tolist(), "other": ["x"] * 3}
    csv.write_csv(pa.table(columns), tmp_path / "r.csv")
    found = reward_table.read(tmp_path / "r.csv", "prompt", "r_*")
    np.testing.assert_array_equal(list(found.values()), REWARDS)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("r.csv", "prompt_id,reward\na,1\nb,\n", ["row 2", "reward"]),
        ("r.csv", "prompt_id,reward\na,1\nb,nan\n", ["row 2"]),
        ("r.csv", "prompt_id,reward\na,1\nb,good\n", ["row 2", "'good'"]),
        ("r.csv", "prompt_id,reward\na,1\n,0\n", ["row 2", "empty"]),
        ("r.csv", "prompt,reward\na,1\n", ["no column 'prompt_id'", "--prompt-column"]),
        ("r.csv", "prompt_id,rewards\na,1\n", ["no column 'reward'", "'rewards'"]),
        ("r.csv", "prompt_id,reward\n", ["no rows"]),
        ("r.csv", "", ["r.csv"]),
        ("r.jsonl", '{"prompt_id": "a", "reward": [1, null]}\n', ["row 1", "None"]),
        ("r.jsonl", '{"prompt_id": "a", "reward": [1, 0]}\n{"prompt_id": "b", "reward": []}\n', ["row 2", "nothing"]),
        ("r.jsonl", '{"prompt_id": "a", "reward": [1]}\n{"prompt_id": "a", "reward": [0]}\n', ["'a'", "2 rows"]),
        ("r.jsonl", '{"prompt_id": null, "reward": 1}\n{"prompt_id": "a", "reward": 1}\n', ["row 1", "prompt_id"]),
        ("r.jsonl", '{"prompt_id": "a", "rew', ["no readable jsonl"]),
        ("r.parquet", "PAR1", ["no readable parquet"]),
        ("r.csv", "prompt_id,reward,reward\na,1,0\n", ["two columns 'reward'"]),
        ("r.jsonl", '{"prompt_id": {"x": 1}, "reward": 1}\n', ["expected ids"]),
        ("r.txt", "a 1", [".parquet, .csv, .jsonl"]),
    ],
)
def test_what_is_no_file_of_rewards(tmp_path, name, text, said):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UserError) as error:
        reward_table.read(path, "prompt_id", "reward")
    for word in said:
        assert word in str(error.value)


def test_true_and_false(tmp_path):
    (tmp_path / "r.jsonl").write_text('{"prompt_id": 1, "reward": [true, false]}\n')
    assert reward_table.read(tmp_path / "r.jsonl", "prompt_id", "reward")["1"].tolist() == [1, 0]


def test_a_missing_file(tmp_path):
    with pytest.raises(UserError, match="missing"):
        reward_table.read(tmp_path / "none.csv", "prompt_id", "reward")

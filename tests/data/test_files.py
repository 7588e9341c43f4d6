import csv
import gzip
import json

import pytest

from kappo.data import files
from kappo.errors import UserError
from tests.data.made import write_lines, write_parquet

ROWS = [
    {"answer": "025", "n": 1},
    {"answer": "2024-01-01", "n": 2.5},
    {"answer": "x\u2028y", "n": None},
    {"answer": "7", "n": [1, "a"]},
]


def read(path):
    return [row for _, row in files.records(path)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.json"])
def test_lines_keep_every_value_as_it_is(tmp_path, name):
    assert read(write_lines(tmp_path / name, ROWS)) == ROWS


def test_one_json_list(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("\n  " + json.dumps(ROWS, indent=1))
    assert read(path) == ROWS


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_a_json_list_far_behind_the_files_start(tmp_path, name):
    text = "\ufeff" + "\n " * 9000 + json.dumps(ROWS)
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    assert read(tmp_path / name) == ROWS
    (tmp_path / name).write_bytes(gzip.compress(b" " * 9000) if name.endswith(".gz") else b" " * 9000)
    assert read(tmp_path / name) == []


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_one_object_on_one_line_is_a_row(tmp_path, name):
    (tmp_path / name).write_text("\n" * 5000 + '{"a": 1}')
    assert list(files.records(tmp_path / name)) == [(5001, {"a": 1})]


def test_parquet(tmp_path):
    rows = [{"answer": "025", "n": 1}, {"answer": "2024-01-01", "n": 2}]
    assert read(write_parquet(tmp_path / "a.parquet", rows)) == rows


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_csv_is_all_text_and_holds_long_cells_and_line_breaks(tmp_path, name):
    long = "word " * 60_000
    rows = [{"answer": "025", "text": 'two\nlines, "quoted"'}, {"answer": "1.0", "text": long}]
    opened = gzip.open if name.endswith(".gz") else open
    with opened(tmp_path / name, "wt", newline="", encoding="utf-8-sig") as handle:
        writer = csv.DictWriter(handle, ["answer", "text"])
        writer.writeheader()
        writer.writerows(rows)
    assert read(tmp_path / name) == rows


def test_empty_lines_are_passed_over_and_rows_are_numbered_as_in_the_file(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}\n')
    assert list(files.records(path)) == [(1, {"a": 1}), (3, {"a": 2})]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"a": 1}\n{"a": 2\n{"a": 3}\n', r"a\.jsonl, row 2 is not valid JSON"),
        ("a.jsonl", b'{"a": 1}\n{"a": "cut of', r"a\.jsonl, row 2 is not valid JSON.*cut off\?"),
        ("a.jsonl", b'{"a": 1}\n[1]\n', r"row 2 is a JSON list: expected an object"),
        ("a.json", b'[{"a": 1}, 5]', r"row 2 is a JSON int: expected an object"),
        ("a.json", b'[{"a": 1}', r"a\.json is not valid JSON"),
        (
            "a.json",
            b'{\n "a": 1\n}\n',
            r"a\.json is one object over several lines: expected an array of objects, or one",
        ),
        ("a.json", b'\n{"a": [\n {"b": 1}]}', r"a\.json is one object over several lines"),
        ("a.jsonl", b'{\r"a": 1}\r{"a": 2}', r"a\.jsonl begins with an object over several lines"),
        ("a.json", b'{\n"a": 1\n', r"a\.json, row 1 is not valid JSON"),
        ("a.jsonl", b'{"a": 1} {"a":\n 2}\n', r"a\.jsonl, row 1 is not valid JSON: Extra data"),
        ("a.jsonl", b'{"a": 1}\n{\n"a": 2}\n', r"a\.jsonl, row 2 is not valid JSON"),
        ("a.jsonl", b"[" * 100_000, r"row 1 is not valid JSON"),
        ("a.jsonl", b'{"a": "\xff"}\n', r"not UTF-8 text"),
        ("a.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 1000)[:-20], r"not a whole gzip file"),
        ("a.jsonl.gz", b"plain", r"not a whole gzip file"),
        ("a.parquet", b"PAR1nonsense", r"not a readable parquet file"),
        ("a.csv", b"a,b\n1,2\n3\n", r"row 2 has not the 2 fields"),
        ("a.csv", b"a,b\n1,2,3\n", r"row 1 has not the 2 fields"),
        ("a.csv", b'a,b\n1,"2\n', r"not valid csv"),
    ],
)
def test_broken_files_are_named_with_the_row(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        read(tmp_path / name)


def test_a_missing_file(tmp_path):
    with pytest.raises(UserError, match=r"data\.path = .*gone\.jsonl: no such file or folder"):
        files.chosen(tmp_path / "gone.jsonl", "test", [], "")
    with pytest.raises(UserError, match=r"gone\.jsonl: no such file"):
        read(tmp_path / "gone.jsonl")


def test_a_file_of_another_kind(tmp_path):
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(UserError, match=r"a\.txt: expected a file that ends in \.jsonl"):
        files.chosen(tmp_path / "a.txt", "test", [], "")


@pytest.mark.parametrize(
    ("there", "found"),
    [
        (["test.jsonl", "qwen_test.jsonl", "train.jsonl"], ["test.jsonl"]),
        (["train.parquet", "train_with_difficulty.jsonl", "LeetCode-test.jsonl.gz"], ["LeetCode-test.jsonl.gz"]),
        (["deepscaler.json", "README.md", ".hidden.jsonl"], ["deepscaler.json"]),
        (["data/test-00001-of-00002.parquet", "data/test-00000-of-00002.parquet", "data/train-00000-of-00001.parquet"],
         ["data/test-00000-of-00002.parquet", "data/test-00001-of-00002.parquet"]),
    ],
)  # fmt: skip
def test_which_files_are_a_split(tmp_path, there, found):
    for name in there:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    chosen = files.chosen(tmp_path, "test", [], "")
    assert [str(f.relative_to(tmp_path)) for f in chosen] == found


def test_folders_of_configs_are_read_in_their_order(tmp_path):
    for config in ("b", "a", "other"):
        write_parquet(tmp_path / config / "test-00000-of-00001.parquet", [{"x": 1}])
    chosen = files.chosen(tmp_path, "test", ["b", "a"], "")
    assert [f.parent.name for f in chosen] == ["b", "a"]
    with pytest.raises(UserError, match="lacks the folders c"):
        files.chosen(tmp_path, "test", ["a", "c"], "")


@pytest.mark.parametrize(
    "there",
    [
        [],
        ["notes.txt"],
        ["one.jsonl", "two.jsonl"],
        ["test.jsonl", "test.csv"],
        ["a_test.jsonl", "b_test.jsonl"],
        ["test-00000-of-00002.parquet"],
    ],
)
def test_an_unclear_folder_lists_what_it_holds(tmp_path, there):
    for name in there:
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=r"which file is the split 'test'.*data\.path=FILE") as caught:
        files.chosen(tmp_path, "test", [], "")
    assert all(name in str(caught.value) for name in there if files.kind(tmp_path / name))


def test_a_named_file_comes_first(tmp_path):
    for name in ("test.jsonl", "test6.jsonl"):
        (tmp_path / name).touch()
    assert files.chosen(tmp_path, "test", [], "test6.jsonl") == [tmp_path / "test6.jsonl"]

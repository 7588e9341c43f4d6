import errno
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kappo import records
from kappo.errors import UserError
from kappo.records import SAMPLES, by_prompt, read_json, read_table, table, write_json, write_table


def samples(prompts=("a", "a", "b", "b"), reward=(1.0, 0.0, 0.0, 1.0)):
    n = len(prompts)
    columns = {
        "prompt_id": list(prompts),
        "level": [1] * n,
        "sample": list(range(n)),
        "reward": list(reward),
        "verdict": ["right"] * n,
        "length": [3] * n,
    }
    return table(columns, SAMPLES)


def failing(code):
    def fail(*_):
        raise OSError(code, os.strerror(code))

    return fail


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("call", ["replace", "fsync"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_full_disk_keeps_the_old_file_and_says_what_to_do(tmp_path, monkeypatch, call, code):
    path = tmp_path / "x.json"
    write_json(path, {"old": 1})
    monkeypatch.setattr(records.os, call, failing(code))
    with pytest.raises(UserError, match=r"cannot write .*x\.json: .*run the same command again"):
        write_json(path, {"new": 2})
    assert read_json(path) == {"old": 1}
    assert names(tmp_path) == ["x.json"]


def test_other_disk_errors_stay_what_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(records.os, "replace", failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output") as caught:
        records.write_text(tmp_path / "x", "text")
    assert caught.value.errno == errno.EIO
    assert names(tmp_path) == []


def test_write_makes_folders_and_replaces(tmp_path):
    path = tmp_path / "a" / "b.txt"
    records.write_text(path, "one")
    records.write_text(path, "two")
    assert path.read_text() == "two"
    assert names(path.parent) == ["b.txt"]


def test_write_if_changed_leaves_equal_files_alone(tmp_path):
    path = tmp_path / "x"
    assert records.write_if_changed(path, "one")
    before = path.stat()
    assert not records.write_if_changed(path, "one")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert records.write_if_changed(path, "two")
    assert path.read_text() == "two"


def test_table_round_trip(tmp_path):
    write_table(tmp_path / "s.parquet", samples())
    found = read_table(tmp_path / "s.parquet", SAMPLES)
    assert found.equals(samples())
    assert found.schema.metadata == SAMPLES.metadata


def test_same_rows_same_bytes(tmp_path):
    for name in ("one", "two"):
        write_table(tmp_path / name, samples())
    write_table(tmp_path / "other", samples(reward=(1.0, 1.0, 0.0, 1.0)))
    one, two, other = ((tmp_path / name).read_bytes() for name in ("one", "two", "other"))
    assert one == two != other
    assert records.sha256(tmp_path / "one") == records.sha256(tmp_path / "two")


@pytest.mark.parametrize("keep", [0, 3, 100, -1])
def test_truncated_parquet(tmp_path, keep):
    path = tmp_path / "s.parquet"
    write_table(path, samples())
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"s\.parquet is not a readable parquet file .*delete it and rerun"):
        read_table(path, SAMPLES)


def test_missing_files(tmp_path):
    with pytest.raises(UserError, match=r"s\.parquet is missing: rerun"):
        read_table(tmp_path / "s.parquet", SAMPLES)
    with pytest.raises(UserError, match=r"x\.json is missing: rerun"):
        read_json(tmp_path / "x.json")


@pytest.mark.parametrize("metadata", [None, {"kappo.schema": "samples", "kappo.version": "0"}, records.TEXT.metadata])
def test_foreign_and_outdated_tables(tmp_path, metadata):
    path = tmp_path / "s.parquet"
    pq.write_table(samples().replace_schema_metadata(metadata), path)
    with pytest.raises(UserError, match=r"s\.parquet holds .*expected .*'kappo.version': '1'.*delete it and rerun"):
        read_table(path, SAMPLES)


def test_missing_column_is_not_written():
    with pytest.raises(KeyError, match="reward"):
        table({name: [] for name in SAMPLES.names if name != "reward"}, SAMPLES)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_json_holds_finite_numbers_only(tmp_path, value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", {"loss": [value]})
    assert names(tmp_path) == []
    with pytest.raises(ValueError, match="not JSON compliant"):
        records.fingerprint({"loss": value})


@pytest.mark.parametrize("content", [b"", b'{"a": ', b"\xff\xfe"])
def test_damaged_json(tmp_path, content):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.json is not valid JSON .*delete it and rerun"):
        read_json(tmp_path / "x.json")


def test_json_bytes_do_not_depend_on_the_order_of_keys(tmp_path):
    write_json(tmp_path / "1", {"a": 1, "b": {"c": 2, "d": 3}})
    write_json(tmp_path / "2", {"b": {"d": 3, "c": 2}, "a": 1})
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    assert records.fingerprint({"a": 1, "b": 2}) == records.fingerprint({"b": 2, "a": 1})


def test_by_prompt():
    ids, rewards = by_prompt(samples(("b", "b", "a", "a")), "reward")
    assert ids == ["b", "a"]
    np.testing.assert_array_equal(rewards, [[1, 0], [0, 1]])


@pytest.mark.parametrize("prompts", [("a", "a", "a", "b"), ("a", "b", "a", "b"), ("a", "b", "b", "c")])
def test_by_prompt_refuses_ragged_tables(prompts):
    with pytest.raises(UserError, match=r"4 rows and .* prompts: expected the same number of samples each"):
        by_prompt(samples(prompts), "reward")


def test_by_prompt_refuses_an_empty_table():
    with pytest.raises(UserError, match="0 rows"):
        by_prompt(samples((), ()), "reward")


def test_columns_have_the_types_of_the_schema():
    assert samples().schema.field("length").type == pa.int32()
    with pytest.raises(pa.ArrowInvalid, match="Could not convert"):
        samples(reward=("one", "two", "three", "four"))


def test_a_file_with_other_columns_is_refused(tmp_path):
    pq.write_table(pa.table({"prompt_id": ["a"]}).replace_schema_metadata(SAMPLES.metadata), tmp_path / "t.parquet")
    with pytest.raises(UserError, match="other columns"):
        read_table(tmp_path / "t.parquet", SAMPLES)

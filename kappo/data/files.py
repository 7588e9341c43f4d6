"""Rows of local files: jsonl, json, csv (each also .gz) and parquet, read exactly: no type is guessed.

A reader that infers a column's type would make numbers of "025" and times of "2024-01-01"; JSON and parquet say what
a value is, and csv is all text.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kappo.errors import UserError

KINDS = (".jsonl", ".json", ".csv", ".parquet")
SHARD = re.compile(r"(.+)-\d{5}-of-(\d{5})")
Records = Iterator[tuple[int, dict[str, Any]]]


def kind(path: Path) -> str:
    """The ending that says how the file is read, without .gz; "" for another one."""
    name = path.name.removesuffix(".gz")
    return next((k for k in KINDS if name.endswith(k) and not (k == ".parquet" and name != path.name)), "")


def chosen(path: Path, split: str, configs: Sequence[str], name: str) -> list[Path]:
    """The files of a split: `path` itself, or those in its folder, config by config. Raises UserError when unclear.

    In a folder: the file of this name where it is there; else SPLIT.jsonl and the like, or all its shards
    SPLIT-00000-of-00002.parquet; else the one whose name ends in -SPLIT or _SPLIT; else the only one.
    """
    if path.is_file():
        if not kind(path):
            raise UserError(f"data.path = {path}: expected a file that ends in {', '.join(KINDS)} or .gz, or a folder")
        return [path]
    if not path.is_dir():
        raise UserError(f"data.path = {path}: no such file or folder")
    if name and (path / name).is_file():
        return [path / name]
    roots = [path / config for config in configs if (path / config).is_dir()]
    missing = [config for config in configs if not (path / config).is_dir()]
    if roots and missing:
        raise UserError(f"data.path = {path} lacks the folders {', '.join(missing)}: copy the whole repository")
    return [file for root in roots or [path] for file in _of_split(root, split)]


def _of_split(folder: Path, split: str) -> list[Path]:
    there = sorted(f for f in folder.rglob("*") if f.is_file() and kind(f) and not f.name.startswith("."))
    stems = {f: f.name.removesuffix(".gz").removesuffix(kind(f)) for f in there}
    shards = [f for f in there if (match := SHARD.fullmatch(stems[f])) and match[1] == split]
    if shards and len(shards) == len({stems[f] for f in shards}) == int(SHARD.fullmatch(stems[shards[0]])[2]):  # type: ignore[index]
        return shards
    exact = [f for f in there if stems[f] == split]
    ending = [f for f in there if re.search(rf"[-_.]{re.escape(split)}$", stems[f])]
    for found in (exact, ending, there):
        if len(found) == 1 and not shards:
            return found
        if found:
            break
    names = ", ".join(str(f.relative_to(folder)) for f in there[:12]) or "no data file"
    raise UserError(
        f"data.path = {folder}: which file is the split {split!r}? Found {names}. Name one: data.path=FILE, or call it "
        f"{split}.jsonl; of shards all must be there"
    )


def records(path: Path) -> Records:
    """(row number from 1, values by column) of each row. Raises UserError that names the file and the row."""
    try:
        if kind(path) == ".parquet":
            yield from enumerate(_parquet(path), start=1)
        elif kind(path) == ".csv":
            yield from _csv(path)
        else:
            yield from _json(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path} is not a whole gzip file ({error}): copy it again") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}): save it as UTF-8") from None


def _open(path: Path) -> io.TextIOWrapper:
    raw: Any = gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")  # noqa: SIM115 - closed by the wrapper
    return io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")


def _json(path: Path) -> Records:
    with _open(path) as handle:
        begin = _begin(handle)
        if kind(path) == ".json" and begin == "[":
            yield from ((i, _object(row, path, i)) for i, row in enumerate(_parsed(handle.read(), path, 0), start=1))
            return
        first = True
        for number, line in enumerate(handle, start=1):
            if line.strip():
                try:
                    row = _parsed(line, path, number)
                except UserError:
                    if first:
                        _refuse_spread(path)
                    raise
                first = False
                yield number, _object(row, path, number)


def _begin(handle: io.TextIOWrapper) -> str:
    """The first character that is no blank, "" where there is none; the file stands at its start again."""
    found = ""
    while not found and (part := handle.read(4096)):
        found = part.lstrip()[:1]
    handle.seek(0)
    return found


def _refuse_spread(path: Path) -> None:
    """Raises UserError for a file that begins with an object over several lines."""
    with _open(path) as handle:
        text = handle.read().lstrip()
    try:
        end = json.JSONDecoder().raw_decode(text)[1]
    except (ValueError, RecursionError):
        return
    if text.startswith("{") and re.search(r"[\r\n]", text[:end]):
        what = "begins with an object" if text[end:].strip() else "is one object"
        raise UserError(f"{path} {what} over several lines: expected an array of objects, or one object a line")


def _parsed(text: str, path: Path, number: int) -> Any:
    row = f", row {number}" if number else ""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        cut = "" if text.endswith("\n") or not number else " (the file's last line: cut off?)"
        raise UserError(f"{path}{row} is not valid JSON: {error}{cut}. Mend or delete the row") from None


def _object(row: Any, path: Path, number: int) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise UserError(f"{path}, row {number} is a JSON {type(row).__name__}: expected an object, one a row")
    return row


def _csv(path: Path) -> Records:
    csv.field_size_limit(sys.maxsize)
    with _open(path) as handle:
        rows = csv.DictReader(handle, strict=True)
        try:
            for number, row in enumerate(rows, start=1):
                if None in row or None in row.values():
                    raise UserError(
                        f"{path}, row {number} has not the {len(rows.fieldnames or ())} fields of the header"
                    )
                yield number, row
        except csv.Error as error:
            raise UserError(f"{path}, line {rows.line_num} is not valid csv: {error}") from None


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        for batch in pq.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise UserError(
            f"{path} is not a readable parquet file ({str(error).splitlines()[0]}): copy it again"
        ) from None

"""Rewards of reference completions from anyone's file: csv, jsonl or parquet, long or wide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kappo.errors import UserError, near_misses

KINDS = (".parquet", ".csv", ".jsonl")
BLOCK = 1 << 28
"""Bytes that a line of csv or jsonl may have."""

Bank = dict[str, NDArray[np.float64]]
"""Prompt id -> the rewards of its completions, (M,); M may differ between prompts."""


def read(path: Path, prompt: str, reward: str) -> Bank:
    """The rewards of every prompt, in the file's order.

    prompt: the column of prompt ids. reward: a column of numbers (one row a completion), of lists (one row a prompt),
    or the beginning of several columns' names and `*` (one row a prompt). True and false count as 1 and 0. Raises
    UserError that names row, column and value for anything else.
    """
    table = load(path, prompt)
    columns = table.column_names
    if prompt not in columns:
        raise UserError(
            f"{path} has no column {prompt!r}: {near_misses(prompt, columns)}; name it with --prompt-column"
        )
    ids = _ids(table[prompt], path, prompt)
    if ids.null_count:
        raise UserError(f"{path}, row {ids.is_null().to_pylist().index(True) + 1}: no {prompt}; expected a prompt's id")
    if not len(ids):
        raise UserError(f"{path} has no rows: expected one a completion, or one a prompt")
    if "" in ids.to_pylist():
        raise UserError(f"{path}, row {ids.to_pylist().index('') + 1}: {prompt} is empty; expected a prompt's id")
    coded = ids.combine_chunks().dictionary_encode()
    names, place = coded.dictionary.to_pylist(), coded.indices.to_numpy()
    if reward.endswith("*"):
        meant = [name for name in columns if name.startswith(reward[:-1]) and name != prompt]
        if not meant:
            raise UserError(f"{path} has no columns {reward}: it has {', '.join(columns)}")
        each = [_numbers(table[name], path, name) for name in meant]
        return _once(path, prompt, names, place, list(np.stack(each, axis=1)))
    if reward not in columns:
        raise UserError(
            f"{path} has no column {reward!r}: {near_misses(reward, columns)}; name it with --reward-column"
        )
    column = table[reward]
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type):
        return _once(path, prompt, names, place, _lists(column, path, reward))
    values = _numbers(column, path, reward)[np.argsort(place, kind="stable")]
    ends = np.cumsum(np.bincount(place, minlength=len(names)))
    return dict(zip(names, np.split(values, ends[:-1]), strict=True))


def by_size(bank: Bank) -> dict[int, list[str]]:
    """Prompt ids by their number of completions M."""
    found: dict[int, list[str]] = {}
    for id, rewards in bank.items():
        found.setdefault(len(rewards), []).append(id)
    return found


def load(path: Path, prompt: str) -> pa.Table:
    """The file as it is, the column of prompt ids as text. Raises UserError when it is missing, broken or another kind.

    Ids are never guessed to be numbers, dates or nulls: "007", "1e5" and "NA" stay as they are.
    """
    if path.suffix not in KINDS:
        raise UserError(f"{path}: expected a bank folder or a file that ends in {', '.join(KINDS)}")
    try:
        if path.suffix == ".parquet":
            from pyarrow import parquet

            return _distinct(parquet.ParquetFile(path).read(), path)
        if path.suffix == ".csv":
            from pyarrow import csv

            as_text = csv.ConvertOptions(column_types={prompt: pa.string()})
            return _distinct(csv.read_csv(path, csv.ReadOptions(block_size=BLOCK), convert_options=as_text), path)
        from pyarrow import json

        options = json.ReadOptions(block_size=BLOCK)
        try:
            text = json.ParseOptions(explicit_schema=pa.schema([(prompt, pa.string())]))
            return json.read_json(path, options, text)
        except pa.ArrowInvalid:  # ids may be numbers
            return json.read_json(path, options)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: expected a bank folder or a file of rewards") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path} is no readable {path.suffix[1:]} file: {reason}") from None


def _distinct(table: pa.Table, path: Path) -> pa.Table:
    twice = [name for i, name in enumerate(table.column_names) if name in table.column_names[:i]]
    if twice:
        raise UserError(f"{path} has two columns {twice[0]!r}: rename one of them")
    return table


def _ids(column: pa.ChunkedArray, path: Path, name: str) -> pa.ChunkedArray:
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise UserError(f"{path}, column {name!r}: {column.type}; expected ids as UTF-8 text or numbers") from None


def _numbers(column: pa.ChunkedArray, path: Path, name: str) -> NDArray[np.float64]:
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise UserError(f"{path}, column {name!r}: {_bad_text(column)}; expected numbers")
    values = column.cast(pa.float64(), safe=False).to_numpy()
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        shown = column[int(bad[0])].as_py()
        raise UserError(f"{path}, row {bad[0] + 1}: {name} = {shown}; expected a finite number")
    return values


def _bad_text(column: pa.ChunkedArray) -> str:
    """The first value of a text column that is no number, or the type of another one."""
    for i, value in enumerate(column.to_pylist()):
        try:
            float(value)
        except (TypeError, ValueError):
            return f"row {i + 1} is {value!r:.60}"
    return f"of type {column.type}"


def _lists(column: pa.ChunkedArray, path: Path, name: str) -> list[NDArray[np.float64]]:
    found = []
    for i, values in enumerate(column.to_pylist()):
        numbers = [v for v in values or () if isinstance(v, int | float) and np.isfinite(v)]
        if not values or len(numbers) < len(values):
            shown = "nothing" if not values else next(v for v in values if v not in numbers)
            raise UserError(f"{path}, row {i + 1}: {name} holds {shown!r:.60}; expected finite numbers, at least one")
        found.append(np.array(numbers, dtype=np.float64))
    return found


def _once(path: Path, prompt: str, names: list[str], place: NDArray[np.int64], rows: list[Any]) -> Bank:
    """Rows by prompt; place: each row's prompt."""
    counts = np.bincount(place, minlength=len(names))
    if counts.max() > 1:
        twice = names[int(counts.argmax())]
        raise UserError(f"{path}: {prompt} {twice!r} stands in {counts.max()} rows; expected one row a prompt")
    return dict(zip(names, rows, strict=True))

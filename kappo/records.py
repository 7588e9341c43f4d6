"""What flows between the rooms, and its files: typed records, versioned parquet schemas, atomic writes, hashes."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kappo.errors import UserError

VERDICTS = ("right", "wrong", "unparsable", "timeout", "crash")


@dataclass(frozen=True)
class Problem:
    """One prompt with what its grader needs. id is unique in its data set and names the prompt's random streams."""

    id: str
    prompt: str
    answer: str
    level: int = 0


@dataclass(frozen=True)
class Demonstration:
    """A prompt and a completion to imitate."""

    prompt: str
    completion: str


@dataclass(frozen=True)
class Grade:
    """score in [0, 1]; verdict one of VERDICTS.

    extracted: the answer or program that was graded; tests: a word for each test of a program; seconds: how long
    grading took, which is no part of what the grade is.
    """

    score: float
    verdict: str
    extracted: str = ""
    tests: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Completion:
    """One sampled completion.

    token_ids includes the end-of-sequence token where the model wrote one; logprobs are those of the sampling
    distribution, one per token, in nats. finish_reason: stop | length.
    """

    prompt_id: str
    sample: int
    token_ids: list[int]
    logprobs: list[float]
    finish_reason: str
    text: str
    weight_version: int = 0


def schema(name: str, version: int, fields: Mapping[str, pa.DataType]) -> pa.Schema:
    """A parquet schema that carries its name and version in the file's metadata."""
    metadata = {"kappo.schema": name, "kappo.version": str(version)}
    return pa.schema([pa.field(k, t, nullable=False) for k, t in fields.items()], metadata=metadata)


BANK = schema(
    "bank",
    1,
    {
        "prompt_id": pa.string(),
        "sample": pa.int32(),
        "token_ids": pa.list_(pa.int32()),
        "logprobs": pa.list_(pa.float32()),
        "ref_logprob_sum": pa.float64(),
        "finish_reason": pa.string(),
        "reward": pa.float64(),
        "verdict": pa.string(),
        "seed_key": pa.uint64(),
    },
)
TEXT = schema("text", 1, {"prompt_id": pa.string(), "sample": pa.int32(), "text": pa.string()})
PER_PROMPT = {
    "n": pa.int32(),
    "successes": pa.int32(),
    "q": pa.float64(),
    "p_star": pa.float64(),
    "a": pa.float64(),
    "beta_eff": pa.float64(),
    "log_z": pa.float64(),
}
"""A prompt's numbers in both files of coefficients."""

COEFFICIENTS = schema(
    "coefficients",
    1,
    {
        "prompt_id": pa.string(),
        **PER_PROMPT,
        "bank_rewards": pa.list_(pa.float64()),
    },
)
STANDALONE = schema(
    "standalone coefficients",
    1,
    {
        "prompt_id": pa.string(),
        "pressure": pa.string(),
        "interface": pa.string(),
        "k": pa.int32(),
        "beta": pa.float64(),
        **PER_PROMPT,
        "rewards": pa.list_(pa.float64()),
        "scores": pa.list_(pa.float64()),
    },
)
SAMPLES = schema(
    "samples",
    1,
    {
        "prompt_id": pa.string(),
        "level": pa.int32(),
        "sample": pa.int32(),
        "reward": pa.float64(),
        "verdict": pa.string(),
        "length": pa.int32(),
    },
)


def disk_error(error: OSError, path: Path | str) -> UserError | OSError:
    """A full, read-only or forbidden disk as a UserError; other errors as they are."""
    if error.errno in (errno.ENOTDIR, errno.ENOENT, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG):
        return UserError(f"{path}: {error.strerror}. Expected another kind of path here; check what you named.")
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
        return UserError(
            f"cannot write {path}: {error.strerror}. What was finished before is kept; free or grant space "
            "there and run the same command again, it goes on from there."
        )
    return error


def write_bytes(path: Path, content: bytes) -> None:
    """Write under a temporary name, flush to disk, rename: readers see the old file or the whole new one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(partial, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise disk_error(error, path) from error


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_if_changed(path: Path, text: str) -> bool:
    """Write only when the bytes differ, so that file times mean something to the workflow. True if written."""
    if path.is_file() and path.read_bytes() == text.encode():
        return False
    write_text(path, text)
    return True


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: Path, keys: Sequence[str] = ()) -> Any:
    """Raises UserError when the file is missing, empty or truncated, or, with `keys`, is no object that has them."""
    try:
        found = json.loads(path.read_text())
        if keys and not (isinstance(found, dict) and set(keys) <= set(found)):
            raise UserError(f"{path} is not what it should be: expected an object with {', '.join(keys)}")
        return found
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path} is missing: rerun the stage that makes it") from None
    except (json.JSONDecodeError, UnicodeDecodeError, IsADirectoryError) as error:
        raise UserError(f"{path} is not valid JSON ({error}): delete it and rerun the stage that makes it") from None


def table(columns: Mapping[str, Any], kind: pa.Schema) -> pa.Table:
    """Columns by name -> a table of exactly the given schema."""
    return pa.table({name: pa.array(columns[name], type=kind.field(name).type) for name in kind.names}, schema=kind)


def write_table(path: Path, rows: pa.Table) -> None:
    """Parquet with deterministic bytes, written atomically."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", version="2.6")
    write_bytes(path, sink.getvalue().to_pybytes())


def read_table(path: Path, kind: pa.Schema) -> pa.Table:
    """Read and check against the schema. Raises UserError for a missing, truncated, foreign or outdated file."""
    try:
        rows = pq.read_table(path)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: rerun the stage that makes it") from None
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path} is not a readable parquet file ({reason}): delete it and rerun its stage") from None
    wanted = {k.decode(): v.decode() for k, v in (kind.metadata or {}).items()}
    found = {k.decode(): v.decode() for k, v in (rows.schema.metadata or {}).items() if k.startswith(b"kappo.")}
    if found != wanted:
        raise UserError(f"{path} holds {found or 'no kappo table'}, expected {wanted}: delete it and rerun its stage")
    try:
        return rows.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path} has other columns than its schema ({reason}): delete it and rerun its stage") from None


def by_prompt(rows: pa.Table, column: str) -> tuple[list[str], NDArray[np.float64]]:
    """Prompt ids in file order and a column as (prompts, samples).

    Raises UserError when prompts differ in their number of samples or are not stored one after the other.
    """
    ids = rows["prompt_id"].to_pylist()
    names = list(dict.fromkeys(ids))
    n = len(ids) // max(len(names), 1)
    if not ids or ids != [name for name in names for _ in range(n)]:
        raise UserError(
            f"a table of {len(ids)} rows and {len(names)} prompts: expected the same number of samples each"
        )
    return names, np.asarray(rows[column], dtype=np.float64).reshape(len(names), n)


def sha256(path: Path) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: the text that ids and fingerprints are hashed from."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(value: Any) -> str:
    """16 hex digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Manifest:
    """What an artefact is made of. Holds nothing that differs between two runs of the same config."""

    kind: str
    id: str
    slice: dict[str, Any]
    upstream: dict[str, str]
    rows: int
    files: dict[str, str] = field(default_factory=dict)
    data_fingerprint: str = ""
    version: int = 1

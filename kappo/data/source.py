"""Where rows come from: the hub at a pinned revision, a copy of a hub repository, or files in the same columns."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from kappo.data import files
from kappo.errors import UserError, near_misses

COMMIT = re.compile(r"[0-9a-f]{40}")
HERE = "download it where there is a network and set data.path to the folder or file"


@dataclass(frozen=True)
class Source:
    """A data set of the hub. configs: read one after the other; file: read this file of the repository instead.

    repo may also be a local copy of the hub's repository, which the same code then reads.
    """

    repo: str
    split: str
    revision: str
    configs: list[str] = field(default_factory=list)
    file: str = ""


@dataclass(frozen=True)
class Row:
    """One row and where it stands, for messages: `FILE, row 3`."""

    where: str
    values: dict[str, Any]

    def text(self, column: str) -> str:
        """The column's text or number as text; "" where it is null. Raises UserError for anything else, for text
        that is no Unicode, and where there is no such column.
        """
        value = self.value(column)
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UserError(f"{self.where}: {column} = {_short(value)}: expected text or a number")
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        return unicode(text, f"{self.where}: {column}")

    def value(self, column: str) -> Any:
        """Raises UserError that names the columns there are."""
        if column not in self.values:
            raise UserError(
                f"{self.where}: no column {column!r}; {near_misses(column, map(str, self.values), shown=30)}. "
                "Rename the column, or name the file's own in the settings of data"
            )
        return self.values[column]

    def day(self, column: str) -> date:
        """A day out of an ISO date or time. Raises UserError for anything else."""
        value = self.value(column)
        if isinstance(value, datetime):
            return value.date()
        if isinstance(value, date):
            return value
        try:
            return datetime.fromisoformat(str(value)).date()
        except ValueError:
            raise UserError(f"{self.where}: {column} = {_short(value)}: expected a date such as 2025-01-31") from None


def unicode(text: str, what: str) -> str:
    """The text itself. Raises UserError for half a character, which JSON can write but no tokenizer or file takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{what} holds {text[error.start]!r} at character {error.start + 1}, half of a surrogate pair: expected "
            "whole characters; mend or delete the row"
        ) from None
    return text


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}... ({type(value).__name__})"


def rows(source: Source, path: str) -> Iterator[Row]:
    """The rows in order: of `path` (a folder or file in the same columns) where it is not "", else of the source.

    Raises UserError when they cannot be had, with the way out.
    """
    if path:
        for file in files.chosen(Path(path), source.split, source.configs, source.file):
            yield from _numbered(str(file), files.records(file))
    elif source.file:
        file = _hub_file(source)
        yield from _numbered(str(file), files.records(file))
    else:
        for config in source.configs or [""]:
            name = " ".join(part for part in (source.repo, config, source.split) if part)
            yield from _numbered(name, enumerate(_hub_rows(source, config), start=1))


def _numbered(where: str, records: Any) -> Iterator[Row]:
    for number, values in records:
        yield Row(f"{where}, row {number}", values)


def warn_unpinned(source: Source) -> None:
    """Say on stderr when the revision is a branch or tag, whose rows may change."""
    if not COMMIT.fullmatch(source.revision) and not Path(source.repo).is_dir():
        print(
            f"data.source.revision = {source.revision!r} of {source.repo} is no commit: its rows may change",
            file=sys.stderr,
        )


def _library(name: str) -> Any:
    """Raises UserError where it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise UserError(
            f"{name} is not installed: pip install 'kappo[train]', or set data.path to files you have"
        ) from None


def _hub_rows(source: Source, config: str) -> Any:
    datasets = _library("datasets")
    warn_unpinned(source)
    try:
        return datasets.load_dataset(source.repo, config or None, split=source.split, revision=source.revision)
    except Exception as error:  # datasets and huggingface_hub raise dozens of kinds
        raise _refusal(source, config, error) from None


def _hub_file(source: Source) -> Path:
    """The source's one file: in a local copy of the repository, else downloaded into the hub's cache."""
    if Path(source.repo).is_dir():
        return Path(source.repo) / source.file
    huggingface_hub = _library("huggingface_hub")
    warn_unpinned(source)
    try:
        found = huggingface_hub.hf_hub_download(source.repo, source.file, repo_type="dataset", revision=source.revision)
    except Exception as error:
        raise _refusal(source, "", error) from None
    return Path(found)


def _refusal(source: Source, config: str, error: Exception) -> UserError:
    """What a failed download means and what to do about it."""
    kinds = {kind.__name__ for one in _chain(error) for kind in type(one).__mro__}
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    if "GatedRepoError" in kinds or "gated" in reason:
        return UserError(
            f"{source.repo} is gated: accept its terms on its page of the hub and set HF_TOKEN to a token of yours, "
            f"or {HERE}"
        )
    if kinds & {"DatasetNotFoundError", "RepositoryNotFoundError", "EntryNotFoundError", "RevisionNotFoundError"} and (
        "LocalEntryNotFoundError" not in kinds
    ):
        what = f"{source.repo} (revision {source.revision})" + (f", file {source.file}" if source.file else "")
        return UserError(
            f"the hub has no data set {what}: {reason}. Check data.source.repo and data.source.revision; a private set "
            f"needs HF_TOKEN; or {HERE}"
        )
    offline = {"OfflineModeIsEnabled", "LocalEntryNotFoundError", "ConnectionError", "ConnectError", "TimeoutException"}
    if kinds & offline:
        return UserError(
            f"{source.repo} is not in the cache and the hub cannot be reached ({reason}): {HERE}; or unset "
            "HF_HUB_OFFLINE where there is a network"
        )
    asked = f" config {config!r}" if config else ""
    cause = f" ({' '.join(str(error.__cause__).split())[:300]})" if error.__cause__ else ""
    return UserError(
        f"{source.repo}{asked} split {source.split!r} cannot be read: {reason}{cause}. Check data.source, or {HERE}"
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__

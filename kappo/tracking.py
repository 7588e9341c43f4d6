"""Metrics and progress. metrics.jsonl is the truth; a W&B run beside it is fed from the same lines."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from tqdm import tqdm

from kappo.config import Config
from kappo.errors import UserError
from kappo.records import write_json

T = TypeVar("T")
SECONDS_BETWEEN_LINES = 4.0


class _Lines(tqdm):
    """Progress as occasional whole lines, for logs and for jobs that share a terminal."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings, file=io.StringIO(), ascii=True, ncols=100)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        print(str(self), file=sys.stderr, flush=True)


def progress(items: Iterable[T], description: str, total: int | None = None, initial: int = 0) -> Iterator[T]:
    """A bar on a terminal of one's own; whole lines elsewhere (KAPPO_WORKFLOW is set for the workflow's jobs)."""
    alone = sys.stderr.isatty() and "KAPPO_WORKFLOW" not in os.environ
    bar = tqdm if alone else _Lines
    every = 0.1 if alone else SECONDS_BETWEEN_LINES
    yield from bar(items, desc=description, total=total, initial=initial, mininterval=every, maxinterval=every)


class Tracker:
    """Writes one stage's metrics.jsonl and, unless disabled, its W&B run.

    A resumed stage hands in the byte offset up to which metrics.jsonl belongs to its checkpoint; what lies behind it
    is cut off and will be written again. W&B gets every step once: a note of the last step sent lies in run.json.
    """

    def __init__(self, folder: Path, mode: str, project: str, job: str, group: str, config: Mapping[str, Any]):
        self.folder, self.mode = folder, mode
        self.path = folder / "metrics.jsonl"
        self.run_note = folder / "run.json"
        self.job, self.group, self.project, self.config = job, group, project, dict(config)
        self.sent = -1
        self.run: Any = None

    @classmethod
    def of(cls, config: Config, folder: Path, job: str, slice: Mapping[str, Any]) -> Tracker:
        """The tracker of one stage: group is the study, job type the stage, config the stage's slice."""
        return cls(folder, config.tracking.mode, config.tracking.project, job, config.study, slice)

    def open(self, offset: int = 0) -> Tracker:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.handle = open(self.path, "ab")  # noqa: SIM115 - closed in `close`
        if self.handle.tell() < offset:
            raise UserError(
                f"{self.path} has {self.handle.tell()} bytes, its checkpoint says {offset}: put the file back, or "
                f"delete {self.folder / 'checkpoints'} to start this stage again"
            )
        self.handle.truncate(offset)
        note = _read_note(self.run_note)
        self.sent = int(note.get("wandb_step", -1))
        self.note: dict[str, Any] = {"started": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "git": _git_head()}
        if self.mode != "disabled":
            self._start_wandb(note.get("wandb_id"))
        self._write_note()
        return self

    def _start_wandb(self, id: str | None) -> None:
        os.environ.setdefault("WANDB_SILENT", "true")
        import wandb

        try:
            self.run = self._init_wandb(wandb, id)
        except wandb.Error as error:
            reason = str(error).splitlines()[0]
            raise UserError(
                f"tracking.mode = {self.mode!r}: W&B does not answer ({reason}); log in, or set "
                "tracking=offline and sync later"
            ) from None
        self.note["wandb_id"] = self.run.id

    def _init_wandb(self, wandb: Any, id: str | None) -> Any:
        return wandb.init(
            project=self.project,
            id=id,
            name=self.folder.name,
            group=self.group,
            job_type=self.job,
            config=self.config,
            mode=cast(Any, self.mode),
            dir=str(self.folder),
            resume="allow" if self.mode == "online" else None,
            settings=wandb.Settings(
                init_timeout=30, console="off", silent=True, x_disable_stats=True, x_disable_meta=True
            ),
        )

    def _write_note(self) -> None:
        write_json(self.run_note, {**self.note, "wandb_step": self.sent})

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append one line; non-finite values are kept out of W&B and written as strings."""
        line = {k: v if v == v and abs(v) != float("inf") else str(v) for k, v in metrics.items()}
        self.handle.write((json.dumps({"step": step, **line}) + "\n").encode())
        if self.run is not None and step > self.sent:
            self.run.log({k: v for k, v in line.items() if not isinstance(v, str)}, step=step)
            self.sent = step

    def flush(self) -> int:
        """Make the lines durable; returns the byte offset behind the last one."""
        self.handle.flush()
        os.fsync(self.handle.fileno())
        self._write_note()
        return self.handle.tell()

    def log_image(self, name: str, path: Path) -> None:
        if self.run is not None:
            import wandb

            self.run.log({name: wandb.Image(str(path))})

    def log_table(self, name: str, path: Path) -> None:
        """A CSV file as a W&B table; columns of numbers as numbers."""
        if self.run is not None:
            import wandb
            from pyarrow.csv import read_csv

            table = read_csv(path)
            rows = [list(row.values()) for row in table.to_pylist()]
            self.run.log({f"table/{name}": wandb.Table(columns=list[str | int](table.column_names), data=rows)})

    def close(self) -> None:
        self.flush()
        self.handle.close()
        if self.run is not None:
            self.run.finish()

    def __enter__(self) -> Tracker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _read_note(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _git_head() -> str | None:
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None

"""A stage's folder: one writer at a time, and marks that say what is finished.

manifest.json is written last and vouches for the files it names; done.json is what the workflow looks at. A stage
that finds a valid manifest has nothing to do but renew done.json.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from kappo.errors import UserError
from kappo.records import Manifest, fingerprint, read_json, sha256, write_json

LOCK = ".lock"
MANIFEST = "manifest.json"
DONE = "done.json"
GRACE_SECONDS = 5.0
"""How long a stage waits for a lock: the orphans of a killed workflow notice within a second and end."""


def acquire(path: Path, what: str, grace: float = GRACE_SECONDS) -> IO[str]:
    """Hold an exclusive flock on `path` until the returned handle is closed or the process ends.

    Raises UserError that names the holder when another process still holds it after `grace` seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = open(path, "a+")  # noqa: SIM115 - held until the caller is done
    deadline = time.monotonic() + grace
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            handle.seek(0)
            holder = handle.read().strip() or "another process"
            handle.close()
            raise UserError(
                f"{what} is being written by {holder} (lock {path}). Wait for it to end, or stop it, and run again."
            ) from None
    handle.truncate(0)
    handle.write(f"pid {os.getpid()} on {socket.gethostname()}: {' '.join(sys.argv)[:200]}\n")
    handle.flush()
    return handle


@dataclass(frozen=True)
class Place:
    """Where a stage writes and what it is: its id hashes its slice of the config and the ids upstream."""

    kind: str
    id: str
    folder: Path
    slice: dict[str, Any]
    upstream: dict[str, str]

    def present(self) -> bool:
        """As `complete`, but looks only whether the files are there: for a plan of many large artefacts."""
        try:
            manifest = read_json(self.folder / MANIFEST, ["id", "files"])
            return manifest["id"] == self.id and all((self.folder / name).is_file() for name in manifest["files"])
        except UserError:
            return False

    def complete(self) -> bool:
        """Whether the manifest is of this id and the files that it vouches for are all there, unchanged."""
        try:
            manifest = read_json(self.folder / MANIFEST)
            return manifest["id"] == self.id and all(
                (self.folder / name).is_file() and sha256(self.folder / name) == digest
                for name, digest in manifest["files"].items()
            )
        except (UserError, KeyError, TypeError, AttributeError):
            return False

    def finish(self, files: list[str], rows: int, data_fingerprint: str = "") -> None:
        """Vouch for the files, then mark the stage done."""
        hashes = {name: sha256(self.folder / name) for name in sorted(files)}
        manifest = Manifest(self.kind, self.id, self.slice, self.upstream, rows, hashes, data_fingerprint)
        write_json(self.folder / MANIFEST, asdict(manifest))
        self.mark()

    def mark(self) -> None:
        write_json(self.folder / DONE, {"id": self.id, "manifest": sha256(self.folder / MANIFEST)})


def vouch(folder: Path, kind: str, slice: Mapping[str, Any], inputs: Sequence[Path], files: Sequence[Path]) -> None:
    """A manifest for files that are made from files: hashes of both, and the settings used."""
    upstream = {path.name: sha256(path) for path in inputs}
    id = f"{kind}-{fingerprint([dict(slice), upstream])[:8]}"
    hashes = {path.relative_to(folder).as_posix(): sha256(path) for path in sorted(files)}
    write_json(folder / MANIFEST, asdict(Manifest(kind, id, dict(slice), upstream, len(files), hashes)))


def all_there(folder: Path, unchanged: bool = False) -> bool:
    """Whether the files are there that the folder's manifest names; unchanged: with the same content."""
    try:
        files = read_json(folder / MANIFEST, ["files"])["files"]
        return all(
            (folder / name).is_file() and (not unchanged or sha256(folder / name) == digest)
            for name, digest in files.items()
        )
    except (UserError, TypeError, AttributeError):
        return False


@contextmanager
def locked(place: Place) -> Iterator[bool]:
    """Hold the folder's lock; yields whether there is work to do (done.json of finished work is renewed)."""
    lock = acquire(place.folder / LOCK, str(place.folder))
    try:
        finished = place.complete()
        if finished:
            place.mark()
            print(f"{place.kind} {place.id}: complete already", file=sys.stderr)
        yield not finished
    finally:
        lock.close()


def renewed(place: Place) -> bool:
    """Whether the stage is finished already; its done.json is then there again. Loads nothing heavy."""
    if not place.complete():
        return False
    with locked(place):
        return True


def require(place: Place, command: str) -> Path:
    """The folder of a finished upstream stage. Raises UserError with the command that makes it."""
    if not place.complete():
        raise UserError(
            f"the {place.kind} {place.id} is missing: {place.folder} holds no finished one. Make it with:\n  {command}"
        )
    return place.folder

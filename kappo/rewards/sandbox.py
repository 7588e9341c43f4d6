"""Where untrusted programs run: bubblewrap or a container, one sandbox a program, killed as a whole."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kappo.config import within
from kappo.errors import UserError
from kappo.rewards.backends import COMMANDS, started

START_SECONDS = 20.0
"""How long a sandbox may take to come up before it counts as broken."""
WATCH_SECONDS = 0.05
END_SECONDS = 2.0
PROBE_SECONDS = 60.0
SILENT = 3
"""So many sandboxes without an answer, one after the other, and the program's other tests are not tried."""
MIB = 1 << 20
Answer = tuple[str, Any]
"""(kind, payload) of a test: text | value, or output | error | timeout with a reason."""


class SandboxBroken(Exception):
    """A sandbox that works on this machine did not come up for one program."""


@dataclass(frozen=True)
class Sandbox:
    """How programs are shut in, and their limits.

    backend: auto takes the first that works here; image: a container image with Python 3.11 or later, for podman and
    apptainer. seconds: wall clock a test; total_seconds: of all tests of a program, the rest count as timeouts.
    memory_mb: address space of each process, and resident memory of all together. packages: what programs may import
    beside the standard library, where it is installed (bubblewrap; an image brings its own).
    """

    backend: Literal["auto", "bubblewrap", "podman", "apptainer"] = "auto"
    image: str = ""
    seconds: float = within(6.0, above=0, at_most=86_400)
    total_seconds: float = within(30.0, above=0, at_most=86_400)
    memory_mb: int = within(2048, at_least=64, at_most=1 << 24)
    output_mb: int = within(16, at_least=1, at_most=1024)
    processes: int = within(24, at_least=3, at_most=4096)
    files: int = within(64, at_least=16, at_most=1024)
    packages: list[str] = field(default_factory=lambda: ["numpy", "sortedcontainers"], hash=False)

    def command(self) -> list[str]:
        """The command that runs Python inside. Raises UserError where no backend works on this machine."""
        return _working(self)

    def run(self, request: dict[str, Any]) -> list[Answer]:
        """Answers to request["tests"], in order, from as many sandboxes as it takes; none is left behind.

        request: mode (stdin | call), source, setup, entry, tests; see inside/judge.py. A sandbox that ends early loses
        the test that it was at, and a fresh one goes on with the next. Raises SandboxBroken when none comes up.
        """
        silent = 0
        tests, answers = request["tests"], list[Answer]()
        until = time.monotonic() + self.total_seconds
        while len(answers) < len(tests):
            left = until - time.monotonic()
            if left <= 0:
                return answers + [("timeout", "total_seconds")] * (len(tests) - len(answers))
            found, reason = self._session({**request, "tests": tests[len(answers) :]}, left)
            answers += found
            silent = 0 if found else silent + 1
            lost = ("timeout" if reason == "timeout" else "error", reason)
            if silent == SILENT:
                return answers + [lost] * (len(tests) - len(answers))
            if reason not in ("", "renew") and len(answers) < len(tests):
                answers.append(lost)
        return answers

    def _session(self, request: dict[str, Any], total: float) -> tuple[list[Answer], str]:
        """The answers of one sandbox, and why it ended before the last: renew: a test left files; '' if not."""
        limits = {
            "seconds": self.seconds,
            "total": total,
            "memory": self.memory_mb * MIB,
            "output": self.output_mb * MIB,
            "processes": self.processes,
            "files": self.files,
        }
        body = json.dumps({**request, **limits}).encode()
        with Session(self.command(), len(body).to_bytes(8, "big") + body) as session:
            answers: list[Answer] = []
            reason = session.wait_for_line(START_SECONDS, None)
            if reason or session.line()[0] != "ready":
                raise SandboxBroken(f"the sandbox did not start: {reason} {session.errors()}".strip())
            deadline = time.monotonic() + total + 5.0
            while len(answers) < len(request["tests"]):
                limit = min(self.seconds + 5.0, deadline - time.monotonic())
                reason = session.wait_for_line(limit, self)
                if reason:
                    return answers, reason
                answer = session.line()
                if answer[0] == "renew":
                    return answers, "renew"
                answers.append(answer)
        return answers, ""


class Session:
    """A running sandbox: what goes in and comes out, never blocking; entered and left with everything killed."""

    def __init__(self, command: Sequence[str], request: bytes) -> None:
        self.command, self.unsent, self.received = command, memoryview(request), bytearray()
        self.complaints = b""

    def __enter__(self) -> Session:
        self.process = started(self.command)
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self.selector = selectors.DefaultSelector()
        for stream, event in (
            (self.process.stdin, selectors.EVENT_WRITE),
            (self.process.stdout, selectors.EVENT_READ),
            (self.process.stderr, selectors.EVENT_READ),
        ):
            os.set_blocking(stream.fileno(), False)
            self.selector.register(stream, event)
        return self

    def __exit__(self, *_: object) -> None:
        self.selector.close()
        for pid in _descendants(self.process.pid)[:1]:  # the sandbox's process 1 takes all others with it
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                os.kill(pid, signal.SIGKILL)
                self.process.wait(END_SECONDS)  # collects it: whoever kills both leaves a zombie to the machine
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
        self.process.wait()

    def line(self) -> Answer:
        """The next line received, which must be there."""
        line, _, rest = self.received.partition(b"\n")
        self.received = rest
        try:
            kind, value = json.loads(line)
        except (ValueError, TypeError, RecursionError):
            return "error", "the sandbox wrote no answer"
        return str(kind), value

    def errors(self) -> str:
        """The end of what the command complained of, what is still in its pipe too."""
        with contextlib.suppress(subprocess.TimeoutExpired, OSError):
            self.process.wait(0.5)
            if self.process.stderr:
                self._receive(self.process.stderr)
        return self.complaints.decode(errors="replace").strip()[-500:]

    def wait_for_line(self, seconds: float, limits: Sandbox | None) -> str:
        """'' when a line is there, else why none came: timeout, ended, memory, processes, output."""
        until, checked, watched = time.monotonic() + seconds, 0, time.monotonic()
        while (end := self.received.find(b"\n", checked)) < 0 and end != checked:
            checked = len(self.received)
            left = until - time.monotonic()
            if left <= 0:
                return "timeout"
            ready = self.selector.select(min(left, WATCH_SECONDS))
            if limits and time.monotonic() - watched >= WATCH_SECONDS:
                watched = time.monotonic()
                if reason := _excess(self.process.pid, limits):
                    return reason
            for key, _ in ready:
                if key.fileobj is self.process.stdin:
                    self._send()
                elif not self._receive(key.fileobj):
                    return "ended"
            if limits and len(self.received) > 8 * limits.output_mb * MIB:
                return "output"
        return ""

    def _send(self) -> None:
        assert self.process.stdin
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            self.unsent = self.unsent[os.write(self.process.stdin.fileno(), self.unsent[:MIB]) :]
        if not self.unsent:
            self.selector.unregister(self.process.stdin)

    def _receive(self, stream: Any) -> bool:
        """Whether the stream may say more."""
        block = os.read(stream.fileno(), MIB)
        if stream is self.process.stdout:
            self.received += block
            return bool(block)
        self.complaints = (self.complaints + block)[-4096:]
        if not block and stream in self.selector.get_map():
            self.selector.unregister(stream)
        return True


def _descendants(pid: int) -> list[int]:
    """Process ids below one, nearest first."""
    found, row = [], [pid]
    while row:
        below: list[int] = []
        for parent in row:
            with contextlib.suppress(OSError):
                for task in os.listdir(f"/proc/{parent}/task"):
                    below += map(int, Path(f"/proc/{parent}/task/{task}/children").read_text().split())
        found += below
        row = below
    return found


def _excess(pid: int, limits: Sandbox) -> str:
    """What the sandbox's processes take too much of together: memory | processes | ''."""
    below, pages = _descendants(pid), 0
    for child in below:
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages += int(Path(f"/proc/{child}/statm").read_text().split()[1])
    if pages * os.sysconf("SC_PAGE_SIZE") > limits.memory_mb * MIB:
        return "memory"
    return "processes" if len(below) > limits.processes + 2 else ""


@functools.lru_cache(maxsize=8)
def _working(sandbox: Sandbox) -> list[str]:
    """The command of the first backend that runs a program here."""
    names = [sandbox.backend] if sandbox.backend != "auto" else list(COMMANDS)
    faults = []
    for name in names:
        try:
            command = COMMANDS[name](sandbox)
            _probe(command)
            return command
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            faults.append(f"{name}: {error}")
    raise UserError(
        f"no sandbox works here (backend = {sandbox.backend}), so programs are not run:\n"
        + "\n".join(f"  - {fault}" for fault in faults)
        + "\nInstall bubblewrap (Debian: apt-get install bubblewrap) on a kernel with user namespaces, or podman or "
        "apptainer, and name an image with Python in sandbox.image."
    )


def _probe(command: Sequence[str]) -> None:
    """Run one program. Raises ValueError with what the backend said when it does not answer."""
    with started(command) as process:
        try:
            _, complaint = process.communicate(b"", timeout=PROBE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    if process.returncode != 0:
        raise ValueError(complaint.decode(errors="replace").strip()[-300:] or f"exit code {process.returncode}")

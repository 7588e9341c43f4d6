"""Worker processes that can be killed: each question has its own time limit and costs nobody else anything."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

MOST_QUESTIONS = 2_000
"""A worker is replaced after so many."""
START_SECONDS = 120.0
PACKAGES = str(Path(__file__).resolve().parents[2])
COMMAND = [sys.executable, "-P", "-m", "kappo.rewards.symbolic"]

Question = tuple[str, str]
"""(gold, found)"""


class Stopped(Exception):
    """The worker ended or did not answer in time."""

    def __init__(self, verdict: str) -> None:
        super().__init__(verdict)
        self.verdict = verdict


class Worker:
    """One process; it starts when made and is asked by one thread at a time."""

    def __init__(self) -> None:
        path = os.pathsep.join(part for part in (PACKAGES, os.environ.get("PYTHONPATH", "")) if part)
        self.process = subprocess.Popen(
            [*COMMAND, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
        self.asked = 0
        self.rest = b""

    @property
    def pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self.process.stdin
        assert self.process.stdout
        return self.process.stdin, self.process.stdout

    def line(self, seconds: float) -> str:
        """The next line it writes. Raises Stopped."""
        until, output = time.monotonic() + seconds, self.pipes[1]
        waiting = select.poll()
        waiting.register(output, select.POLLIN | select.POLLHUP)
        while b"\n" not in self.rest:
            left = until - time.monotonic()
            if left <= 0 or not waiting.poll(left * 1000):
                raise Stopped("timeout")
            chunk = output.read(65536)
            if not chunk:
                raise Stopped("crash")
            self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()

    def ask(self, question: Question, seconds: float) -> str:
        """right | wrong | crash. Raises Stopped. The first question waits until the worker is ready."""
        if not self.asked:
            self.line(START_SECONDS)
        self.asked += 1
        request = json.dumps({"gold": question[0], "found": question[1], "seconds": seconds}) + "\n"
        try:
            self.pipes[0].write(request.encode())
        except OSError:
            raise Stopped("crash") from None
        return str(json.loads(self.line(seconds)))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.forget()

    def forget(self) -> None:
        """Close this process's ends of the pipes."""
        for pipe in self.pipes:
            with contextlib.suppress(OSError):
                pipe.close()


class Pool:
    """At most `size` workers, started when they are needed; threads share them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.free = threading.BoundedSemaphore(size)
        self.idle: list[Worker] = []
        self.alive: set[Worker] = set()

    def ask(self, question: Question, seconds: float) -> tuple[str, float]:
        """(right | wrong | timeout | crash, seconds it took). A worker that stopped is replaced by the next call."""
        with self.free:
            worker = self._worker()
            begun = time.monotonic()
            try:
                verdict = worker.ask(question, seconds)
            except Stopped as stopped:
                verdict = stopped.verdict
                self._end(worker)
            except BaseException:
                self._end(worker)
                raise
            else:
                if worker.asked >= MOST_QUESTIONS:
                    self._end(worker)
                else:
                    self.idle.append(worker)
            return verdict, time.monotonic() - begun

    def ask_many(self, questions: Sequence[Question], seconds: float) -> list[tuple[str, float]]:
        """What `ask` says to each, in their order; the workers share the questions."""
        if len(questions) < 2 or self.size == 1:
            return [self.ask(question, seconds) for question in questions]
        with ThreadPoolExecutor(min(self.size, len(questions))) as threads:
            return list(threads.map(lambda question: self.ask(question, seconds), questions))

    def _worker(self) -> Worker:
        with contextlib.suppress(IndexError):
            return self.idle.pop()
        worker = Worker()
        self.alive.add(worker)
        return worker

    def _end(self, worker: Worker) -> None:
        self.alive.discard(worker)
        worker.end()

    def close(self) -> None:
        """End all workers."""
        for worker in list(self.alive):
            self._end(worker)
        self.idle.clear()


_pools: dict[int, Pool] = {}
_lock = threading.Lock()


def pool(size: int) -> Pool:
    """This process's pool of that size."""
    with _lock:
        return _pools.setdefault(size, Pool(size))


def _close_all() -> None:
    for one in list(_pools.values()):
        one.close()


def _forget_all() -> None:
    """In a forked child: the workers are the parent's, so drop them and its locks, and let go of their pipes."""
    global _lock
    for one in list(_pools.values()):
        for worker in list(one.alive):
            worker.forget()
            worker.process.returncode = 0
    _pools.clear()
    _lock = threading.Lock()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)

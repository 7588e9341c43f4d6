"""Process 1 of the sandbox: runs one program on many inputs, each result a line of JSON.

A request comes on stdin, then nothing but the end of the file, which ends everything. The program and its inputs are
here, the expected outputs never are: whatever a program does to this process, it can only say what it computes.
Each test has a forked child; when it has ended, what it left behind is killed.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import gc
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from kappo.rewards.inside.program import Program, describe, write_all

SAID = ("value", "error", "output")
"""What the process of a program may say of a test."""


def confine(request: dict[str, Any]) -> None:
    """Limits of the process that runs the program."""
    limits = {
        resource.RLIMIT_STACK: 120 << 20,
        resource.RLIMIT_AS: request["memory"],
        resource.RLIMIT_FSIZE: request["output"],
        resource.RLIMIT_NOFILE: request["files"],
        resource.RLIMIT_NPROC: request["processes"],
        resource.RLIMIT_CPU: int(request["seconds" if request["mode"] == "stdin" else "total"]) + 2,
        resource.RLIMIT_CORE: 0,
    }
    for kind, value in limits.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, hard if kind == resource.RLIMIT_STACK else value))


def start(request: dict[str, Any], run: Callable[[], None], *, read: int | None, write: int | None) -> int:
    """Fork a confined child that calls `run`, with the given files as stdin and stdout; its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null if read is None else read, 0)
        os.dup2(null if write is None else write, 1)
        os.dup2(null, 2)
        for fd in (ANSWERS, FAULTS[0]):
            os.close(fd)
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        confine(request)
        run()
        code = 0
    except SystemExit:
        code = 0
    except BaseException as error:
        _report(describe(error))
    finally:
        os._exit(code)


def _report(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(FAULTS[1], text.encode()[:500])


FAULTS = (-1, -1)


def wait(pid: int, seconds: float) -> int | None:
    """The exit status of a child; None when it is still running after so many seconds. Ends with the outer pipe."""
    handle = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.register(0, select.POLLHUP)
        ready = dict(poll.poll(max(seconds, 0) * 1000))
    finally:
        os.close(handle)
    if 0 in ready:
        os._exit(0)
    return os.waitpid(pid, 0)[1] if ready else None


def clear() -> None:
    """Kill every process but this one, and collect them."""
    with contextlib.suppress(OSError):
        os.kill(-1, signal.SIGKILL)
    while True:
        try:
            if os.waitpid(-1, 0)[0] == 0:
                break
        except OSError:
            break


def fault() -> str:
    """What the last child reported as its error, '' if nothing."""
    try:
        return os.read(FAULTS[0], 4096).decode(errors="replace")
    except BlockingIOError:
        return ""


def answer(*fields: Any) -> None:
    write_all(ANSWERS, json.dumps(fields).encode() + b"\n")


ANSWERS = -1


def scratch(content: bytes = b"") -> int:
    """An open file without a name."""
    fd = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)
    write_all(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def litter() -> set[str]:
    """The files in the sandbox's own folders: what one test leaves there, the next must not find."""
    found = set[str]()
    for folder in ("/tmp", "/dev/shm"):
        with contextlib.suppress(OSError):
            found |= {f"{folder}/{name}" for name in os.listdir(folder)}
    return found


def stdin_tests(request: dict[str, Any], program: Program, deadline: float) -> None:
    before = litter()
    for i, test in enumerate(request["tests"]):
        if i and litter() - before:
            answer("renew", "")
            return
        seconds = min(request["seconds"], deadline - time.monotonic())
        if seconds <= 0:
            answer("timeout", "")
            continue
        read, write = scratch(test["input"].encode(errors="surrogatepass")), scratch()
        pid = start(request, program.script, read=read, write=write)
        status = wait(pid, seconds)
        clear()
        text, size = fault(), os.fstat(write).st_size
        if size >= request["output"]:
            answer("output", "")
        elif status is None:
            answer("timeout", "")
        elif text or os.WIFSIGNALED(status):
            answer("error", text or f"ended by signal {os.WTERMSIG(status)}")
        else:
            os.lseek(write, 0, os.SEEK_SET)
            with open(write, "rb", closefd=False) as file:
                answer("text", file.read().decode("utf-8", "replace"))
        os.close(read)
        os.close(write)


def call_tests(request: dict[str, Any], program: Program, deadline: float) -> None:
    tests, limit, done = request["tests"], request["output"], 0
    while done < len(tests):
        read, write = os.pipe()
        run = functools.partial(program.calls, tests[done:], write)
        pid = start(request, run, read=None, write=None)
        os.close(write)
        rest = b""
        while done < len(tests):
            line, rest, state = next_line(read, rest, min(request["seconds"], deadline - time.monotonic()), limit)
            if line is None:
                break
            answer(*line)
            done += 1
        os.close(read)
        if done < len(tests):
            status = None if state == "timeout" else wait(pid, 1.0)
            clear()
            text = fault()
            if state == "ended" and text:
                for _ in tests[done:]:
                    answer("error", text)
                return
            answer("timeout" if state == "timeout" else "error", "" if state == "timeout" else f"ended early: {status}")
            done += 1
        else:
            clear()


def next_line(fd: int, rest: bytes, seconds: float, limit: int) -> tuple[tuple[str, Any] | None, bytes, str]:
    """(fields, what is left, '') of a child's next line, or (None, b'', 'timeout' | 'ended')."""
    until = time.monotonic() + seconds
    while b"\n" not in rest:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.register(0, select.POLLHUP)
        ready = dict(poll.poll(max(until - time.monotonic(), 0) * 1000))
        if 0 in ready:
            os._exit(0)
        if not ready:
            return None, b"", "timeout"
        block = os.read(fd, 1 << 20)
        rest += block
        if not block or len(rest) > limit + 4096:
            return None, b"", "ended"
    line, rest = rest.split(b"\n", 1)
    try:
        kind, value = json.loads(line)
        if kind in SAID:
            return (kind, value), rest, ""
    except (ValueError, TypeError, RecursionError):
        pass
    return ("error", "wrote something else than a value"), rest, ""


def main() -> None:
    global ANSWERS, FAULTS
    import _sitebuiltins

    for name in ("quit", "exit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D"))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # process 1 of a namespace ignores what it does not handle
    ANSWERS = os.dup(1)
    os.set_inheritable(ANSWERS, False)
    FAULTS = os.pipe()
    os.set_blocking(FAULTS[0], False)
    sys.set_int_max_str_digits(0)
    sys.path[:] = [p for p in sys.path if p] + ["/packages"]
    sys.argv = ["program.py"]
    size = int.from_bytes(_read_exactly(8), "big")
    request = json.loads(_read_exactly(size))
    answer("ready", "")
    deadline = time.monotonic() + request["total"]
    try:
        program = Program(request)
    except BaseException as error:
        for _ in request["tests"]:
            answer("error", describe(error))
        return
    if program.reach:
        for _ in request["tests"]:
            answer("tampering", program.reach)
        return
    gc.freeze()  # a child that collects or looks for open files sees its own objects alone
    (stdin_tests if request["mode"] == "stdin" else call_tests)(request, program, deadline)


def _read_exactly(size: int) -> bytes:
    parts = []
    while size:
        part = os.read(0, min(size, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)

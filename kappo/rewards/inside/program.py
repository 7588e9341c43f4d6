"""The program: compiled once, run as a script or called, in a process of its own."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import gc
import io
import json
import os
import sys
import types
from typing import Any

from kappo.rewards.inside.source import reach, supply
from kappo.rewards.inside.values import decode, encode


class Program:
    """The compiled program, run in a fresh module each time: `__main__` as a script, `program` where it is called."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.limit, self.entry = request["output"], request["entry"]
        parts = [request["setup"], request["source"]]
        self.code = [compile(text, "<program>", "exec", dont_inherit=True) for text in parts]
        self.reach = reach(request["source"], request.get("judge", ""))
        self.supplied = supply("\n".join(parts))
        self.main = types.ModuleType("__main__" if request["mode"] == "stdin" else "program")

    def run(self) -> dict[str, Any]:
        sys.modules["__main__"] = sys.modules[self.main.__name__] = self.main
        names = self.main.__dict__
        names.update(self.supplied, __builtins__=builtins)
        for code in self.code:
            exec(code, names)
        return names

    def script(self) -> None:
        """Run from stdin to stdout, which are in place, to the very end: threads, exit handlers, buffers."""
        for fd, name in enumerate(("stdin", "stdout", "stderr")):
            errors = "backslashreplace" if fd else "surrogateescape"
            stream = open(fd, "w" if fd else "r", encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        try:
            self.run()
        finally:
            if "threading" in sys.modules:
                sys.modules["threading"]._shutdown()
            atexit._run_exitfuncs()
            _end(self.main.__dict__)

    def calls(self, tests: list[dict[str, Any]], out: int) -> None:
        """Evaluate the tests' expressions in one process, a line of JSON for each."""
        names = self.run()
        candidate = eval(self.entry, names) if self.entry else None
        for test in tests:
            try:
                bound = {key: decode(value, names) for key, value in test["bindings"].items()}
                value = eval(test["expression"], {**names, **bound, "candidate": candidate})
                line = json.dumps(["value", encode(value)])
                if len(line) > self.limit:
                    line = json.dumps(["output", ""])
            except BaseException as error:
                line = json.dumps(["error", describe(error)])
            write_all(out, line.encode() + b"\n")


def _end(names: dict[str, Any]) -> None:
    """What an interpreter does at its exit: whatever is open for writing is flushed, destructors run."""
    _flush()
    names.clear()
    gc.collect()
    _flush()


def _flush() -> None:
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    for kind in (io.TextIOBase, io.BufferedIOBase):
        for file in [found for found in gc.get_objects() if issubclass(type(found), kind)]:
            with contextlib.suppress(Exception):
                file.flush()


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def describe(error: BaseException) -> str:
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    return text[:300].encode("ascii", "backslashreplace").decode()

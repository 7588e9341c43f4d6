"""What runs inside the sandbox: one program on many inputs, each result a line of JSON. Standard library only.

A request comes on stdin, then nothing but the end of the file, which ends everything. The program and its inputs are
here, the expected outputs never are: whatever a program does to this process, it can only say what it computes.
Process 1 of the sandbox forks a child for a test; when the child has ended it kills what the child left behind.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import contextlib
import functools
import io
import json
import os
import resource
import select
import signal
import sys
import time
import types
from collections.abc import Callable
from typing import Any

PRELUDE = (
    "typing", "collections", "heapq", "bisect", "itertools", "functools", "math", "string", "operator", "copy",
    "random", "statistics", "re", "datetime", "decimal", "fractions", "json", "io", "queue",
)  # fmt: skip
"""Modules whose public names a program may use without importing them, as judges of such problems let it."""

PLAIN = {bool, int, float, str, type(None)}
PACKAGES = ("numpy", "sortedcontainers")
REACHING = {
    "_getframe", "_current_frames", "currentframe", "f_back", "f_locals", "f_globals", "tb_frame", "gi_frame",
    "getppid",
}  # fmt: skip
REACHING_OF = {"inspect": {"stack", "trace"}, "gc": {"get_objects", "get_referrers", "get_referents"}}
"""Names that tell nothing by themselves, by the module they are taken from."""
SAID = ("value", "error", "output")
"""What the process of a program may say of a test."""
TAG = "kappo"


class NotPlain(Exception):
    """A value that is no data: an object with equality of its own, a function."""


def encode(value: Any) -> Any:
    """A value as JSON that says what it is: tuples are lists; sets, dicts, linked lists and trees are tagged."""
    kind: Any = type(value)
    if kind in PLAIN:
        return value
    if isinstance(value, dict) and kind.__eq__ in (dict.__eq__, _eq("collections", "Counter"), _ordered()):
        return {TAG: "dict", "items": [[encode(k), encode(v)] for k, v in dict.items(value)]}
    if isinstance(value, list | tuple) and kind.__eq__ in (list.__eq__, tuple.__eq__):
        return [encode(v) for v in value]
    if isinstance(value, set | frozenset) and kind.__eq__ in (set.__eq__, frozenset.__eq__):
        return {TAG: "set", "items": [encode(v) for v in value]}
    if kind.__module__ == "collections" and kind.__name__ == "deque":
        return [encode(v) for v in value]
    if kind.__module__.split(".")[0] == "numpy" and hasattr(value, "tolist"):
        return encode(value.tolist())
    if (kind.__module__, kind.__name__) in (("decimal", "Decimal"), ("fractions", "Fraction")):
        return int(value) if value == int(value) else float(value)
    for base in (int, float, str):
        if isinstance(value, base) and kind.__eq__ is base.__eq__:
            return base(value)
    if hasattr(value, "val") and hasattr(value, "next"):
        return {TAG: "list_node", "items": _chain(value)}
    if hasattr(value, "val") and hasattr(value, "left") and hasattr(value, "right"):
        return {TAG: "tree_node", "items": _levels(value)}
    if hasattr(value, "__next__"):
        raise NotPlain(f"returned a {kind.__name__}, which is no value")
    raise NotPlain(f"returned a {kind.__name__}, which is not plain data")


def _eq(module: str, name: str) -> Any:
    found = getattr(sys.modules.get(module), name, None)
    return getattr(found, "__eq__", dict.__eq__)


def _ordered() -> Any:
    return _eq("collections", "OrderedDict")


def _chain(node: Any) -> list[Any]:
    items = []
    while node is not None:
        items.append(encode(node.val))
        if len(items) > 1_000_000:
            raise NotPlain("returned a linked list with a cycle")
        node = node.next
    return items


def _levels(root: Any) -> list[Any]:
    items, row = [], [root]
    while row:
        below = []
        for node in row:
            items.append(None if node is None else encode(node.val))
            if node is not None:
                below += [node.left, node.right]
        if len(items) > 1_000_000:
            raise NotPlain("returned a tree with a cycle")
        row = below
    while items and items[-1] is None:
        items.pop()
    return items


def decode(value: Any, names: dict[str, Any]) -> Any:
    """The value that `encode` wrote; linked lists and trees by the constructors in `names`."""
    if isinstance(value, list):
        return [decode(v, names) for v in value]
    if not isinstance(value, dict):
        return value
    items = decode(value["items"], names)
    kind = value[TAG]
    if kind in ("list_node", "tree_node"):
        return names[kind](items)
    return set(items) if kind == "set" else dict(items)


def supply(source: str) -> dict[str, Any]:
    """PRELUDE's modules and public names that the source uses and binds nowhere; what it imports is loaded early."""
    tree = ast.parse(source)
    used, loaded = set[str](), set[str]()
    bound = set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
            loaded.add(node.name.split(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.module:
            loaded.add(node.module.split(".")[0])
    for module in loaded & {*PRELUDE, *PACKAGES, "threading"}:
        with contextlib.suppress(Exception):
            __import__(module)
    missing = {name for name in used - bound if not name.startswith("_")}
    names = {"sys": sys} if "sys" in missing else {}
    for module in PRELUDE:
        if missing <= set(names):
            break
        found = __import__(module)
        names |= {module: found} if module in missing else {}
        names |= {name: getattr(found, name) for name in missing - set(names) if hasattr(found, name)}
    return names


def reach(source: str, judge: str = "") -> str:
    """What only a program that aims at its judge names: its frames, its parent, the judge's function; '' if nothing."""
    tree = ast.parse(source)
    if judge and _replaces(tree, judge):
        return judge
    modules = {name: name for name in REACHING_OF}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {a.asname: a.name for a in node.names if a.asname and a.name in REACHING_OF}
    for node in ast.walk(tree):
        names, more = list[str](), set[str]()
        if isinstance(node, ast.Attribute):
            names = [node.attr]
            more = REACHING_OF.get(modules.get(node.value.id, ""), more) if isinstance(node.value, ast.Name) else more
        elif isinstance(node, ast.ImportFrom):
            names, more = [a.name for a in node.names], REACHING_OF.get(node.module or "", more)
        for name in names:
            if name in REACHING or name in more:
                return name
    return ""


def _replaces(tree: ast.Module, judge: str) -> bool:
    """Whether the module binds the judge's name to a function of `candidate` or *args that it never uses itself."""
    if any(isinstance(n, ast.Name) and n.id == judge and isinstance(n.ctx, ast.Load) for n in ast.walk(tree)):
        return False
    for node in _module_level(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == judge:
            found = node.args
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Lambda):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if not any(isinstance(t, ast.Name) and t.id == judge for t in targets):
                continue
            found = node.value.args
        else:
            continue
        names = [a.arg for a in found.posonlyargs + found.args]
        if names == ["candidate"] or (not names and found.vararg):
            return True
    return False


def _module_level(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements that run in the module's own scope, those inside if, try, with and loops too."""
    found = []
    for node in body:
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for name in ("body", "orelse", "finalbody"):
                found += _module_level(getattr(node, name, []))
            for handler in getattr(node, "handlers", []):
                found += _module_level(handler.body)
    return found


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
            for file in (sys.stdout, sys.__stdout__, *self.main.__dict__.values()):
                if file is sys.stdout or isinstance(file, io.IOBase):
                    with contextlib.suppress(Exception):
                        file.flush()  # type: ignore[union-attr]

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
            _write_all(out, line.encode() + b"\n")


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def describe(error: BaseException) -> str:
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    return text[:300].encode("ascii", "backslashreplace").decode()


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
    _write_all(ANSWERS, json.dumps(fields).encode() + b"\n")


ANSWERS = -1


def scratch(content: bytes = b"") -> int:
    """An open file without a name."""
    fd = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)
    _write_all(fd, content)
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


if __name__ == "__main__":
    main()

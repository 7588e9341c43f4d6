"""Graders: math answers a second against Math-Verify, tests of programs a second against one process a test.

Real completions: the solution texts of MATH, each with its own gold answer and with another problem's;
the reference programs of LeetCodeDataset. KAPPO_ROWS_DIR names the folder of the public rows.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from _harness import RESULTS, Measured, report, seconds, side_by_side

from kappo.records import Problem, write_json
from kappo.rewards import math as math_room
from kappo.rewards.code import ProgramTests
from kappo.rewards.math import MathAnswer, gold_answer

WORKERS = 2
GRADINGS = 10_000
PROGRAMS = 12
STDIN_TESTS = 20
ADDER = "import sys\nn = int(input())\nprint(sum(int(x) for x in sys.stdin.readline().split()))\n"


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def completions(folder: Path) -> list[tuple[Problem, str, bool]]:
    """(problem, text, whether the text's answer is the problem's); a problem's gold is used twice."""
    solved = [
        (gold_answer(row["solution"]), row["solution"])
        for name in ("math_train/train.jsonl", "math_test_level5/test.jsonl")
        for row in rows(folder, name)
    ]
    own = [(Problem(str(i), "", gold), text, True) for i, (gold, text) in enumerate(solved)]
    other = [
        (Problem(str(i), "", gold), solved[i - 1][1], False)
        for i, (gold, _) in enumerate(solved)
        if gold != solved[i - 1][0]
    ]
    return own + other


def math_verdicts(cases: list[tuple[Problem, str, bool]]) -> list[bool]:
    math_room._memory.verdicts.clear()
    grades = MathAnswer(workers=WORKERS).grade_many([(problem, text) for problem, text, _ in cases])
    return [grade.verdict == "right" for grade in grades]


def math_verify_verdicts(cases: list[tuple[Problem, str, bool]]) -> list[bool]:
    from math_verify import parse, verify

    return [verify(parse(f"${problem.answer}$"), parse(text)) for problem, text, _ in cases]


def math_row(folder: Path) -> Measured:
    cases = completions(folder)
    n = len(cases)
    print(f"math: {n} completions, {sum(right for *_, right in cases)} with the right answer")
    for name, verdicts in (("kappo", math_verdicts(cases)), ("Math-Verify", math_verify_verdicts(cases))):
        missed = sum(right and not said for said, (*_, right) in zip(verdicts, cases, strict=True))
        false = sum(said and not right for said, (*_, right) in zip(verdicts, cases, strict=True))
        print(f"  {name:12} calls {missed} right answers wrong and {false} answers of another problem right")
    return side_by_side(
        "math answers",
        lambda: math_verdicts(cases),
        lambda: math_verify_verdicts(cases),
        "Math-Verify 0.9.0, serial",
        10.0,
        n=3,
        amount=n,
        unit="answers/s",
    )


def _alarm(*_: object) -> None:
    raise TimeoutError


def _run_stdin(source: str, given: str, wanted: str, said: Any) -> None:
    """One test of a script in this process, which is a child of its own."""
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(6)
    out = io.StringIO()
    sys.stdin = io.StringIO(given)
    with contextlib.redirect_stdout(out), contextlib.suppress(Exception):
        exec(compile(source, "program", "exec"), {"__name__": "__main__"})
    said.append(out.getvalue().split() == wanted.split())


def _run_call(source: str, entry: str, test: str, said: Any) -> None:
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(6)
    names: dict[str, Any] = {}
    try:
        exec(compile(source, "program", "exec"), names)
        names["candidate"] = eval(entry, names)
        said.append(bool(eval(test, names)))
    except Exception:
        said.append(False)


def peer(target: Callable[..., None], tests: list[tuple[Any, ...]]) -> list[bool]:
    """One process a test and a manager's list for its word, as the judges of code benchmarks have it; WORKERS of them
    at a time. Nothing is isolated.
    """
    from concurrent.futures import ThreadPoolExecutor

    fork = multiprocessing.get_context("fork")

    def one(test: tuple[Any, ...]) -> bool:
        with fork.Manager() as manager:
            said = manager.list()
            child = fork.Process(target=target, args=(*test, said))
            child.start()
            child.join(timeout=7)
            if child.is_alive():
                child.kill()
            return bool(said and said[0])

    with ThreadPoolExecutor(WORKERS) as threads:
        return list(threads.map(one, tests))


def code_row(name: str, programs: list[tuple[dict[str, Any], str]], target: Any, tests: list[Any]) -> Measured:
    reward = ProgramTests(workers=WORKERS)
    pairs = [
        (Problem(str(i), "", json.dumps(row)), f"```python\n{source}\n```") for i, (row, source) in enumerate(programs)
    ]

    def ours() -> list[bool]:
        return [word == "passed" for grade in reward.grade_many(pairs) for word in grade.tests]

    def theirs() -> list[bool]:
        return peer(target, tests)

    mine, peers = ours(), theirs()
    print(f"{name}: {len(mine)} tests of {len(programs)} programs; passed: kappo {sum(mine)}, peer {sum(peers)}")
    return side_by_side(name, ours, theirs, "one process a test, SIGALRM", 5.0, n=3, amount=len(tests), unit="tests/s")


def stdin_row() -> Measured:
    tests = [
        {"input": f"{n}\n{' '.join(map(str, range(n)))}\n", "output": f"{n * (n - 1) // 2}\n"}
        for n in range(1, STDIN_TESTS + 1)
    ]
    programs = [({"mode": "stdin", "tests": tests}, ADDER)] * PROGRAMS
    jobs = [(ADDER, t["input"], t["output"]) for _ in range(PROGRAMS) for t in tests]
    return code_row("tests of scripts", programs, _run_stdin, jobs)


def leetcode(folder: Path) -> list[tuple[dict[str, Any], str]]:
    return [
        (
            {
                "mode": "leetcode",
                "entry_point": row["entry_point"],
                "test": row["test"],
                "prompt": row["prompt"],
            },
            row["completion"],
        )
        for row in rows(folder, "leetcode/test.jsonl")[:PROGRAMS]
    ]


def calls_row(folder: Path) -> Measured:
    programs, jobs = leetcode(folder), []
    for row, source in programs:
        check = next(node for node in ast.parse(row["test"]).body if isinstance(node, ast.FunctionDef))
        for statement in check.body:
            if isinstance(statement, ast.Assert):
                jobs.append((f"{row['prompt']}\n{source}", row["entry_point"], ast.unparse(statement.test)))
    return code_row("tests of functions", programs, _run_call, jobs)


def state() -> dict[str, float]:
    """What this process holds, and what lies in the temporary folder."""
    me = psutil.Process()
    children = me.children(recursive=True)
    return {
        "processes": len(children),
        "resident_mb": me.memory_info().rss / 2**20,
        "workers_resident_mb": sum(child.memory_info().rss for child in children) / 2**20,
        "open_files": me.num_fds(),
        "temporary_files": len(os.listdir(tempfile.gettempdir())),
    }


def lasting(folder: Path) -> Iterator[str]:
    """Memory, processes and files before and after GRADINGS gradings of each kind."""
    cases = completions(folder)
    pairs = [(problem, text) for problem, text, _ in cases]
    reward = MathAnswer(workers=WORKERS)
    scripts = ProgramTests(workers=WORKERS)
    tests = json.dumps({"mode": "stdin", "tests": [{"input": "2\n1 2\n", "output": "3\n"}]})
    program = (Problem("p", "", tests), f"```python\n{ADDER}```")
    found: dict[str, Any] = {}
    for name, work in (
        ("math", lambda n: [reward.grade_many(pairs[: n - low]) for low in range(0, n, len(pairs))]),
        ("code", lambda n: scripts.grade_many([program] * n)),
    ):
        math_room._memory.verdicts.clear()
        work(500)
        before = state()
        took = seconds(lambda work=work: work(GRADINGS))
        found[name] = {"gradings": GRADINGS, "seconds": took, "before": before, "after": state()}
        yield f"{name}: {GRADINGS} gradings in {took:.0f} s"
        yield from (f"  {key:20} {before[key]:8.0f} -> {value:8.0f}" for key, value in found[name]["after"].items())
    write_json(RESULTS / "grading_lasting.json", found)


def main() -> None:
    folder = Path(os.environ.get("KAPPO_ROWS_DIR", ""))
    if not (folder / "math_train" / "train.jsonl").is_file():
        sys.exit("error: KAPPO_ROWS_DIR does not name the folder of the public rows (math_train/train.jsonl, ...)")
    report("grading", [math_row(folder), stdin_row(), calls_row(folder)])
    for line in lasting(folder):
        print(line)


if __name__ == "__main__":
    main()

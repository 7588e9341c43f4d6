"""`kappo grade`: grade any file of completions again, by the math or the code reward."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kappo.commands.parsing import command
from kappo.config import build
from kappo.data import files
from kappo.errors import UserError
from kappo.folders import acquire
from kappo.records import VERDICTS, Grade, Problem, disk_error, fingerprint, sha256
from kappo.rewards.base import ready
from kappo.rewards.code import ProgramTests
from kappo.rewards.code_tests import from_columns
from kappo.rewards.math import MathAnswer
from kappo.rewards.program import extract

ABOUT = """Grades of a file of completions (jsonl, json, csv, parquet; .gz), one row of OUT for each of its rows, in its
order: id, score in [0, 1], verdict (right, wrong, unparsable, timeout, crash), extracted, tests, seconds.

  kappo grade math completions.jsonl -o verdicts.jsonl
  kappo grade code completions.jsonl -o verdicts.jsonl --score pass_fail --strict

Columns for math: prediction or completion, the model's text; gold or answer, or a solution that ends in a box.
Columns for code: completion, the model's text, or solution, a program; and what it is tested by:
  mode stdin       tests, a list of {"input": ..., "output": ...}
  mode functional  tests with one JSON value a line, and fn_name
  mode leetcode    test, a check(candidate) of asserts; entry_point; optional prompt, code that goes before
  mode extract     expected_code, the program that should be found in the completion; nothing is run
mode may be left out where the columns tell. Optional: id (else the row's number), expected (true or false: the summary
counts the rows that agree). An interrupted grading goes on where it stopped when the same command is run again.
"""

TRUTHS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
Job = tuple[str, Callable[[], Grade]]
"""(id, what grades the row)"""


@dataclass(frozen=True)
class Row:
    """A row of the input and where it stands."""

    where: str
    values: Mapping[str, Any]

    def text(self, *names: str) -> str:
        """The first of these columns, a text. Raises UserError where none is one."""
        name = next((name for name in names if self.values.get(name) is not None), None)
        if name is None:
            raise UserError(
                f"{self.where}: no {' or '.join(names)}; its columns are {', '.join(self.values) or 'none'}. "
                "See kappo grade --help for the columns"
            )
        value = self.values[name]
        if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
            return str(value)
        if not isinstance(value, str):
            raise UserError(f"{self.where}: {name} = {json.dumps(value, default=str)[:80]}: expected a text")
        return value


def grade(arguments: list[str]) -> None:
    a = _parser().parse_args(arguments)
    if not 0 <= a.max_failed <= 1 or (a.limit is not None and a.limit < 1):
        raise UserError(f"--max-failed {a.max_failed:g} --limit {a.limit}: expected a share and 1 row or more")
    reward: Any = _math(a) if a.kind == "math" else _code(a)
    jobs_of: Callable[[Any, Row, int], Job] = _math_job if a.kind == "math" else _code_job
    if (a.output.exists() and not a.output.is_file()) or a.output.resolve() == a.file.resolve():
        raise UserError(f"--output {a.output}: expected a file to write, not the completions")
    rows = [Row(f"{a.file}, row {number}", values) for number, values in _read(a.file, a.limit)]
    if not rows:
        raise UserError(f"{a.file} has no rows: expected one a completion")
    jobs = [jobs_of(reward, row, number) for number, row in enumerate(rows, start=1)]
    ready(reward)
    settings = {"input": sha256(a.file), "rows": len(rows), "kind": a.kind, "reward": repr(reward)}
    found = _graded(jobs, a.output, fingerprint(settings), a.workers, f"grade {a.kind}")
    print(_summary(found, rows))
    print(a.output)
    failed = sum(g["verdict"] in ("timeout", "crash") for g in found) / len(found)
    if a.strict and failed > a.max_failed:
        print(
            f"kappo: {failed:.1%} of {len(found)} gradings are timeouts or crashes, above --max-failed "
            f"{a.max_failed:g}",
            file=sys.stderr,
        )
        sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = command("grade", ABOUT)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("kind", choices=["math", "code"])
    parser.add_argument("file", type=Path, help="the completions")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="jsonl file of verdicts")
    parser.add_argument("--limit", type=int, metavar="N", help="grade the first N rows only")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="default: one for each core")
    parser.add_argument("--seconds", type=float, help="limit of one answer (math, default 5) or one test (code, 6)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when timeouts and crashes pass --max-failed")
    parser.add_argument("--max-failed", type=float, default=0.01, metavar="SHARE", help="default 0.01")
    code = parser.add_argument_group("code only")
    code.add_argument("--score", choices=["pass_rate", "pass_fail"], help="share of tests passed (default), or all")
    code.add_argument("--total-seconds", type=float, help="limit of all tests of one program (30)")
    code.add_argument("--memory-mb", type=int, help="limit of one program (2048)")
    code.add_argument("--backend", help="auto (default), bubblewrap, podman or apptainer")
    code.add_argument("--image", help="container image for podman or apptainer")
    return parser


def _math(a: argparse.Namespace) -> MathAnswer:
    given = [
        name for name in ("score", "total_seconds", "memory_mb", "backend", "image") if getattr(a, name) is not None
    ]
    if given:
        raise UserError(f"--{given[0].replace('_', '-')} is for `kappo grade code`: leave it out")
    return build(MathAnswer, _set(workers=a.workers, seconds=a.seconds))


def _code(a: argparse.Namespace) -> ProgramTests:
    limits = _set(
        seconds=a.seconds, total_seconds=a.total_seconds, memory_mb=a.memory_mb, backend=a.backend, image=a.image
    )
    return build(ProgramTests, {**_set(score=a.score, workers=a.workers), "sandbox": limits})


def _set(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _read(file: Path, limit: int | None) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for place, (number, values) in enumerate(files.records(file)):
        if place == limit:
            return
        yield number, values


def _id(row: Row, number: int) -> str:
    return row.text("id") if "id" in row.values else str(number)


def _math_job(reward: MathAnswer, row: Row, number: int) -> Job:
    id, text = _id(row, number), row.text("prediction", "completion")
    problem = Problem(id, "", row.text("gold", "answer", "solution"))
    if not problem.answer.strip():
        raise UserError(f"{row.where}: its gold answer is empty: nothing can be right; drop the row")
    return id, lambda: reward.grade(problem, text)


def _code_job(reward: ProgramTests, row: Row, number: int) -> Job:
    id, mode = _id(row, number), row.values.get("mode") or _mode(row)
    if mode == "extract":
        text, wanted = row.text("completion"), row.text("expected_code").strip()
        return id, lambda: _found(extract(text), wanted)
    tests = from_columns({**row.values, "mode": mode, "tests": _list(row)}, row.where)
    if row.values.get("completion") is None:
        program: str | None = row.text("solution", "completion")
    else:
        program = extract(row.text("completion"))
    return id, lambda: Grade(0.0, "unparsable") if program is None else reward.grade_program(tests, program)


def _mode(row: Row) -> str:
    if row.values.get("test") is not None:
        return "leetcode"
    return "functional" if row.values.get("fn_name") else "stdin"


def _list(row: Row) -> Any:
    """The column tests, which csv and some parquet files hold as a JSON text."""
    tests = row.values.get("tests")
    if isinstance(tests, str):
        with suppress(ValueError, RecursionError):
            return json.loads(tests)
    return tests


def _found(program: str | None, wanted: str) -> Grade:
    if program is None:
        return Grade(0.0, "unparsable")
    right = program.strip() == wanted
    return Grade(float(right), "right" if right else "wrong", program)


def _graded(jobs: list[Job], output: Path, key: str, workers: int, name: str) -> list[dict[str, Any]]:
    """Rows of the output. They are written as they come under a name of their own, and renamed at the end."""
    partial, lock = (output.with_name(f".{output.name}.{end}") for end in (f"{key}.part", "lock"))
    try:
        with acquire(lock, str(output)):
            done = _write(jobs, partial, workers, name)
            os.replace(partial, output)
        lock.unlink(missing_ok=True)
    except OSError as error:
        raise disk_error(error, output) from error
    return done


def _write(jobs: list[Job], partial: Path, workers: int, name: str) -> list[dict[str, Any]]:
    from kappo.tracking import progress

    done = _done(partial, jobs)
    with open(partial, "w") as handle:
        handle.writelines(json.dumps(row) + "\n" for row in done)
        rest = _in_order(jobs[len(done) :], workers)
        for row in progress(rest, name, total=len(jobs), initial=len(done)):
            handle.write(json.dumps(row) + "\n")
            handle.flush()
            done.append(row)
    return done


def _done(partial: Path, jobs: list[Job]) -> list[dict[str, Any]]:
    """The rows that an interrupted grading of the same file and settings has written."""
    found: list[dict[str, Any]] = []
    if partial.is_file():
        for line, (id, _) in zip(partial.read_text().splitlines(), jobs, strict=False):
            try:
                row = json.loads(line)
            except ValueError:
                break
            if not isinstance(row, dict) or row.get("id") != id:
                break
            found.append(row)
    return found


def _in_order(jobs: list[Job], workers: int) -> Iterator[dict[str, Any]]:
    threads = ThreadPoolExecutor(workers)
    try:
        yield from threads.map(_row, jobs)
    finally:
        threads.shutdown(wait=True, cancel_futures=True)


def _row(job: Job) -> dict[str, Any]:
    id, run = job
    try:
        g = run()
    except UserError:
        raise
    except Exception as error:  # a fault of the grader is one row's crash, not the end of all
        g = Grade(0.0, "crash", tests=(f"{type(error).__name__}: {error}"[:300],))
    about = {"extracted": g.extracted, "tests": list(g.tests), "seconds": round(g.seconds, 4)}
    return {"id": id, "score": g.score, "verdict": g.verdict, **about}


def _summary(found: list[dict[str, Any]], rows: list[Row]) -> str:
    counts = Counter(row["verdict"] for row in found)
    seconds = np.array([row["seconds"] for row in found])
    scores = np.array([row["score"] for row in found])
    lines = [
        f"{len(found)} rows, mean score {scores.mean():.4f}; seconds a row: median {np.median(seconds):.3f}, "
        f"max {seconds.max():.2f} (id {found[int(seconds.argmax())]['id']})"
    ]
    lines += [f"  {name:10} {counts[name]:7}  {counts[name] / len(found):6.1%}" for name in VERDICTS]
    return "\n".join([*lines, *_agreement(found, rows)])


def _agreement(found: Iterable[dict[str, Any]], rows: Iterable[Row]) -> list[str]:
    """How many verdicts are what the column `expected` says, and which are not."""
    both = [(g, _truth(r.values)) for g, r in zip(found, rows, strict=True)]
    judged = [(g, expected) for g, expected in both if expected is not None]
    if not judged:
        return []
    differ = [g["id"] for g, expected in judged if (g["verdict"] == "right") != expected]
    shown = f": not {', '.join(differ[:20])}{', ...' if len(differ) > 20 else ''}" if differ else ""
    return [f"  as expected {len(judged) - len(differ)} of {len(judged)}{shown}"]


def _truth(values: Mapping[str, Any]) -> bool | None:
    return TRUTHS.get(str(values.get("expected")).lower())

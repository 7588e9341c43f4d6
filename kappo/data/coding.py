"""Programming problems with tests. A problem's answer is a JSON text that says how to run a program on them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from kappo.config import Plug
from kappo.data.private_tests import decode
from kappo.data.real import Candidate, RealData, level_of
from kappo.data.source import Row, Source, rows, unicode
from kappo.data.template import Template
from kappo.errors import UserError
from kappo.records import Problem
from kappo.rewards.code_tests import CodeTests

NOT_RUN = "with tests that cannot be run"
_SOUND: set[int] = set()
"""Hashes of answers whose tests were parsed: a stage loads its data more than once."""


def answer_of(mode: str, **parts: Any) -> str:
    """The answer's JSON text: its mode and what a program of that mode is tested with."""
    return json.dumps({"mode": mode, **parts}, ensure_ascii=False)


def check_tests(answer: str, where: str) -> None:
    """Raises UserError that names `where` for an answer whose tests no grader could run."""
    if hash(answer) not in _SOUND:
        CodeTests.parse(answer, where)
        _SOUND.add(hash(answer))


def metric_of(reward: Any) -> str:
    """`max` where a program earns the share of tests that it passes, `pass` where it earns 0 or 1."""
    return "max" if getattr(reward, "score", "pass_rate") == "pass_rate" else "pass"


def described(answer: str, width: int = 200) -> str:
    """An answer in short: the mode and the number of tests of a program, else the text itself."""
    try:
        parts = json.loads(answer)
    except (json.JSONDecodeError, RecursionError):
        parts = None
    if isinstance(parts, dict) and "mode" in parts:
        size = len(parts["tests"]) if "tests" in parts else len(re.findall(r"^\s*assert\b", parts["test"], re.M))
        name = parts.get("fn_name") or parts.get("entry_point")
        return f"{size} {'tests' if 'tests' in parts else 'asserts'}, mode {parts['mode']}" + (
            f", {name}" if name else ""
        )
    return answer if len(answer) <= width else f"{answer[:width]}... ({len(answer)} characters)"


def tests_of(value: Any, where: str) -> list[dict[str, str]]:
    """Tests with input and output as texts, other JSON values written out. Raises UserError for anything else."""
    if not isinstance(value, list) or not all(isinstance(t, dict) and {"input", "output"} <= set(t) for t in value):
        raise UserError(f"{where}: tests: expected a list of objects with input and output")
    return [
        {name: _text(test[name], f"{where}: tests[{i}].{name}") for name in ("input", "output")}
        for i, test in enumerate(value)
    ]


def _text(value: Any, what: str) -> str:
    try:
        return unicode(value if isinstance(value, str) else json.dumps(value), what)
    except TypeError:
        raise UserError(f"{what} = {str(value)[:60]!r}: expected text or a JSON value") from None


@dataclass(frozen=True, kw_only=True)
class CodingData(RealData):
    """since, before: only problems of these days, the second excluded; "" for no bound."""

    source: Source
    template: Template
    reward: Plug
    since: str = ""
    before: str = ""

    def __post_init__(self) -> None:
        for name in ("since", "before"):
            value = getattr(self, name)
            try:
                date.fromisoformat(value or "2000-01-01")
            except ValueError:
                raise ValueError(f"{name} = {value!r}: expected a day such as 2025-01-31, or ''") from None

    @property
    def metric(self) -> str:
        return metric_of(self.reward)

    def _fault(self, candidate: Candidate) -> str:
        if fault := super()._fault(candidate):
            return fault
        try:
            check_tests(candidate.problem.answer, candidate.where)
        except UserError:
            return NOT_RUN
        return ""

    def _inside(self, row: Row, column: str) -> bool:
        if not self.since and not self.before:
            return True
        day = row.day(column).isoformat()
        return (not self.since or day >= self.since) and (not self.before or day < self.before)

    def _filters(self) -> str:
        return f"{super()._filters()}, data.since = {self.since!r}, data.before = {self.before!r}"


@dataclass(frozen=True, kw_only=True)
class LeetCode(CodingData):
    """newfacade/LeetCodeDataset: `query` is the prompt, `test` a function check(candidate), `prompt` its imports."""

    def candidates(self) -> Iterator[Candidate | None]:
        """One for each row, None for those of other days."""
        for row in rows(self.source, self.path):
            if not self._inside(row, "estimated_date"):
                yield None
                continue
            test, entry = row.text("test"), row.text("entry_point").strip()
            parts = {"entry_point": entry, "test": test, "prompt": row.text("prompt")}
            answer = answer_of("leetcode", **parts) if test.strip() and entry else ""
            prompt = self.template.text({"problem": row.text("query")}) if row.text("query").strip() else ""
            level = level_of(row.text("difficulty"))
            question = row.text("problem_description") if prompt else ""
            yield Candidate(Problem(row.text("task_id"), prompt, answer, level), question, row.where)


@dataclass(frozen=True, kw_only=True)
class LiveCodeBench(CodingData):
    """livecodebench/code_generation_lite. The template's {format} is with_starter, which holds {starter_code}, or
    from_stdin. Public and private tests are one list, in this order.
    """

    with_starter: str
    from_stdin: str

    def candidates(self) -> Iterator[Candidate | None]:
        """One for each row, None for those of other days or levels, whose tests are not unpacked."""
        for row in rows(self.source, self.path):
            level = level_of(row.text("difficulty"))
            if not self._inside(row, "contest_date") or (self.levels and level not in self.levels):
                yield None
                continue
            question, starter = row.text("question_content"), row.text("starter_code")
            form = self.with_starter.replace("{starter_code}", starter) if starter.strip() else self.from_stdin
            prompt = self.template.text({"problem": question, "format": form})
            problem = Problem(row.text("question_id"), prompt, self._answer(row, starter), level)
            yield Candidate(problem, question, row.where)

    @staticmethod
    def _answer(row: Row, starter: str) -> str:
        where = f"{row.where} (question_id {row.text('question_id')})"
        public = _loaded(row.text("public_test_cases") or "[]", where, "public_test_cases")
        private = decode(row.text("private_test_cases") or "[]", where)
        tests = tests_of([*public, *private] if isinstance(public, list) else public, where)
        if not tests:
            return ""
        if not starter.strip():
            return answer_of("stdin", tests=tests)
        about = _loaded(row.text("metadata") or "{}", where, "metadata")
        name = about.get("func_name") if isinstance(about, dict) else None
        if not isinstance(name, str) or not name:
            raise UserError(f"{where} has starter code, but metadata without func_name: the row is broken")
        return answer_of("functional", fn_name=name, tests=tests)


def _loaded(text: str, where: str, column: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"{where}: {column} is not valid JSON ({error}): get the file again") from None

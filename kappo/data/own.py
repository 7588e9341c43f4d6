"""A user's own problems in one file: with answers or with tests, which its columns tell apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kappo.config import Plug
from kappo.data import files
from kappo.data.coding import answer_of, check_tests, metric_of, tests_of
from kappo.data.real import Candidate, Numbers, RealData, level_of
from kappo.data.source import Row
from kappo.data.template import Template
from kappo.errors import UserError
from kappo.records import Problem

PROMPTS = ("prompt", "problem", "question")
TESTS = ("tests", "test")


@dataclass(frozen=True)
class Kind:
    """How problems of one kind are put and graded."""

    template: Template
    reward: Plug


@dataclass(frozen=True, kw_only=True)
class Own(RealData):
    """Columns: prompt, problem or question; answer, or tests (with fn_name for calls), or test and entry_point, as in
    LeetCodeDataset; optional id and level. The kind that the first row's columns name is that of all rows.
    """

    answers: Kind
    programs: Kind

    @property
    def template(self) -> Template:
        return self._kind.template

    @property
    def reward(self) -> Any:
        return self._kind.reward

    @property
    def metric(self) -> str:
        return metric_of(self.reward) if self._tests else "pass"

    @property
    def _kind(self) -> Kind:
        return self.programs if self._tests else self.answers

    @cached_property
    def _tests(self) -> str:
        """The column of tests, "" for a file of answers."""
        first = next(self._rows(), None)
        if first is None:
            raise UserError(f"data.path = {self.path}: the file is empty")
        there = [name for name in (*TESTS, "answer") if name in first.values]
        if not there:
            first.value("answer")  # raises with the columns there are
        if "answer" in there and len(there) > 1:
            raise UserError(f"{first.where} has the columns {', '.join(there)}: expected answer or tests, not both")
        return "" if there == ["answer"] else there[0]

    def _rows(self) -> Iterator[Row]:
        if not self.path:
            raise UserError("data.path is not set: expected your file of problems, such as data.path=my.jsonl")
        for file in files.chosen(Path(self.path), self.split, [], ""):
            for number, values in files.records(file):
                yield Row(f"{file}, row {number}", values)

    def candidates(self) -> Iterator[Candidate | None]:
        """One for each row."""
        running = Numbers(f"{self.task}/", "", "")
        for row in self._rows():
            column = next((name for name in PROMPTS if name in row.values), PROMPTS[0])
            question, number = row.text(column), running.next(row)
            id = row.text("id").strip() if "id" in row.values else ""
            level = level_of(row.text("level")) if "level" in row.values else 0
            answer = _program_answer(row, self._tests) if self._tests else row.text("answer").strip()
            prompt = self.template.text({"problem": question})
            yield Candidate(Problem(id or number, prompt, answer, level), question, row.where)

    def _check(self, candidate: Candidate) -> None:
        if self._tests:
            check_tests(candidate.problem.answer, candidate.where)


def _program_answer(row: Row, column: str) -> str:
    """ "" for a row without tests."""
    if column == "test":
        test, entry = row.text("test"), row.text("entry_point").strip()
        return (
            answer_of("leetcode", entry_point=entry, test=test, prompt=_optional(row, "imports"))
            if test and entry
            else ""
        )
    value = row.value(column)
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except (json.JSONDecodeError, RecursionError) as error:
            raise UserError(f"{row.where}: {column} is not valid JSON ({error})") from None
    if not value:
        return ""
    tests, name = tests_of(value, row.where), _optional(row, "fn_name")
    return answer_of("functional", fn_name=name, tests=tests) if name else answer_of("stdin", tests=tests)


def _optional(row: Row, column: str) -> str:
    return row.text(column).strip() if column in row.values else ""

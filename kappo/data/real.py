"""What all real data sets share: from rows to problems; what is left out by the settings, what is dropped and why."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from kappo import streams
from kappo.config import within
from kappo.data.source import Row
from kappo.errors import UserError
from kappo.records import Problem

EMPTY_PROMPT, EMPTY_ANSWER, TOO_LONG = "without a prompt", "without an answer", "longer than data.max_prompt_chars"


@dataclass(frozen=True)
class Candidate:
    """A row as a problem. question: the bare text, without instructions, that tells problems apart."""

    problem: Problem
    question: str
    where: str


@dataclass(frozen=True)
class Selection:
    """Problems with their bare texts, in the order of the rows; counts of rows read, left out, dropped by reason."""

    problems: list[Problem]
    questions: list[str]
    read: int
    left_out: int
    dropped: Counter[str]
    repeated: int

    def report(self) -> str:
        """One line: how many were read, left out by the settings, dropped and why, repeated, and kept."""
        parts = [f"{self.read} rows"]
        if self.left_out:
            parts.append(f"{self.left_out} left out by data's settings")
        if self.dropped:
            reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(self.dropped.items()))
            parts.append(f"{self.dropped.total()} dropped ({reasons})")
        if self.repeated:
            parts.append(f"{self.repeated} with a prompt that came before (kept)")
        return "; ".join([*parts, f"{len(self.problems)} problems"])


@dataclass(frozen=True, kw_only=True)
class RealData:
    """problems: at most so many, the same ones whatever the seed and the order of rows. path: a folder or file instead
    of the source. levels: only these, [] for all. part: all rows, those held out for validation, or the others; a row
    is held out when a hash of its text says so, which takes validation_share of them and keeps equal texts together.
    """

    task: str
    split: str
    problems: int = within(at_least=1)
    path: str = ""
    levels: list[int] = field(default_factory=list)
    part: Literal["all", "train", "validation"] = "all"
    validation_share: float = within(0.1, above=0, below=1)
    max_prompt_chars: int = within(20_000, at_least=1)

    def candidates(self) -> Iterator[Candidate | None]:
        """One for each row, None where the settings leave it out."""
        raise NotImplementedError

    def load(self, seed: int) -> list[Problem]:
        """The problems, the same for every seed. Drops and repetitions are reported on stderr. Raises UserError."""
        selection = self.select()
        if selection.dropped or selection.repeated:
            print(f"data {self.task}/{self.split}: {selection.report()}", file=sys.stderr)
        return selection.problems

    def select(self) -> Selection:
        """The problems with what was left out and why. Raises UserError for two equal ids, for an answer that cannot be
        graded by, and when none is left.
        """
        read, dropped, kept, places = 0, Counter[str](), list[Candidate](), dict[str, str]()
        for candidate in self.candidates():
            read += 1
            if candidate is None or not self._wanted(candidate):
                continue
            problem, where = candidate.problem, candidate.where
            if problem.id in places:
                raise UserError(
                    f"{where} has the id {problem.id!r} of {places[problem.id]}: give each row an id of its own"
                )
            places[problem.id] = where
            reason = self._fault(candidate)
            if reason:
                dropped[reason] += 1
            else:
                kept.append(candidate)
        if not kept:
            self._refuse(read, dropped)
        left_out = read - len(kept) - dropped.total()
        left_out += max(0, len(kept) - self.problems)
        kept = self._first(kept)
        for candidate in kept:
            self._check(candidate)
        repeated = len(kept) - len({c.problem.prompt for c in kept})
        return Selection([c.problem for c in kept], [c.question for c in kept], read, left_out, dropped, repeated)

    def _check(self, candidate: Candidate) -> None:
        """Raises UserError for an answer that cannot be graded by."""

    def _wanted(self, candidate: Candidate) -> bool:
        if self.levels and candidate.problem.level not in self.levels:
            return False
        return self.part == "all" or held_out(candidate.question, self.validation_share) == (self.part == "validation")

    def _fault(self, candidate: Candidate) -> str:
        if not candidate.question.strip():
            return EMPTY_PROMPT
        if not candidate.problem.answer.strip():
            return EMPTY_ANSWER
        return TOO_LONG if len(candidate.problem.prompt) > self.max_prompt_chars else ""

    def _first(self, kept: list[Candidate]) -> list[Candidate]:
        """At most `problems` of them, those whose ids hash lowest, in the order of the rows."""
        if len(kept) <= self.problems:
            return kept
        ranks = {c.problem.id: streams.digest("kappo/data/first", c.problem.id) for c in kept}
        last = sorted(ranks.values())[self.problems - 1]
        return [c for c in kept if ranks[c.problem.id] <= last]

    def _refuse(self, read: int, dropped: Counter[str]) -> None:
        where = f"data {self.task}/{self.split}" + (f" (data.path = {self.path})" if self.path else "")
        if dropped:
            reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(dropped.items()))
            raise UserError(
                f"{where}: {read} rows, no usable problem: {reasons}. Check the columns that data's settings name, or "
                "raise data.max_prompt_chars"
            )
        if read:
            raise UserError(f"{where}: data's settings leave out all {read} rows: check {self._filters()}")
        raise UserError(f"{where}: no rows: the file or split is empty")

    def _filters(self) -> str:
        return f"data.levels = {self.levels} and data.part = {self.part}"


def held_out(question: str, share: float) -> bool:
    """Whether a problem belongs to validation: a function of its text alone, without regard to case and spaces."""
    words = " ".join(question.lower().split())
    return streams.digest("kappo/data/validation", words) < share * 2**64


def level_of(text: str) -> int:
    """`Level 5` and `5` -> 5, Easy, Medium, Hard -> 1, 2, 3; others 0."""
    names = {"easy": 1, "medium": 2, "hard": 3}
    number = re.fullmatch(r"(?:level\s*)?(\d+)", text.strip().lower())
    return int(number[1]) if number else names.get(text.strip().lower(), 0)


def slug(text: str) -> str:
    """`Counting & Probability` -> counting_and_probability."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower().replace("&", "and")).strip("_")


class Numbers:
    """Ids of rows: prefix, group and the row's number within it, or the prefix and a column's value."""

    def __init__(self, prefix: str, column: str, group: str):
        self.prefix, self.column, self.group, self.seen = prefix, column, group, Counter[str]()

    def next(self, row: Row) -> str:
        """Counts every row, those left out later, too, so that settings change no id."""
        if self.column:
            value = row.value(self.column)
            own = f"{value:02d}" if isinstance(value, int) else row.text(self.column).strip()
            return self.prefix + (own or _no_id(row, self.column))
        group = slug(row.text(self.group)) + "/" if self.group else ""
        self.seen[group] += 1
        return f"{self.prefix}{group}{self.seen[group] - 1:04d}"


def _no_id(row: Row, column: str) -> str:
    raise UserError(f"{row.where}: {column} is empty: expected an id")

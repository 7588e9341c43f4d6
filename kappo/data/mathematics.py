"""Mathematics with one final answer: MATH and its subsets, competitions, GSM8K and whatever has like columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kappo.config import Plug
from kappo.data.real import Candidate, Numbers, RealData, level_of
from kappo.data.source import Row, Source, rows
from kappo.data.template import Template
from kappo.errors import UserError
from kappo.records import Problem


@dataclass(frozen=True)
class Gold:
    """The right answer: the column as it is, as a whole number, its last boxed answer, or what follows `####`."""

    column: str
    kind: Literal["plain", "integer", "last_boxed", "after_hashes"] = "plain"

    def of(self, row: Row) -> str:
        """ "" where there is none. Raises UserError for a column of another type."""
        text = row.text(self.column).strip()
        if self.kind == "last_boxed":
            return last_boxed(text)
        if self.kind == "after_hashes":
            after = text.rpartition("####")
            return re.sub(r"(?<=\d),(?=\d)", "", after[2]).strip() if after[1] else ""
        if self.kind == "integer" and text:
            if not re.fullmatch(r"[+-]?\d+", text):
                raise UserError(
                    f"{row.where}: {self.column} = {text!r}: expected a whole number, or set data.gold.kind=plain"
                )
            return str(int(text))
        return text


def last_boxed(text: str) -> str:
    r"""What stands in the last \boxed{...} or \fbox{...}, or the one token behind \boxed; "" when there is none.

    Escaped braces close nothing.
    """
    found = [*re.finditer(r"\\(?:boxed|fbox)(?![A-Za-z])\s*", text)]
    if not found:
        return ""
    rest, depth = text[found[-1].end() :], 0
    if not rest.startswith("{"):
        token = re.match(r"\\?[A-Za-z]+|[-+]?[\d.,]*\d|\S", rest)
        return token[0] if token else ""
    for match in re.finditer(r"\\.|[{}]", rest, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return rest[1 : match.start()].strip()
    return ""


@dataclass(frozen=True, kw_only=True)
class Mathematics(RealData):
    """question, level, id_column, group_column: names of columns; "" for none. An id is id_prefix and the id_column, or
    id_prefix, the group and the row's number in it.
    """

    source: Source
    template: Template
    reward: Plug
    question: str
    gold: Gold
    level: str = ""
    id_prefix: str = ""
    id_column: str = ""
    group_column: str = ""
    metric: Literal["pass", "max"] = "pass"

    def candidates(self) -> Iterator[Candidate | None]:
        """One for each row."""
        numbers = Numbers(self.id_prefix, self.id_column, self.group_column)
        for row in rows(self.source, self.path):
            question = row.text(self.question)
            level = level_of(row.text(self.level)) if self.level else 0
            prompt = self.template.text({"problem": question.strip()})
            yield Candidate(Problem(numbers.next(row), prompt, self.gold.of(row), level), question, row.where)

"""The share of hidden tests that a two-branch program passes: the embedded programs' continuous reward."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kappo.records import Grade, Problem

PROGRAM = re.compile(r"([ab])([-+*])([ab]);([ab])([-+*])([ab])")


def run(program: re.Match[str], a: int, b: int) -> int:
    """The first branch where a < b, else the second; digits modulo 10."""
    x, sign, y = program.groups()[:3] if a < b else program.groups()[3:]
    left, right = (a if name == "a" else b for name in (x, y))
    return {"+": left + right, "-": left - right, "*": left * right}[sign] % 10


@dataclass(frozen=True)
class PassRate:
    """Score: passed tests / tests. Problem.answer holds tests such as `3,7=0 8,2=6`; verdict right when all pass."""

    def grade(self, problem: Problem, text: str) -> Grade:
        program = PROGRAM.fullmatch(text.strip())
        if program is None:
            return Grade(0.0, "unparsable")
        tests = problem.answer.split()
        passed = sum(run(program, int(t[0]), int(t[2])) == int(t[4]) for t in tests)
        return Grade(passed / len(tests), "right" if passed == len(tests) else "wrong")

"""The last boxed answer, compared as text: the embedded tasks' binary reward."""

from __future__ import annotations

from dataclasses import dataclass

from kappo.records import Grade, Problem

OPEN = "\\boxed{"


def last_boxed(text: str) -> str | None:
    """What stands between the braces of the last \\boxed{...}; None when there is none or it is not closed."""
    start = text.rfind(OPEN)
    if start < 0:
        return None
    depth, begin = 1, start + len(OPEN)
    for i in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[begin:i]
    return None


@dataclass(frozen=True)
class BoxedAnswer:
    """1 where the last boxed answer is the problem's answer, else 0; verdict right | wrong | unparsable."""

    def grade(self, problem: Problem, text: str) -> Grade:
        answer = last_boxed(text)
        if answer is None:
            return Grade(0.0, "unparsable")
        return Grade(1.0, "right") if answer.strip() == problem.answer else Grade(0.0, "wrong")

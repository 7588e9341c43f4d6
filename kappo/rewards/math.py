"""The mathematical answer's binary reward: exact rules first, the rest in workers that can be killed."""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from kappo.config import within
from kappo.errors import UserError
from kappo.records import Grade, Problem
from kappo.rewards.answers import LONGEST, final_answer, unbox
from kappo.rewards.comparison import NoFormulas, Undecided, equal
from kappo.rewards.notation import canonical
from kappo.rewards.pool import Question, pool
from kappo.rewards.structure import Shape, is_list, read

MOST_REMEMBERED = 100_000


class _Memory:
    """Verdicts of workers by (gold, found), the oldest dropped first."""

    def __init__(self) -> None:
        self.verdicts: OrderedDict[Question, str] = OrderedDict()
        self.lock = threading.Lock()

    def get(self, question: Question) -> str | None:
        with self.lock:
            return self.verdicts.get(question)

    def put(self, question: Question, verdict: str) -> None:
        with self.lock:
            self.verdicts[question] = verdict
            while len(self.verdicts) > MOST_REMEMBERED:
                self.verdicts.popitem(last=False)

    def new_lock(self) -> None:
        self.lock = threading.Lock()


_memory = _Memory()
os.register_at_fork(after_in_child=_memory.new_lock)


@dataclass(frozen=True)
class MathAnswer:
    """Score 1 where the completion's final answer is the problem's, as docs/grading_math.md says, else 0.

    seconds: limit of one answer that needs a worker; workers: processes that share them.
    """

    seconds: float = within(5.0, above=0, at_most=86_400)
    workers: int = within(2, at_least=1)

    def ready(self) -> None:
        """Raises UserError where the libraries that read formulas are not installed."""
        missing = [name for name in ("mpmath", "math_verify") if importlib.util.find_spec(name) is None]
        if missing:
            raise UserError(
                f"the math grader needs {' and '.join(missing)}, which this Python does not have: "
                "install kappo with its extra `train`"
            )

    def grade(self, problem: Problem, text: str) -> Grade:
        """One completion's grade. Never raises for what a completion holds."""
        return self.grade_many([(problem, text)])[0]

    def grade_many(self, pairs: Sequence[tuple[Problem, str]]) -> list[Grade]:
        """Grades in the order of the pairs; equal pairs of gold and found answer are decided once."""
        begun = [_exact(problem, text) for problem, text in pairs]
        open_questions = list(dict.fromkeys(question for question, grade in begun if grade.verdict == ""))
        known = {question: (verdict, 0.0) for question in open_questions if (verdict := _memory.get(question))}
        asked = [question for question in open_questions if question not in known]
        for question, (verdict, took) in zip(
            asked, pool(self.workers).ask_many(asked, self.seconds) if asked else [], strict=True
        ):
            known[question] = verdict, took
            if verdict in ("right", "wrong"):
                _memory.put(question, verdict)
        return [
            grade if grade.verdict else _grade(known[question][0], question[1], grade.seconds + known[question][1])
            for question, grade in begun
        ]


def _grade(verdict: str, found: str, seconds: float) -> Grade:
    return Grade(float(verdict == "right"), verdict, found, seconds=seconds)


@lru_cache(maxsize=4096)
def _gold(gold: str) -> tuple[Shape, bool]:
    """The gold's shape, and whether it is a list."""
    shape = read(canonical(gold[:LONGEST]))
    return shape, is_list(shape)


@lru_cache(maxsize=4096)
def gold_answer(answer: str) -> str:
    """A problem's answer; where it is a solution with a box, the content of its last box."""
    boxed = final_answer(answer) if "\\boxed" in answer or "\\fbox" in answer else None
    return unbox(answer).strip() if boxed is None else boxed


def _exact(problem: Problem, text: str) -> tuple[Question, Grade]:
    """What the exact rules say; verdict "" where only a worker can tell."""
    begun = time.perf_counter()
    gold = gold_answer(problem.answer)
    verdict, found = _settle(gold, text)
    return (gold, found), _grade(verdict, found, time.perf_counter() - begun)


def _settle(gold: str, text: str) -> tuple[str, str]:
    """(verdict or "", found answer)"""
    ours, many = _gold(gold)
    found = final_answer(text, many)
    if found is None:
        return "unparsable", ""
    if len(found) > LONGEST:
        return "wrong", found[:LONGEST]
    try:
        return "right" if equal(ours, read(canonical(found)), NoFormulas()) else "wrong", found
    except Undecided:
        return "", found
    except RecursionError:
        return "crash", found

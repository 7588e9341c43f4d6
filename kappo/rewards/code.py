"""The code reward: the share of a problem's tests that a program passes, run in a sandbox, judged outside."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from kappo.config import within
from kappo.records import Grade, Problem
from kappo.rewards.code_tests import CodeTests, Test
from kappo.rewards.outputs import same_text, same_value
from kappo.rewards.program import extract
from kappo.rewards.sandbox import Answer, Sandbox, SandboxBroken

FAULTS = ("error", "timeout", "output", "tampering")
"""What a test can say beside passed and wrong: it failed, took too long, wrote too much, reached
for its judge."""

_parsed = lru_cache(maxsize=256)(CodeTests.parse)


@dataclass(frozen=True)
class ProgramTests:
    """Problem.answer is a JSON text of tests (code_tests.py); a completion's program is graded by them.

    score: pass_rate is passed / tests, pass_fail 1 when all pass. Verdict right when all pass, timeout when the first
    test that fails ran out of time, unparsable without a program, crash when the sandbox failed, else wrong.
    """

    score: Literal["pass_rate", "pass_fail"] = "pass_rate"
    workers: int = within(2, at_least=1)
    sandbox: Sandbox = field(default_factory=Sandbox)

    def ready(self) -> None:
        """Raises UserError where no sandbox works, with what to install."""
        self.sandbox.command()

    def grade(self, problem: Problem, text: str) -> Grade:
        """Grade of the program in a completion. Raises UserError for tests that are none, or without a sandbox."""
        program = extract(text)
        if program is None:
            return Grade(0.0, "unparsable")
        return self.grade_program(_parsed(problem.answer, f"problem {problem.id}"), program)

    def grade_many(self, pairs: Sequence[tuple[Problem, str]]) -> list[Grade]:
        """Grades in the pairs' order, `workers` sandboxes at a time."""
        self.ready()
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(lambda pair: self.grade(*pair), pairs))

    def grade_program(self, tests: CodeTests, program: str) -> Grade:
        """Grade of a program's source."""
        began = time.perf_counter()
        try:
            words = self._words(tests, program)
        except SandboxBroken as broken:
            return Grade(0.0, "crash", program, (str(broken),), time.perf_counter() - began)
        passed = words.count("passed")
        first = next((word for word in words if word != "passed"), "")
        verdict = "right" if not first else "timeout" if first == "timeout" else "wrong"
        score = passed / len(words) if self.score == "pass_rate" else float(not first)
        return Grade(score, verdict, program, tuple(words), time.perf_counter() - began)

    def _words(self, tests: CodeTests, program: str) -> list[str]:
        request = {
            "mode": "stdin" if tests.mode == "stdin" else "call",
            "judge": "check" if tests.mode == "leetcode" else "",
            "source": program,
            "setup": tests.setup,
            "entry": tests.entry,
            "tests": [call for test in tests.tests for call in test.calls],
        }
        answers = iter(self.sandbox.run(request))
        found = [[next(answers) for _ in test.calls] for test in tests.tests]
        words = [_word(test, said, tests.mode) for test, said in zip(tests.tests, found, strict=True)]
        open_ = [i for i, word in enumerate(words) if word == "open"]
        for i, right in zip(open_, self._judge(tests, [(tests.tests[i], found[i]) for i in open_]), strict=True):
            words[i] = "passed" if right else "wrong"
        return words

    def _judge(self, tests: CodeTests, rows: Sequence[tuple[Test, list[Answer]]]) -> list[bool]:
        """Conditions that are no comparison with a literal, evaluated in a sandbox of their own without the program."""
        if not rows:
            return []
        asked = [
            {"expression": f"bool({test.condition})", "bindings": {f"value_{i}": v for i, (_, v) in enumerate(said)}}
            for test, said in rows
        ]
        request: dict[str, Any] = {"mode": "call", "source": "", "setup": tests.setup, "entry": "", "tests": asked}
        return [answer == ("value", True) for answer in self.sandbox.run(request)]


def _not_a_number(value: Any) -> bool:
    """NaN makes `not abs(value - 3) > 1e-5` true."""
    return isinstance(value, float) and value != value


def _word(test: Test, said: list[Answer], mode: str) -> str:
    fault = next((kind for kind, _ in said if kind not in ("text", "value")), "")
    if fault:
        return fault if fault in FAULTS else "error"
    if test.condition:
        return "wrong" if any(_not_a_number(value) for _, value in said) else "open"
    payload = said[0][1]
    try:
        if mode == "stdin":
            return "passed" if isinstance(payload, str) and same_text(payload, test.expected) else "wrong"
        return "passed" if same_value(payload, test.expected) else "wrong"
    except (TypeError, ValueError, ArithmeticError, RecursionError):
        return "wrong"

"""Hostile completions by the hundred: no grader breaks or passes its limit, and the next grading is right."""

import json
import random

import psutil
import pytest

from kappo.records import VERDICTS, Problem
from kappo.rewards.code import ProgramTests
from kappo.rewards.math import MathAnswer
from kappo.rewards.program import extract
from kappo.rewards.sandbox import Sandbox
from tests.rewards.boxes import needs_sandbox

pytestmark = pytest.mark.slow

GOLDS = ["5", r"\frac{1}{2}", r"x^2+1", r"\{1,2\}", "[0,1)", r"\text{yes}", r"\begin{pmatrix}1\\2\end{pmatrix}", "2:3"]
COMMANDS = r"frac sqrt boxed left right begin{matrix} end{matrix} pi infty sum int lim sin log binom pm cup in text{"
PIECES = [
    *"{}()[]^_&|,;:=<>+-*/!%$x y e 0 1 9 \n",
    "9^{9^9}",
    "10^{400}",
    r"\\",
    *(f"\\{c} " for c in COMMANDS.split(" ")),
]
MARGIN = 3.0
"""Seconds that a busy machine may add to a limit."""


def noise(rng, size):
    return "".join(chr(rng.choice((rng.randrange(1, 128), rng.randrange(0x110000)))) for _ in range(size))


def bytes_as_text(rng, size):
    return rng.randbytes(size).decode("latin-1")


def latex(rng, size):
    return "".join(rng.choice(PIECES) for _ in range(size))


def nested(rng, size):
    opening, closing = rng.choice(["{}", "()", "[]", (r"\sqrt{", "}"), (r"\frac{1}{", "}"), (r"\left(", r"\right)")])
    depth = rng.choice([200, 1_000, 10_000])
    return opening * depth + "5" + closing * rng.choice([depth, depth - 1, 0])


def huge(rng, size):
    return rng.choice(["9", "{", "(", r"\frac", "x+", "1,", " ", "=", "\n", r"\boxed{"]) * rng.choice([1_000, 100_000])


MAKERS = [noise, bytes_as_text, latex, latex, latex, nested, huge]


def texts(rng, count):
    for i in range(count):
        text = rng.choice(MAKERS)(rng, rng.randrange(1, 400))
        if i % 100 == 0:
            text = (text or "7") * (10_000_000 // max(len(text), 1))
        yield rng.choice([rf"\boxed{{{text}}}", rf"so \boxed{{{text}}} or so", text, f"the answer is {text}"])


def test_a_thousand_math_answers():
    rng, reward = random.Random(0), MathAnswer(seconds=2.0)
    memory = psutil.Process().memory_info().rss
    pairs = [(Problem(str(i), "", rng.choice(GOLDS)), text) for i, text in enumerate(texts(rng, 1000))]
    grades = [reward.grade(problem, text) for problem, text in pairs]
    assert {g.verdict for g in grades} <= set(VERDICTS)
    assert {"wrong", "unparsable"} <= {g.verdict for g in grades}
    assert max(g.seconds for g in grades) < reward.seconds + MARGIN
    assert sum(g.verdict == "crash" for g in grades) == 0
    del pairs
    assert psutil.Process().memory_info().rss - memory < 500 * 2**20
    assert reward.grade(Problem("p", "", r"\sqrt{8}+x"), r"\boxed{x+2\sqrt2}").verdict == "right"


def test_extraction_of_a_program_from_anything():
    rng = random.Random(1)
    for text in texts(rng, 300):
        spaces = ("x" + " " * 50_000, "```" + "\t" * 50_000 + "`", "```" * 1000, "```\n", "```python\n")
        for completion in (text, f"```python\n{text}\n```", *(before + text for before in spaces)):
            found = extract(completion)
            assert found is None or found.strip()


@needs_sandbox
def test_hundreds_of_programs_that_are_none():
    reward = ProgramTests(sandbox=Sandbox(seconds=2.0, total_seconds=4.0))
    rng = random.Random(2)
    tests = json.dumps({"mode": "stdin", "tests": [{"input": "1\n", "output": "5"}]})
    pairs = [(Problem(str(i), "", tests), f"```python\n{text}\n```") for i, text in enumerate(texts(rng, 300))]
    grades = reward.grade_many(pairs)
    assert {g.verdict for g in grades} <= {"wrong", "unparsable", "timeout"}
    assert max(g.seconds for g in grades) < reward.sandbox.total_seconds + MARGIN + 5
    assert reward.grade(Problem("p", "", tests), "```python\nprint(5)\n```").verdict == "right"

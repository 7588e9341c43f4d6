import json
import os
import pickle
import re
import threading
import time
from pathlib import Path

import pytest

from kappo.config import build
from kappo.errors import UserError
from kappo.records import Problem
from kappo.rewards import math
from kappo.rewards.answers import LONGEST
from kappo.rewards.base import grade_all, ready
from kappo.rewards.math import MathAnswer, gold_answer

CASES = [
    json.loads(line) for line in (Path(__file__).parents[1] / "golden" / "math_cases.jsonl").read_text().splitlines()
]
ROWS = os.environ.get("KAPPO_ROWS_DIR")
needs_rows = pytest.mark.skipif(not ROWS, reason="KAPPO_ROWS_DIR is not set: no rows of public data sets here")


def grade(gold, text, **settings):
    return MathAnswer(**settings).grade(Problem("p", "", gold), text)


def boxed(answer):
    return rf"\boxed{{{answer}}}"


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_golden_cases(case):
    begun = time.monotonic()
    if case.get("run_in_thread"):
        found = []
        thread = threading.Thread(target=lambda: found.append(grade(case["gold"], case["prediction"])))
        thread.start()
        thread.join()
    else:
        found = [grade(case["gold"], case["prediction"])]
    assert (found[0].score == 1.0) == case["expected"], found[0]
    assert found[0].verdict != "crash"
    assert time.monotonic() - begun < case.get("must_finish_s", 60)


POLICIES = [
    ("percent as a hundredth", "0.28", r"28\%", True),
    ("percent as a unit", "28", r"28\%", True),
    ("percent sign in the gold only", r"28\%", "0.28", True),
    ("no sign, factor 100", "28", "2800", False),
    ("rounded", r"\frac{100}{3}", "33.3", False),
    ("rounded gold", "33.3", r"\frac{100}{3}", False),
    ("ten digits", r"\frac{1}{3}", "0.3333333333", True),
    ("nine digits", r"\frac{1}{3}", "0.333333333", False),
    ("gold in scientific notation", r"8.7 \times 10^8", r"8.74 \times 10^8", True),
    ("gold of one digit", "7e37", "7.02e37", False),
    ("decimal gold", "0.36", "0.363", False),
    ("word pi", r"\frac{\pi}{2}", "pi/2", True),
    ("letters are positive", r"\frac{1}{\sqrt n}", r"\sqrt{1/n}", True),
    ("inequality for an interval", "(0,12.5)", "0<x<12.5", True),
    ("base left out", "2516_8", "2516", True),
    ("another base", "2516_8", "2516_9", False),
    ("member of a set of one", "5", r"x\in\{5\}", True),
    ("assignment", "5", "x=5", True),
    ("sum of letters", "25", "m+n=25", True),
    ("equation that is no assignment", "5", "2x=5", False),
    ("column as a tuple", r"\begin{pmatrix}1\\2\end{pmatrix}", "(1,2)", True),
    ("column as a row", r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}", False),
    ("list for a tuple, in order", "(1,2)", "1,2", True),
    ("list for a tuple, out of order", "(1,2)", "2,1", False),
    ("unit on one side", r"180\text{ miles}", "180", True),
    ("another unit", r"180\text{ miles}", r"180\text{ km}", False),
    ("power of a unit", r"6\text{ cm}^2", r"6\text{ cm}", False),
    ("ratio not reduced", "2:3", "4:6", True),
    ("ratio as a fraction", "2:3", r"\frac23", True),
    ("clock times are no ratios", "12:00", "1:00", False),
    ("choice with its value", "27", r"\textbf{(B)}\ 27", True),
    ("choice with another value", "27", r"\textbf{(B)}\ 28", False),
    ("case of words", r"\text{Evelyn}", "evelyn", True),
    ("case of letters", "x", "X", False),
    ("alternatives", "7", r"7 \text{ or } 8", False),
]


@pytest.mark.parametrize(("name", "gold", "answer", "right"), POLICIES, ids=[policy[0] for policy in POLICIES])
def test_policies(name, gold, answer, right):
    assert grade(gold, boxed(answer)).verdict == ("right" if right else "wrong")


def documented():
    """(kind, expected, gold, completion) of every example in the table of docs/grading_math.md."""
    lines = (Path(__file__).parents[2] / "docs" / "grading_math.md").read_text().splitlines()
    for line in lines:
        cells = line.strip("|").split(" | ")
        if line.startswith("| ") and len(cells) == 4 and cells[0].strip() != "kind":
            for expected, cell in ((True, cells[2]), (False, cells[3])):
                gold, found = re.findall(r"`([^`]*)`", cell)
                yield cells[0].strip(), expected, gold, found if re.search("boxed|answer", found) else boxed(found)


DOCUMENTED = list(documented())


@pytest.mark.parametrize(("kind", "expected", "gold", "text"), DOCUMENTED, ids=[f"{d[0]} {d[1]}" for d in DOCUMENTED])
def test_the_document_says_what_the_grader_does(kind, expected, gold, text):
    assert (grade(gold, text).score == 1.0) == expected


def test_the_document_names_every_kind_once():
    kinds = [kind for kind, expected, _, _ in DOCUMENTED if expected]
    assert len(kinds) == len(set(kinds)) > 60


@pytest.mark.parametrize(
    ("gold", "text", "verdict"),
    [
        ("7", "", "unparsable"),
        ("7", r"\boxed{7", "unparsable"),
        ("7", "x could be 7", "unparsable"),
        ("7", r"\boxed{}", "wrong"),
        ("7", "The answer is 7.", "right"),
        ("7", r"\boxed{7} \boxed{8}", "wrong"),
        ("3,5", r"$\boxed{5}$ and $\boxed{3}$", "right"),
        (r"so \boxed{\frac{1}{2}}", boxed("0.5"), "right"),
        ("025", boxed("25"), "right"),
        ("1", boxed("9" * (LONGEST + 1)), "wrong"),
    ],
)
def test_verdicts(gold, text, verdict):
    found = grade(gold, text)
    assert found.verdict == verdict
    assert found.score == float(verdict == "right")
    assert found.seconds >= 0


GARBAGE = {
    "surrogate": "\ud800", "nul": "4\0", "power tower": "9^{9^{9^{9^9}}}", "factorial": "(10^9)!",
    "digits": "9" * 20_000, "deep braces": "{" * 10_000 + "5" + "}" * 10_000, "deep brackets": "(" * 900 + ")" * 900,
    "matrix": r"\begin{pmatrix}" + "&".join("1" * 900) + r"\end{pmatrix}",
    "underbrace": r"\underbrace{x" * 150 + "}" * 150,
    "noise": "".join(map(chr, range(1, 256))).replace("{", "").replace("}", ""),
    "letters": "5" + "a" * 1_900 + "!",
    "functions": r"\sin" * 400, "commas": "," * 1_900, "list": ",".join("1" * 900), "signs": "-" * 1_900,
    "sum": r"\sum_{n=1}^{10^{100}} \frac{1}{n}", "integral": r"\int_0^{\infty} e^{-x^{x^x}} dx",
    "roots": r"\sqrt" * 350,
}  # fmt: skip


@pytest.mark.parametrize("name", GARBAGE)
def test_hostile_answers_end_in_time_and_are_not_right(name):
    begun = time.monotonic()
    found = grade("5", boxed(GARBAGE[name]), seconds=3.0)
    assert found.score == 0
    assert time.monotonic() - begun < 30
    assert grade("2", boxed(r"\sqrt 4")).verdict == "right"


def test_many_keep_their_order_and_equal_ones_are_asked_once(monkeypatch):
    asked = []

    class Counting:
        def ask_many(self, questions, seconds):
            asked.extend(questions)
            return [("right" if found.startswith("a") else "timeout", 0.5) for _, found in questions]

    monkeypatch.setattr(math, "pool", lambda size: Counting())
    monkeypatch.setattr(math, "_memory", math._Memory())
    pairs = [(Problem(str(k), "", r"\sqrt{17}"), boxed(text)) for k, text in enumerate(["ab+c", "3", "bc+1", "ab+c"])]
    pairs.append((Problem("n", "", "4"), boxed("4")))
    for _ in range(2):
        found = grade_all(MathAnswer(), pairs)
        assert [g.verdict for g in found] == ["right", "timeout", "timeout", "right", "right"]
    assert [found for _, found in asked] == ["ab+c", "3", "bc+1", "3", "bc+1"]


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(math, "MOST_REMEMBERED", 3)
    memory = math._Memory()
    for k in range(10):
        memory.put(("g", str(k)), "right")
    assert list(memory.verdicts) == [("g", "7"), ("g", "8"), ("g", "9")]


def test_settings():
    assert build(MathAnswer, {"seconds": 1, "workers": 3}) == MathAnswer(1.0, 3)
    with pytest.raises(UserError, match="seconds"):
        build(MathAnswer, {"seconds": 0})
    assert pickle.loads(pickle.dumps(MathAnswer(2.0))) == MathAnswer(2.0)


def test_ready_names_what_is_missing(monkeypatch):
    ready(MathAnswer())
    monkeypatch.setattr(math.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"mpmath and math_verify.*extra `train`"):
        ready(MathAnswer())


def rows(name):
    return [json.loads(line) for line in (Path(ROWS or ".") / name).read_text().splitlines()]


def golds(name):
    column = "answer"
    if name.startswith("math_t"):
        return [gold_answer(row["solution"]) for row in rows(name)]
    return [str(row[column]).rpartition("#### ")[2] for row in rows(name)]


FILES = [
    "math_train/train.jsonl", "math_test_level5/test.jsonl", "math500/test.jsonl", "aime_2024/train.jsonl",
    "aime_2025/train.jsonl", "aime_2026/train.jsonl", "hmmt_feb_2025/train.jsonl", "minerva_math/test.jsonl",
    "deepscaler/train.jsonl", "gsm8k/test.jsonl",
]  # fmt: skip
EQUAL_NEIGHBOURS = {("5", "x=5"), ("1950", r"1950^\circ C"), ("8", r"8\text{ months}"), ("1", "1:1")}
"""Different golds of neighbouring rows that say the same under the policies."""


@needs_rows
@pytest.mark.parametrize("name", FILES)
def test_golds_are_right_for_themselves_and_wrong_for_others(name):
    found = golds(name)
    same = [(Problem("p", "", gold), boxed(gold)) for gold in found]
    assert {g.verdict for g in grade_all(MathAnswer(), same)} == {"right"}
    others = [(found[k], found[(k + step) % len(found)]) for step in (1, 2, 3) for k in range(len(found))]
    others = [pair for pair in others if pair[0] != pair[1]]
    grades = grade_all(MathAnswer(), [(Problem("p", "", gold), boxed(other)) for gold, other in others])
    assert {pair for pair, g in zip(others, grades, strict=True) if g.verdict != "wrong"} <= EQUAL_NEIGHBOURS


@needs_rows
@pytest.mark.parametrize("name", FILES[:2])
def test_solutions_are_right_for_their_own_answers(name):
    solutions = [row["solution"] for row in rows(name)]
    grades = grade_all(MathAnswer(), [(Problem("p", "", text), text) for text in solutions])
    assert sum(g.score for g in grades) / len(grades) >= 0.995

"""Programs graded end to end: given cases, near misses of each kind, and real solutions with and without a fault."""

import ast
import json
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from kappo.errors import UserError
from kappo.records import Problem
from kappo.rewards import sandbox
from kappo.rewards.code import ProgramTests
from kappo.rewards.code_tests import from_columns
from kappo.rewards.program import extract
from kappo.rewards.sandbox import Sandbox
from tests.rewards.boxes import needs_sandbox

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = [json.loads(line) for line in (GOLDEN / "code_cases.jsonl").read_text().splitlines()]
VARIANTS = [json.loads(line) for line in (GOLDEN / "code_variants.jsonl").read_text().splitlines()]
ROWS = os.environ.get("KAPPO_ROWS_DIR")
needs_rows = pytest.mark.skipif(not ROWS, reason="KAPPO_ROWS_DIR is not set: no rows of public data sets here")
ENDLESS = ("infinite_loop", "fork_bomb")
"""Kinds whose verdict does not depend on how long they may run."""
EITHER = ("code-038",)
"""Cases whose score may be either; the grader survives."""
ADD = json.dumps({"mode": "stdin", "tests": [{"input": "1 2", "output": "3"}, {"input": "2 2", "output": "4"}]})
RIGHT = "print(sum(map(int, input().split())))"


pytestmark = needs_sandbox


def limits(case):
    seconds = case.get("seconds", 0.4 if case["kind"] in ENDLESS else None)
    return Sandbox() if seconds is None else Sandbox(seconds=seconds, total_seconds=10 * seconds)


@pytest.mark.parametrize("case", CASES + VARIANTS, ids=[case["id"] for case in CASES + VARIANTS])
def test_cases(case):
    if case["mode"] == "extract":
        found = extract(case["completion"])
        assert (found.strip() if found else found) == case["expected_code"]
        return
    grader = ProgramTests(sandbox=limits(case))
    grade = grader.grade_program(from_columns(case, case["id"]), case["solution"])
    assert grade.verdict != "crash"
    if case["id"] not in EITHER:
        assert (grade.score == 1.0, grade.score) == (case["expected"], pytest.approx(case["pass_rate"])), grade
    assert grade.verdict == "right" or grade.score < 1


def test_every_kind_has_new_cases():
    kinds = Counter(case["kind"] for case in VARIANTS)
    assert all(kinds[case["kind"]] >= 3 for case in CASES)
    known = {case.get("solution", case.get("completion")) for case in CASES}
    assert not [case["id"] for case in VARIANTS if case.get("solution", case.get("completion")) in known]


@pytest.mark.parametrize(
    ("text", "verdict", "score", "tests"),
    [
        (f"```python\n{RIGHT}\n```", "right", 1.0, ("passed", "passed")),
        ("```python\nprint(3)\n```", "wrong", 0.5, ("passed", "wrong")),
        ("```python\nprint(0)\n```", "wrong", 0.0, ("wrong", "wrong")),
        ("```python\n1/0\n```", "wrong", 0.0, ("error", "error")),
        ("```python\nprint('x' * 10**8)\n```", "wrong", 0.0, ("output", "output")),
        ("```python\nimport os\nos.getppid()\n```", "wrong", 0.0, ("tampering", "tampering")),
        ("```python\na, b = map(int, input().split())\nwhile a == 1: pass\nprint(a + b)\n```", "timeout", 0.5, None),
        ("```python\na, b = map(int, input().split())\nwhile a == 2: pass\nprint(0)\n```", "wrong", 0.0, None),
        ("I do not know.", "unparsable", 0.0, ()),
        ("", "unparsable", 0.0, ()),
    ],
)
def test_verdicts(text, verdict, score, tests):
    found = ProgramTests(sandbox=Sandbox(seconds=1.0)).grade(Problem("p", "", ADD), text)
    assert (found.verdict, found.score) == (verdict, score)
    assert tests is None or found.tests == tests
    assert found.seconds >= 0


def test_pass_fail_is_all_or_nothing():
    grader = ProgramTests(score="pass_fail")
    assert grader.grade(Problem("p", "", ADD), f"```python\n{RIGHT}\n```").score == 1.0
    assert grader.grade(Problem("p", "", ADD), "```python\nprint(3)\n```").score == 0.0


def test_many_keep_their_order():
    problem = Problem("p", "", ADD)
    texts = [f"```python\nimport time\ntime.sleep({(5 - k) / 20})\nprint({k})\n```" for k in range(6)]
    found = ProgramTests(workers=3).grade_many([(problem, text) for text in texts])
    assert [grade.score for grade in found] == [0, 0, 0, 0.5, 0.5, 0]
    assert [f"print({k})" in grade.extracted for k, grade in enumerate(found)] == [True] * 6


def test_the_grade_does_not_depend_on_the_run():
    problem, text = Problem("p", "", ADD), "```python\nprint(len({*'abc'}), id(0) and hash('a') % 7)\n```"
    assert len({ProgramTests().grade(problem, text) for _ in range(3)}) == 1


def test_broken_tests_name_the_problem():
    with pytest.raises(UserError, match=r"problem p7.*no JSON"):
        ProgramTests().grade(Problem("p7", "", "{"), f"```python\n{RIGHT}\n```")


def test_all_tests_together_have_a_limit():
    tests = [{"input": str(k), "output": "1"} for k in range(40)]
    grader = ProgramTests(sandbox=Sandbox(seconds=1.0, total_seconds=1.5))
    begun = time.monotonic()
    found = grader.grade_program(from_columns({"mode": "stdin", "tests": tests}, "p"), "while True: pass")
    assert (found.verdict, found.tests) == ("timeout", ("timeout",) * 40)
    assert time.monotonic() - begun < 15


def test_a_program_may_use_its_seconds_in_each_call():
    """The processor time of one process that answers many tests is no limit of one test."""
    tests = [{"input": "1", "output": "1"}] * 6
    source = (
        "import time\ndef f(n):\n    until = time.process_time() + 0.4\n    while time.process_time() < until: pass\n"
    )
    columns = {"mode": "functional", "fn_name": "f", "tests": tests}
    grader = ProgramTests(sandbox=Sandbox(seconds=0.95, total_seconds=60.0))
    assert grader.grade_program(from_columns(columns, "p"), source + "    return n").score == 1.0


@pytest.mark.parametrize("kind", ["value", "text", "passed", "ready", "renew"])
@pytest.mark.parametrize("payload", ['{"kappo": "dict", "items": [[1]]}', '{"kappo": []}', "1e999", "[" * 5000])
def test_forged_answers_do_not_reach_a_score(kind, payload):
    test = "def check(candidate):\n    assert candidate(1) == [8]\n    assert candidate(2) in [[8], 9]\n"
    source = f"import json\njson.dumps = lambda *a, **k: '[\"{kind}\", {payload}]'\ndef f(n): return 7"
    columns = {"mode": "leetcode", "entry_point": "f", "test": test}
    found = ProgramTests().grade_program(from_columns(columns, "p"), source)
    assert (found.score, found.verdict) == (0.0, "wrong")


def test_broken_answers_are_no_fault_of_the_grader(monkeypatch):
    """What a program could write by way of its sandbox's own pipe."""
    stdin = {"mode": "stdin", "tests": [{"input": "1", "output": "1"}]}
    called = {"mode": "functional", "fn_name": "f", "tests": [{"input": "1", "output": "[null]"}]}
    for said in (
        ("text", 5),
        ("value", "1"),
        ("value", {}),
        ("value", [{}]),
        ("value", [{"kappo": "list_node"}]),
        ("", 0),
    ):
        monkeypatch.setattr(Sandbox, "run", lambda self, request, said=said: [said])
        for columns in (stdin, called):
            found = ProgramTests().grade_program(from_columns(columns, "p"), "print(1)")
            right = said == (("value", "1") if columns is stdin else ("value", [{"kappo": "list_node"}]))
            assert found.verdict in (("right", "wrong") if right else ("wrong",))


def test_nobody_s_equality_decides():
    """Were expected values compared inside, an object that equals all would pass; a plain one with its value does."""
    test = "def check(candidate):\n    assert candidate() == 5\n    assert candidate() in [5]\n"
    tests = from_columns({"mode": "leetcode", "entry_point": "f", "test": test}, "p")
    sly = "class E(int):\n    def __eq__(s, o): return True\n    __hash__ = int.__hash__\ndef f(): return E(5)"
    plain = "class E(int): pass\ndef f(): return E(5)"
    assert ProgramTests().grade_program(tests, sly).score == 0.0
    assert ProgramTests().grade_program(tests, plain).score == 1.0


def test_expected_outputs_never_go_in(monkeypatch):
    sent = []
    monkeypatch.setattr(Sandbox, "run", lambda self, request: sent.append(request) or [("value", 0)])
    secret = 918273645
    for columns in (
        {"mode": "stdin", "tests": [{"input": "1", "output": str(secret)}]},
        {"mode": "functional", "fn_name": "f", "tests": [{"input": "1", "output": str(secret)}]},
        {"mode": "leetcode", "entry_point": "f", "test": f"def check(candidate):\n    assert candidate(1) == {secret}"},
        {
            "mode": "leetcode",
            "entry_point": "f",
            "test": f"def check(candidate):\n    assert is_same_list(candidate(1), list_node([{secret}]))",
        },
        {
            "mode": "leetcode",
            "entry_point": "f",
            "test": f"def check(candidate):\n    assert candidate(1) in [{secret}]",
        },
    ):
        ProgramTests().grade_program(from_columns(columns, "p"), "def f(n): return 0")
    holding = [request for request in sent if request["source"]]
    assert len(holding) == 5
    assert not [request for request in holding if str(secret) in json.dumps(request)]
    assert [request["source"] for request in sent if str(secret) in json.dumps(request)] == [""]


def test_a_backend_that_dies_is_a_crash(monkeypatch):
    monkeypatch.setattr(sandbox, "_working", lambda box: ["/bin/sh", "-c", "echo out of order >&2; exit 3"])
    found = ProgramTests().grade(Problem("p", "", ADD), f"```python\n{RIGHT}\n```")
    assert (found.verdict, found.score) == ("crash", 0.0)
    assert "out of order" in found.tests[0]


def leetcode_rows():
    for path in sorted(Path(ROWS or ".").glob("leetcode/*.jsonl")):
        yield from map(json.loads, path.read_text().splitlines())


def loaded(row, count):
    """The first `count` of the row's tests."""
    tests = from_columns({"mode": "leetcode", **row}, row["task_id"])
    return type(tests)(tests.mode, tests.tests[:count], tests.setup, tests.entry)


@needs_rows
@pytest.mark.slow
def test_reference_solutions_are_right():
    begun, count, faults = time.monotonic(), 0, []
    for row in leetcode_rows():
        found = ProgramTests(sandbox=Sandbox(seconds=20.0, total_seconds=120.0)).grade_program(
            loaded(row, None), row["completion"]
        )
        count += 1
        faults += [] if found.score == 1.0 else [(row["task_id"], found.score, Counter(found.tests))]
    print(f"{count} reference solutions in {time.monotonic() - begun:.1f} s")
    assert count > 0
    assert not faults


FLIPPED = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr, ast.LShift: ast.Add, ast.RShift: ast.LShift,
}  # fmt: skip


def mutated(source: str, chance: random.Random) -> str | None:
    """The source with one operator turned round, None where it has none."""
    tree = ast.parse(source)
    places = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in FLIPPED:
            places.append((node, "ops"))
        elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in FLIPPED:
            places.append((node, "op"))
    if not places:
        return None
    node, field = chance.choice(places)
    if field == "ops":
        node.ops[0] = FLIPPED[type(node.ops[0])]()
    else:
        node.op = FLIPPED[type(node.op)]()
    return ast.unparse(tree)


@needs_rows
@pytest.mark.slow
def test_mutated_reference_solutions_are_mostly_not_right():
    chance, scores = random.Random(0), []
    grader = ProgramTests(sandbox=Sandbox(seconds=2.0, total_seconds=4.0))
    for row in leetcode_rows():
        source = mutated(row["completion"], chance)
        if source is not None:
            scores.append(grader.grade_program(loaded(row, 40), source).score)
    caught = sum(score < 1 for score in scores)
    print(f"{caught} of {len(scores)} mutated solutions score below 1, mean {sum(scores) / len(scores):.3f}")
    assert caught >= 0.8 * len(scores)

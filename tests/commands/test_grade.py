import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kappo import folders
from kappo.cli import main
from kappo.commands.grade import Row, _code_job, _done, grade
from kappo.errors import UserError
from kappo.rewards.math import MathAnswer
from tests.data.made import write_lines
from tests.rewards.boxes import needs_sandbox

MATH = [
    {"id": "a", "prediction": r"so \boxed{0.5}", "gold": r"\frac12", "expected": True},
    {"id": "b", "completion": r"so \boxed{6}", "answer": 5, "expected": "false"},
    {"id": "a", "prediction": "I give up", "gold": "5", "expected": True},
]
SUM = [{"input": "1 2\n", "output": "3\n"}, {"input": "2 2\n", "output": "4\n"}]


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["grade", *map(str, arguments)])
    return ended.value.code, *capsys.readouterr()


def written(path: Path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_math_rows_keep_their_order_and_the_summary_counts(capsys, tmp_path):
    file, out = write_lines(tmp_path / "in.jsonl", MATH), tmp_path / "new" / "out.jsonl"
    code, said, _ = run(capsys, "math", file, "-o", out)
    assert code == 0
    rows = written(out)
    assert [(r["id"], r["score"], r["verdict"], r["extracted"]) for r in rows] == [
        ("a", 1.0, "right", "0.5"),
        ("b", 0.0, "wrong", "6"),
        ("a", 0.0, "unparsable", ""),
    ]
    assert all(set(r) == {"id", "score", "verdict", "extracted", "tests", "seconds"} for r in rows)
    assert "3 rows, mean score 0.3333" in said
    assert "as expected 2 of 3: not a" in said
    assert list(out.parent.iterdir()) == [out]


def test_parquet_and_row_numbers_as_ids(capsys, tmp_path):
    rows = [{"completion": r"\boxed{7}", "solution": r"It is \boxed{7}."}, {"completion": "", "solution": "7"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    assert run(capsys, "math", tmp_path / "in.parquet", "-o", tmp_path / "out.jsonl")[0] == 0
    assert [(r["id"], r["verdict"]) for r in written(tmp_path / "out.jsonl")] == [("1", "right"), ("2", "unparsable")]


def test_limit(capsys, tmp_path):
    file = write_lines(tmp_path / "in.jsonl", MATH)
    run(capsys, "math", file, "-o", tmp_path / "out.jsonl", "--limit", 2)
    assert len(written(tmp_path / "out.jsonl")) == 2


def test_strict_is_about_timeouts_and_crashes_only(capsys, tmp_path):
    file, out = write_lines(tmp_path / "in.jsonl", MATH), tmp_path / "out.jsonl"
    assert run(capsys, "math", file, "-o", out, "--strict")[0] == 0
    slow = [{"id": "s", "prediction": r"\boxed{\sum_{n=1}^{10^9} \frac{1}{n^{2.5}}}", "gold": r"\sqrt{2}^{\sqrt{3}}"}]
    file = write_lines(tmp_path / "slow.jsonl", [*MATH, *slow])
    limits = ["--seconds", "1e-6", "--workers", 1]
    code, said, complaint = run(capsys, "math", file, "-o", out, "--strict", *limits)
    assert [r["verdict"] for r in written(out)][3] == "timeout"
    assert code == 1
    assert "25.0% of 4 gradings are timeouts or crashes, above --max-failed 0.01" in complaint
    assert "timeout          1   25.0%" in said
    assert run(capsys, "math", file, "-o", out, "--strict", "--max-failed", 0.25, *limits)[0] == 0
    assert run(capsys, "math", file, "-o", out, *limits)[0] == 0


def test_a_fault_of_the_grader_is_one_rows_crash(capsys, tmp_path, monkeypatch):
    def graded_once(self, problem, text):
        raise ArithmeticError("boom")

    monkeypatch.setattr(MathAnswer, "grade", graded_once)
    file, out = write_lines(tmp_path / "in.jsonl", MATH), tmp_path / "out.jsonl"
    assert run(capsys, "math", file, "-o", out)[0] == 0
    assert [r["tests"] for r in written(out)] == [["ArithmeticError: boom"]] * 3


def test_an_interrupted_grading_goes_on(capsys, tmp_path, monkeypatch):
    graded, real = [], MathAnswer.grade

    def graded_once(self, problem, text):
        if len(graded) == 2:
            raise KeyboardInterrupt
        graded.append(problem.id)
        return real(self, problem, text)

    file, out = write_lines(tmp_path / "in.jsonl", MATH), tmp_path / "out.jsonl"
    monkeypatch.setattr(MathAnswer, "grade", graded_once)
    assert run(capsys, "math", file, "-o", out, "--workers", 1)[0] == 130
    assert not out.exists()
    monkeypatch.setattr(MathAnswer, "grade", lambda self, p, t: graded.append("later") or real(self, p, t))
    assert run(capsys, "math", file, "-o", out, "--workers", 1)[0] == 0
    assert graded == ["a", "b", "later"]
    assert [r["verdict"] for r in written(out)] == ["right", "wrong", "unparsable"]
    assert set(tmp_path.iterdir()) == {file, out}


def test_one_writer_an_output(tmp_path, monkeypatch):
    file, out = write_lines(tmp_path / "in.jsonl", MATH), tmp_path / "out.jsonl"
    monkeypatch.setattr(folders.acquire, "__defaults__", (0.1,))
    with (
        folders.acquire(tmp_path / ".out.jsonl.lock", "it"),
        pytest.raises(UserError, match=r"out\.jsonl is being written by pid"),
    ):
        grade(["math", str(file), "-o", str(out)])


def test_the_completions_are_not_written_over(tmp_path):
    file = write_lines(tmp_path / "in.jsonl", MATH)
    os.mkfifo(tmp_path / "pipe")
    for output in (tmp_path / "pipe", file, tmp_path / "x" / ".." / "in.jsonl", tmp_path):
        with pytest.raises(UserError, match="expected a file to write"):
            grade(["math", str(file), "-o", str(output)])


def test_rows_of_other_settings_are_not_taken_over(tmp_path):
    (tmp_path / "x.part").write_text('{"id": "a", "n": 1}\n{"id": "z"}\n{"id": "c"}\n')
    jobs = [(id, None) for id in "abc"]
    assert _done(tmp_path / "x.part", jobs) == [{"id": "a", "n": 1}]
    (tmp_path / "x.part").write_text('{"id": "a"}\n{"id": ')
    assert _done(tmp_path / "x.part", jobs) == [{"id": "a"}]
    assert _done(tmp_path / "none", jobs) == []


@pytest.mark.parametrize(
    ("kind", "row", "message"),
    [
        ("math", {"gold": "5"}, r"row 2: no prediction or completion; its columns are gold"),
        ("math", {"prediction": "5", "gold": None}, r"row 2: no gold or answer or solution"),
        ("math", {"prediction": ["5"], "gold": "5"}, r'row 2: prediction = \["5"\]: expected a text'),
        ("math", {"prediction": "5", "gold": " "}, r"row 2: its gold answer is empty"),
        ("math", {"prediction": "5", "gold": float("nan")}, r"row 2: gold = NaN: expected a text"),
        ("math", {"prediction": "5", "gold": True}, r"row 2: gold = true: expected a text"),
        ("code", {"solution": "print(1)"}, r"row 2: mode stdin needs tests"),
        ("code", {"solution": "print(1)", "mode": "sql", "tests": SUM}, r"row 2: mode = 'sql': expected stdin"),
        ("code", {"tests": SUM}, r"row 2: no solution or completion"),
        ("code", {"solution": "x", "tests": "[1"}, r"row 2: tests\[0\]"),
        ("code", {"mode": "extract", "completion": "x"}, r"row 2: no expected_code"),
    ],
)
def test_bad_rows_are_named_before_anything_is_graded(tmp_path, kind, row, message):
    good = MATH[0] if kind == "math" else {"solution": "print(3)", "tests": SUM}
    file = write_lines(tmp_path / "in.jsonl", [good, row])
    with pytest.raises(UserError, match=message):
        grade([kind, str(file), "-o", str(tmp_path / "out.jsonl")])
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-failed", "2"], "--max-failed 2"),
        (["--limit", "0"], "--limit 0"),
        (["--seconds", "0"], "seconds = 0"),
        (["--seconds", "1e10"], "seconds = 10000000000"),
        (["--total-seconds", "0"], "--total-seconds is for `kappo grade code`"),
        (["--workers", "0"], "workers = 0"),
        (["--score", "pass_fail"], "--score is for `kappo grade code`"),
    ],
)
def test_bad_options(tmp_path, arguments, message):
    file = write_lines(tmp_path / "in.jsonl", MATH)
    with pytest.raises(UserError, match=message):
        grade(["math", str(file), "-o", str(tmp_path / "out.jsonl"), *arguments])


def test_an_empty_or_missing_file(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UserError, match="has no rows"):
        grade(["math", str(tmp_path / "empty.jsonl"), "-o", str(tmp_path / "out.jsonl")])
    with pytest.raises(UserError, match="no such file"):
        grade(["math", str(tmp_path / "none.jsonl"), "-o", str(tmp_path / "out.jsonl")])


def test_extraction_needs_no_sandbox(tmp_path):
    rows = [
        {
            "mode": "extract",
            "completion": "```python\nprint(1)\n```\nor\n```python\nprint(2)\n```",
            "expected_code": code,
        }
        for code in ("print(2)", "print(1)")
    ]
    jobs = [_code_job(None, Row("r", row), i) for i, row in enumerate(rows)]
    assert [job().verdict for _, job in jobs] == ["right", "wrong"]


@needs_sandbox
def test_programs(capsys, tmp_path):
    rows = [
        {"id": 1, "solution": "a, b = map(int, input().split())\nprint(a + b)", "tests": SUM, "expected": True},
        {"id": 2, "completion": "Here:\n```python\nprint(3)\n```", "mode": "stdin", "tests": json.dumps(SUM)},
        {"id": 3, "completion": "no idea", "tests": SUM, "expected": False},
        {"id": 4, "solution": "def f(x):\n    return x + 1", "fn_name": "f", "tests": [{"input": "1", "output": "2"}]},
        {"id": 5, "solution": "class Solution:\n    def f(self, x):\n        return x + 1",
         "entry_point": "Solution().f",
         "test": "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(2) == 4"},
    ]  # fmt: skip
    file, out = write_lines(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    code, said, _ = run(capsys, "code", file, "-o", out)
    assert code == 0
    found = [(r["score"], r["verdict"], r["tests"]) for r in written(out)]
    assert found == [
        (1.0, "right", ["passed", "passed"]),
        (0.5, "wrong", ["passed", "wrong"]),
        (0.0, "unparsable", []),
        (1.0, "right", ["passed"]),
        (0.5, "wrong", ["passed", "wrong"]),
    ]
    assert written(out)[1]["extracted"].strip() == "print(3)"
    assert "as expected 2 of 2" in said
    assert run(capsys, "code", file, "-o", out, "--score", "pass_fail")[0] == 0
    assert [r["score"] for r in written(out)] == [1.0, 0.0, 0.0, 1.0, 0.0]

import json

import pytest

from kappo.data.coding import described, metric_of
from kappo.errors import UserError
from tests.data.made import CALLS, STDIN, Stub, data, encoded, leetcode_row, livecodebench_row, write_lines


def load(tmp_path, name, made, *settings):
    return data(name, f"path={write_lines(tmp_path / 'rows.jsonl', made)}", *settings).load(0)


def test_a_leetcode_problem(tmp_path):
    (problem,) = load(tmp_path, "leetcode_train", [leetcode_row()])
    assert (problem.id, problem.level, problem.prompt) == ("add-two", 2, leetcode_row()["query"])
    assert json.loads(problem.answer) == {
        "mode": "leetcode",
        "entry_point": "Solution().add",
        "test": leetcode_row()["test"],
        "prompt": "from typing import *\n",
    }


def test_leetcode_cut_by_date_and_validation_split(tmp_path):
    made = [leetcode_row(f"p{i}", estimated_date=f"2024-{1 + i % 12:02d}-01") for i in range(120)]
    train, test = (load(tmp_path, name, made) for name in ("leetcode_train", "leetcode_test"))
    months = {f"p{i}": 1 + i % 12 for i in range(120)}
    assert {months[p.id] for p in train} == set(range(1, 8))
    assert {months[p.id] for p in test} == set(range(8, 13))
    part, validation = (load(tmp_path, name, made) for name in ("leetcode_train_part", "leetcode_validation"))
    assert validation
    assert sorted(p.id for p in part + validation) == sorted(p.id for p in train)
    only = load(tmp_path, "leetcode_train", made, "since=2024-03-01", "before=2024-04-01")
    assert {months[p.id] for p in only} == {3}


def test_leetcode_rows_without_tests_are_dropped(tmp_path, capsys):
    made = [
        leetcode_row("a"),
        leetcode_row("b", test=""),
        leetcode_row("c", entry_point=None),
        leetcode_row("d", query=""),
    ]
    assert [p.id for p in load(tmp_path, "leetcode_train", made)] == ["a"]
    assert "3 dropped (1 without a prompt, 2 without an answer)" in capsys.readouterr().err


def test_a_stdin_problem_has_public_and_private_tests_in_order(tmp_path):
    (problem,) = load(tmp_path, "livecodebench", [livecodebench_row()])
    assert (problem.id, problem.level) == ("abc1_d", 3)
    inputs = ["1 2\n", "5 6\n", "7 8\n"]
    assert json.loads(problem.answer) == {"mode": "stdin", "tests": [{"input": i, "output": "3\n"} for i in inputs]}
    assert problem.prompt.startswith(
        "### Question:\nAdd what you are given (abc1_d).\n\n### Format: Read the inputs from "
    )
    assert problem.prompt.endswith(
        "```python\n# YOUR CODE HERE\n```\n\n### Answer: (use the provided format with backticks)\n\n"
    )


def test_a_problem_of_calls_names_its_function(tmp_path):
    (problem,) = load(tmp_path, "livecodebench", [livecodebench_row(calls=True)])
    answer = json.loads(problem.answer)
    assert (answer["mode"], answer["fn_name"], len(answer["tests"])) == ("functional", "add", 3)
    assert answer["tests"][0] == {"input": "[1, 2]\n3", "output": "[4, 5]"}
    starter = livecodebench_row(calls=True)["starter_code"]
    assert f"enclose your code within delimiters.\n```python\n{starter}\n```" in problem.prompt


def test_a_starter_code_with_fields_of_its_own_is_put_in_as_it_is(tmp_path):
    row = livecodebench_row(calls=True, starter_code="{problem} {format}", question_content="{format} {starter_code}")
    (problem,) = load(tmp_path, "livecodebench", [row])
    assert "### Question:\n{format} {starter_code}\n" in problem.prompt
    assert "```python\n{problem} {format}\n```" in problem.prompt


def test_livecodebench_filters_days_and_difficulty_before_it_unpacks(tmp_path):
    days = ["2024-12-31", "2025-01-01", "2025-04-30", "2025-05-01"]
    made = [livecodebench_row(f"d{day}", contest_date=f"{day}T00:00:00") for day in days]
    made += [livecodebench_row("easy", difficulty="easy", private_test_cases="broken")]
    made += [livecodebench_row("old", contest_date="2023-01-01T00:00:00", private_test_cases="broken")]
    assert [p.id for p in load(tmp_path, "livecodebench", made)] == ["d2025-01-01", "d2025-04-30"]
    chosen = data("livecodebench", f"path={tmp_path / 'rows.jsonl'}")
    assert (chosen.select().read, chosen.select().left_out) == (6, 4)
    assert len(load(tmp_path, "livecodebench", made[:4], "since=", "before=")) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"private_test_cases": "!"}, "neither JSON nor base64"),
        ({"public_test_cases": "[{"}, "public_test_cases is not valid JSON"),
        ({"public_test_cases": '{"input": "1", "output": "2"}'}, "expected a list of objects with input and output"),
        ({"private_test_cases": encoded([{"input": "1"}])}, "expected a list of objects with input and output"),
        ({"starter_code": "class Solution: pass"}, "metadata without func_name"),
        ({"starter_code": "class Solution: pass", "metadata": "[]"}, "metadata without func_name"),
        ({"contest_date": "soon"}, "contest_date = 'soon': expected a date"),
    ],
)
def test_broken_rows_are_named(tmp_path, changes, message):
    with pytest.raises(UserError, match=rf"rows\.jsonl, row 2.*{message}"):
        load(tmp_path, "livecodebench", [livecodebench_row("fine"), livecodebench_row("broken", **changes)])


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("leetcode_train", leetcode_row("b", test="def check(candidate): pass")),
        ("leetcode_train", leetcode_row("b", entry_point="Solution().add(")),
        ("livecodebench", livecodebench_row("b", True, private_test_cases=encoded(STDIN))),
        ("livecodebench", livecodebench_row("b", True, metadata='{"func_name": "no name"}')),
    ],
)
def test_tests_that_no_grader_could_run_are_a_drop(tmp_path, capsys, name, row):
    fine = leetcode_row("a") if name == "leetcode_train" else livecodebench_row("a")
    assert len(load(tmp_path, name, [fine, row])) == 1
    assert "1 with tests that cannot be run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("leetcode_train", leetcode_row("b", query="\ud800"), r"query holds '\\ud800'"),
        (
            "livecodebench",
            livecodebench_row("b", private_test_cases=encoded([{"input": "1", "output": "\ud800"}])),
            r"tests\[1\]\.output holds '\\ud800'",
        ),
    ],
)
def test_text_that_is_no_unicode_is_refused(tmp_path, name, row, message):
    fine = leetcode_row("a") if name == "leetcode_train" else livecodebench_row("a")
    with pytest.raises(UserError, match=rf"rows\.jsonl, row 2.*{message}"):
        load(tmp_path, name, [fine, row])


def test_a_file_without_private_tests_is_refused(tmp_path):
    row = livecodebench_row()
    del row["private_test_cases"]
    with pytest.raises(UserError, match="no column 'private_test_cases'"):
        load(tmp_path, "livecodebench", [row])


def test_no_tests_at_all_is_a_drop(tmp_path, capsys):
    made = [livecodebench_row("a"), livecodebench_row("b", public_test_cases="[]", private_test_cases="")]
    assert [p.id for p in load(tmp_path, "livecodebench", made)] == ["a"]
    assert "1 without an answer" in capsys.readouterr().err


def test_the_metric_follows_the_score():
    assert metric_of(Stub("pass_rate")) == "max"
    assert metric_of(Stub("pass_fail")) == "pass"
    assert data("leetcode_train", "reward.score=pass_fail").metric == "pass"
    assert data("livecodebench").metric == "max"


def test_impossible_days():
    with pytest.raises(UserError, match=r"since = 'May': expected a day"):
        data("leetcode_train", "since=May")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (json.dumps({"mode": "stdin", "tests": STDIN}), "1 tests, mode stdin"),
        (json.dumps({"mode": "functional", "fn_name": "f", "tests": CALLS}), "1 tests, mode functional, f"),
        (
            json.dumps({"mode": "leetcode", "entry_point": "S().f", "test": leetcode_row()["test"], "prompt": ""}),
            "2 asserts, mode leetcode, S().f",
        ),
        ("5", "5"),
        ("[1, 2]", "[1, 2]"),
        ("x" * 500, "x" * 200 + "... (500 characters)"),
    ],
)
def test_answers_in_short(answer, text):
    assert described(answer) == text

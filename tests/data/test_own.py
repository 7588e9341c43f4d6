import json
from datetime import datetime

import pytest

from kappo.errors import UserError
from tests.data.made import CALLS, STDIN, data, write_lines, write_parquet


def own(tmp_path, made, *settings):
    return data("jsonl", f"path={write_lines(tmp_path / 'my.jsonl', made)}", *settings)


@pytest.mark.parametrize("column", ["prompt", "problem", "question"])
def test_answers(tmp_path, column):
    chosen = own(tmp_path, [{column: "2+2?", "answer": 4}, {column: "3+3?", "answer": "6", "id": "mine", "level": "2"}])
    one, two = chosen.load(0)
    assert (one.id, one.answer, one.level) == ("own/0000", "4", 0)
    assert (two.id, two.answer, two.level) == ("mine", "6", 2) or two.id == "mine"
    assert one.prompt.startswith("2+2?\nPlease reason step by step")
    assert chosen.metric == "pass"
    assert chosen.reward is chosen.answers.reward
    assert chosen.template is chosen.answers.template


def test_programs_of_all_three_modes(tmp_path):
    def answer(row, *settings):
        chosen = own(tmp_path, [{"prompt": "Write it.", **row}], *settings)
        assert chosen.reward is chosen.programs.reward
        (problem,) = chosen.load(0)
        assert problem.prompt.startswith("Write it.\n\nWrite a Python program")
        return json.loads(problem.answer)

    tests = [{"input": "1 2\n", "output": "3\n"}]
    assert answer({"tests": STDIN}) == {"mode": "stdin", "tests": tests}
    assert answer({"tests": json.dumps(STDIN)}) == {"mode": "stdin", "tests": tests}
    calls = [{"input": [1, 2], "output": {"a": 1}}]
    assert answer({"tests": calls, "fn_name": "f"}) == {
        "mode": "functional",
        "fn_name": "f",
        "tests": [{"input": "[1, 2]", "output": '{"a": 1}'}],
    }
    test = "def check(candidate):\n    assert candidate(1) == 2\n"
    assert answer({"test": test, "entry_point": "f", "imports": "import math"}) == {
        "mode": "leetcode",
        "entry_point": "f",
        "test": test,
        "prompt": "import math",
    }


def test_the_metric_of_programs_follows_their_score(tmp_path):
    row = {"prompt": "p", "tests": STDIN}
    assert own(tmp_path, [row]).metric == "max"
    assert own(tmp_path, [row], "programs.reward.score=pass_fail").metric == "pass"


def test_csv_with_tests_as_json(tmp_path):
    (tmp_path / "my.csv").write_text('prompt,tests\np,"[{""input"": ""1"", ""output"": ""2""}]"\n')
    (problem,) = data("jsonl", f"path={tmp_path / 'my.csv'}").load(0)
    assert json.loads(problem.answer)["tests"] == [{"input": "1", "output": "2"}]


def test_rows_without_tests_are_dropped(tmp_path, capsys):
    made = [{"prompt": "a", "tests": STDIN}, {"prompt": "b", "tests": []}, {"prompt": "c", "tests": None}]
    assert [p.id for p in own(tmp_path, made).load(0)] == ["own/0000"]
    assert "2 without an answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([{"prompt": "a", "anwser": "4"}], r"row 1: no column 'answer'; did you mean 'anwser'\?"),
        ([{"promt": "a", "answer": "4"}], r"row 1: no column 'prompt'; did you mean 'promt'\?"),
        ([{"prompt": "a", "answer": "4", "tests": []}], r"columns tests, answer: expected answer or tests, not both"),
        ([{"prompt": "a", "tests": [{"input": "1"}]}], r"row 1: tests: expected a list of objects"),
        ([{"prompt": "a", "tests": "[{"}], r"row 1: tests is not valid JSON"),
        ([{"prompt": "a", "tests": 5}], r"row 1: tests: expected a list"),
        ([{"prompt": "a", "test": "def check(c): pass"}], r"row 1: no column 'entry_point'"),
        ([{"prompt": "a", "answer": "1"}, {"prompt": "b", "tests": []}], r"row 2: no column 'answer'"),
        (
            [{"prompt": "a", "answer": "1", "id": "x"}, {"prompt": "b", "answer": "1", "id": "x"}],
            r"row 2 has the id 'x'",
        ),
        ([], r"my\.jsonl\): no rows"),
    ],
)
def test_unusable_files(tmp_path, made, message):
    with pytest.raises(UserError, match=message):
        own(tmp_path, made).load(0)


CHECK = "def check(candidate):\n    "
FINE = {"prompt": "a", "test": CHECK + "assert candidate(1) == 2", "entry_point": "f"}


@pytest.mark.parametrize(
    ("fine", "broken", "message"),
    [
        (FINE, {"test": CHECK + "for i in range(3): assert candidate(i) == i"}, "expected a check.* asserts only"),
        (FINE, {"test": CHECK + "assert all(candidate(i) for i in [1])"}, "calls candidate in a loop"),
        (FINE, {"test": CHECK + "assert True"}, "calls no candidate"),
        (FINE, {"test": "def check(candidate:"}, "its test is no Python"),
        (FINE, {"test": "assert f(1) == 2"}, "expected a check"),
        (FINE, {"entry_point": "import f"}, "entry_point = 'import f' is no Python"),
        (FINE, {"imports": "import"}, "its prompt is no Python"),
        (
            {"tests": CALLS, "fn_name": "f"},
            {"tests": [{"input": "1, 2", "output": "3"}]},
            r"tests\[0\]: expected one JSON",
        ),
        (
            {"tests": CALLS, "fn_name": "f"},
            {"tests": [*CALLS, {"input": "1", "output": "a"}]},
            r"tests\[1\]: expected one",
        ),
        ({"tests": CALLS, "fn_name": "f"}, {"fn_name": "f()"}, r"fn_name = 'f\(\)': expected the name"),
    ],
)
def test_tests_that_no_grader_could_run_are_refused_at_load(tmp_path, fine, broken, message):
    made = [{"prompt": "a", "imports": "", **fine}, {"prompt": "b", "imports": "", **fine, **broken}]
    own(tmp_path, made[:1]).load(0)
    for _ in range(2):
        with pytest.raises(UserError, match=rf"my\.jsonl, row 2: .*{message}"):
            own(tmp_path, made).load(0)


def test_tests_of_problems_that_are_left_out_are_not_asked(tmp_path):
    made = [{**FINE, "level": 1}, {**FINE, "level": 2, "test": "no python"}]
    assert len(own(tmp_path, made, "levels=[1]").load(0)) == 1


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ({"prompt": "a \ud800", "answer": "4"}, "prompt"),
        ({"problem": "a", "answer": "\udc00"}, "answer"),
        ({"prompt": "a", "answer": "4", "id": "x\ud800y"}, "id"),
        ({**FINE, "test": CHECK + "assert candidate('\ud83d') == 2"}, "test"),
        ({**FINE, "entry_point": "f\ud800"}, "entry_point"),
        ({"prompt": "a", "tests": [STDIN[0], {"input": "\ud800", "output": "1"}]}, r"tests\[1\]\.input"),
        ({"prompt": "a", "tests": json.dumps([{"input": "1", "output": "\ud800"}])}, r"tests\[0\]\.output"),
    ],
)
def test_half_a_character_is_refused_with_its_column(tmp_path, row, column):
    with pytest.raises(UserError, match=rf"my\.jsonl, row 1: {column} holds '\\ud[8cd].*half of a surrogate pair"):
        own(tmp_path, [row]).load(0)


def test_whole_characters_of_two_halves_are_text(tmp_path):
    (tmp_path / "my.jsonl").write_text('{"prompt": "\\ud83d\\ude00", "answer": "4"}\n')
    assert data("jsonl", f"path={tmp_path / 'my.jsonl'}").load(0)[0].prompt.startswith("\U0001f600")


def test_values_that_are_no_json_are_no_tests(tmp_path):
    day = datetime(2025, 1, 31)
    path = write_parquet(tmp_path / "my.parquet", [{"prompt": "a", "tests": [{"input": day, "output": "1"}]}])
    with pytest.raises(UserError, match=r"row 1: tests\[0\]\.input = '2025-01-31 .*expected text or a JSON value"):
        data("jsonl", f"path={path}").load(0)


def test_no_path():
    with pytest.raises(UserError, match=r"data\.path is not set.*data\.path=my\.jsonl"):
        data("jsonl").load(0)

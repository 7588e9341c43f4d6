import json

import pytest

from kappo.errors import UserError
from tests.data.made import STDIN, data, write_lines


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


def test_no_path():
    with pytest.raises(UserError, match=r"data\.path is not set.*data\.path=my\.jsonl"):
        data("jsonl").load(0)

"""The tests of a problem: what goes in, what stays outside, and errors that name the row."""

import json

import pytest

from kappo.errors import UserError
from kappo.rewards.code_tests import CodeTests, from_columns

CHECK = "def check(candidate):\n    "


def leetcode(body, **more):
    return from_columns({"mode": "leetcode", "entry_point": "f", "test": CHECK + body, **more}, "row 3").tests


def test_stdin():
    columns = {"mode": "stdin", "tests": [{"input": "1 2\n", "output": "3\n"}, {"input": "", "output": ""}]}
    found = CodeTests.parse(json.dumps(columns), "row 3")
    assert found.mode == "stdin"
    assert [test.calls for test in found.tests] == [({"input": "1 2\n"},), ({"input": ""},)]
    assert [test.expected for test in found.tests] == ["3\n", ""]


def test_functional():
    columns = {"mode": "functional", "fn_name": "f", "tests": [{"input": '[1,2]\n\n{"a": 1}\n', "output": "[3.5]"}]}
    (test,) = from_columns(columns, "row 3").tests
    assert test.calls[0]["bindings"] == {"arguments": [[1, 2], {"kappo": "dict", "items": [["a", 1]]}]}
    assert test.calls[0]["expression"] == "candidate(*arguments)"
    assert test.expected == [3.5]


@pytest.mark.parametrize(
    ("body", "calls", "expected", "condition"),
    [
        ("assert candidate(a = 1) == 3", ["candidate(a=1)"], 3, ""),
        ("assert 3 == candidate(1)", ["candidate(1)"], 3, ""),
        ("assert candidate(1) == (1, [2])", ["candidate(1)"], [1, [2]], ""),
        ("assert candidate(1) == -1.5, 'why'", ["candidate(1)"], -1.5, ""),
        ("'''Text.'''\n    pass\n    assert candidate(1) == None", ["candidate(1)"], None, ""),
        (
            "assert is_same_list(candidate(list_node([1])), list_node([2, 1]))",
            ["candidate(list_node([1]))"],
            {"kappo": "list_node", "items": [2, 1]},
            "",
        ),
        (
            "assert is_same_tree(candidate(1), tree_node([1, None, 2, None, None]))",
            ["candidate(1)"],
            {"kappo": "tree_node", "items": [1, None, 2]},
            "",
        ),
        ("assert candidate(1) in [1, 2]", ["candidate(1)"], None, "value_0 in [1, 2]"),
        ("assert not candidate(1)", ["candidate(1)"], None, "not value_0"),
        ("assert candidate(1)", ["candidate(1)"], None, "value_0"),
        ("assert candidate(1) is None", ["candidate(1)"], None, "value_0 is None"),
        ("assert candidate(1) != 2", ["candidate(1)"], None, "value_0 != 2"),
        ("assert 1 < candidate(1) < 3", ["candidate(1)"], None, "1 < value_0 < 3"),
        ("assert abs(candidate(1) - 0.5) < 1e-5", ["candidate(1)"], None, "abs(value_0 - 0.5) < 1e-05"),
        ("assert sorted(candidate(1)) == [1]", ["candidate(1)"], None, "sorted(value_0) == [1]"),
        ("assert candidate(1) == candidate(2)", ["candidate(1)", "candidate(2)"], None, "value_0 == value_1"),
        ("assert candidate(1) == float('inf')", ["candidate(1)"], None, "value_0 == float('inf')"),
        ("assert candidate(1) == {[1]}", ["candidate(1)"], None, "value_0 == {[1]}"),
        ("assert candidate(candidate(1)) == 2", ["candidate(candidate(1))"], 2, ""),
    ],
)
def test_asserts(body, calls, expected, condition):
    (test,) = leetcode(body)
    assert [call["expression"].replace(" ", "") for call in test.calls] == calls
    assert (test.expected, test.condition) == (expected, condition)


def test_the_setup_and_the_entry():
    columns = {"mode": "leetcode", "entry_point": "Solution().f", "test": CHECK + "assert candidate() == 1"}
    assert from_columns(columns, "p").setup == ""
    found = from_columns({**columns, "prompt": "import math\n"}, "p")
    assert (found.setup, found.entry) == ("import math\n", "Solution().f")


STDIN = {"mode": "stdin", "tests": [{"input": "", "output": ""}]}
FUNCTIONAL = {"mode": "functional", "fn_name": "f", "tests": [{"input": "1", "output": "1"}]}
LEETCODE = {"mode": "leetcode", "entry_point": "f", "test": CHECK + "assert candidate() == 1"}


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({}, "mode = None: expected stdin, functional or leetcode"),
        ({"mode": "java"}, "mode = 'java'"),
        ({"mode": []}, r"mode = \[\]"),
        ({"mode": "stdin"}, "needs tests"),
        ({**STDIN, "tests": []}, "needs tests"),
        ({**STDIN, "tests": "abc"}, "tests"),
        ({**STDIN, "tests": {"input": "", "output": ""}}, "tests"),
        ({**STDIN, "tests": [{"input": ""}]}, r"tests\[0\]"),
        ({**STDIN, "tests": [{"input": "", "output": ""}, {"input": "", "output": 3}]}, r"tests\[1\]"),
        ({**STDIN, "tests": ["x"]}, r"tests\[0\]"),
        ({**FUNCTIONAL, "fn_name": ""}, "needs fn_name"),
        ({**FUNCTIONAL, "fn_name": "f()"}, r"fn_name = 'f\(\)'"),
        ({**FUNCTIONAL, "fn_name": 3}, "fn_name = 3"),
        ({**FUNCTIONAL, "tests": [{"input": "x y", "output": "1"}]}, r"tests\[0\]: expected one JSON value a line"),
        ({**FUNCTIONAL, "tests": [{"input": "1", "output": ""}]}, r"tests\[0\]: expected one JSON value a line"),
        ({**LEETCODE, "entry_point": ""}, "needs entry_point"),
        ({**LEETCODE, "entry_point": "f("}, "entry_point"),
        ({**LEETCODE, "test": 3}, "test"),
        ({**LEETCODE, "prompt": "def ("}, "prompt"),
        ({**LEETCODE, "test": "def check("}, "no Python"),
        ({**LEETCODE, "test": "x = 1"}, "found nothing"),
        ({**LEETCODE, "test": CHECK + "pass"}, "found nothing"),
        ({**LEETCODE, "test": CHECK + "x = candidate()\n    assert x == 1"}, r"found x = candidate\(\)"),
        ({**LEETCODE, "test": CHECK + "assert 1 == 1"}, "calls no candidate"),
        ({**LEETCODE, "test": CHECK + "assert all(candidate(i) == i for i in range(3))"}, "in a loop"),
    ],
)
def test_faults_name_the_row(columns, fault):
    with pytest.raises(UserError, match=f"row 3.*{fault}"):
        from_columns(columns, "row 3")


@pytest.mark.parametrize("document", ["", "{", "[]", "3", "null", '"x"', "[" * 100_000])
def test_what_is_no_document(document):
    with pytest.raises(UserError, match="row 3"):
        CodeTests.parse(document, "row 3")

"""What counts as the expected output."""

import contextlib
import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappo.rewards.outputs import VALUE_TOLERANCE, same_text, same_value, tagged

TEXTS = [
    ("3", "3\n", True), ("3\n\n\n", "3", True), ("\n3", "3", True), ("3 ", "3", True), (" 3", "3", True),
    ("3\r\n4\r\n", "3\n4\n", True), ("a  b", "a b", False), ("1  2", "1 2", True), ("a\n\nb", "a\nb", False),
    ("Yes", "YES", False), ("a", "b", False), ("", "", True), ("\n", "", True), ("x", "", False), ("", "x", False),
    ("1 2 3", "1 2", False), ("1\n2", "1 2", False), ("1 2", "1\n2", False), ("a\nb\n3.0", "a\nb\n3", True),
    ("0.3333333", "0.333333333333", True), ("0.3334", "0.333333333333", False), ("0.333333", "1/3", False),
    ("1000000.4", "1000000.0", True), ("1000002.0", "1000000.0", False), ("1000000.4", "1000000", False),
    ("50000000000000001", "50000000000000000", False), ("3.0", "3", True), ("3.1", "3", False), ("3", "3.0", True),
    ("3", "3.0000001", True), ("1e-9", "0.000000001", True), ("1E3", "1000", True), ("-0.0", "0.0", True),
    ("-0", "0", True), ("+5", "5", True), (".5", "0.5", True), ("5.", "5", True), ("nan", "1.0", False),
    ("nan", "nan", True), ("inf", "1e400", False), ("inf", "inf", True), ("1e9999", "1.0", False),
    ("1e99999", "1", False),
    ("9" * 5000, "9" * 5000, True), ("9" * 5000, "9" * 4999 + "8", False), ("1_000", "1000", False),
    ("--1", "-1", False),
    ("0x10", "16", False), ("é", "é", True), ("e\u0301", "\u00e9", False), ("1 x", "1.0 x", False),
    ("[1, 2]", "[1,2]", False),
]  # fmt: skip


@pytest.mark.parametrize(("found", "expected", "same"), TEXTS)
def test_texts(found, expected, same):
    assert same_text(found, expected) is same


NODE = {"kappo": "list_node", "items": [1, 2]}
EMPTY = {"kappo": "tree_node", "items": []}
VALUES = [
    (3, 3, True), (3, 4, False), (3.0, 3, True), (3, 3.0, True), (True, 1, True), (0, False, True), (1, True, True),
    (2, True, False), (None, None, True), (None, 0, False), (0, None, False), ("", None, False), ("3", 3, False),
    (3, "3", False), ("a", "a", True), ("a", "A", False), ([], [], True), ([1, 2], [1, 2], True),
    ([1, 2], [2, 1], False),
    ([1], [1, 2], False), ([1], 1, False), (1, [1], False), ("ab", ["a", "b"], False), ([[1.0]], [[1]], True),
    (0.333333, 1 / 3, True), (0.3334, 1 / 3, False), (100000.5, 100000.0, True), (100002.0, 100000.0, False),
    (100000.5, 100000, False), (3.0000000001, 3, True), (3.00001, 3, False), (1e17, 10**17, True),
    (float(2**53), 2**53 + 1, False), (10**400, 1.0, False), (1.0, 10**400, False), (math.inf, 10**400, False),
    (math.nan, 1.0, False), (math.inf, math.inf, True), (math.inf, 1.0, False), (-math.inf, math.inf, False),
    (-0.0, 0.0, True), (None, EMPTY, True), (EMPTY, None, True), (NODE, NODE, True), (NODE, [1, 2], False),
    (NODE, {**NODE, "items": [2, 1]}, False), (NODE, {**NODE, "kappo": "tree_node"}, False), (NODE, None, False),
    ({"kappo": "list_node"}, None, True), ({"kappo": "list_node"}, NODE, False), ({}, None, False), ({}, NODE, False),
    ({"kappo": []}, NODE, False), ({"kappo": "list_node", "items": 3}, NODE, False), ({"items": [1, 2]}, NODE, False),
]  # fmt: skip


@pytest.mark.parametrize(("found", "expected", "same"), VALUES)
def test_values(found, expected, same):
    assert same_value(found, expected) is same


@pytest.mark.parametrize(
    ("found", "expected", "same"),
    [
        ({1, 2, 3}, {3, 2, 1}, True),
        ({1, 2}, {1, 3}, False),
        ({3.0, True}, {1, 3}, True),
        ({10, 9.0, 100}, {9, 100.0, 10}, True),
        ({(1, 2), (0, 5)}, {(0, 5), (1, 2)}, True),
        ({1}, [1], False),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({1: "x", 2.0: "y"}, {2: "y", True: "x"}, True),
        ({"a": 0.1 + 0.2}, {"a": 0.3}, True),
        ({}, set(), False),
        ((1, [2, 3]), [1, (2, 3)], True),
        ({frozenset({1, 2}), frozenset({3})}, {frozenset({3}), frozenset({2, 1})}, True),
    ],
)
def test_values_of_python(found, expected, same):
    assert same_value(tagged(found), tagged(expected)) is same


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.fixed_dictionaries(
            {"kappo": st.sampled_from(["dict", "set", "list_node", "tree_node"]) | inner, "items": inner}
        )
        | st.dictionaries(st.sampled_from(["kappo", "items", "x"]), inner, max_size=2)
    ),
    max_leaves=10,
)


@given(PLAIN)
def test_a_value_is_itself_also_by_way_of_json(value):
    assert same_value(json.loads(json.dumps(tagged(value))), tagged(value))


@given(PLAIN, PLAIN)
def test_what_python_calls_equal_is_the_same(a, b):
    if a == b:
        assert same_value(tagged(a), tagged(b))


@given(st.integers(), st.integers())
def test_whole_numbers_are_exact(a, b):
    assert same_value(a, b) is (a == b)
    assert same_text(str(a), str(b)) is (a == b)


@given(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12))
def test_floats_differ_beyond_the_tolerance(a, b):
    off = abs(a - b) / max(1.0, abs(b))
    if off > 2 * VALUE_TOLERANCE:
        assert not same_value(a, b)
    if off < VALUE_TOLERANCE / 2:
        assert same_value(a, b)


@given(st.sets(st.integers() | st.text(max_size=3)), st.randoms())
def test_sets_have_no_order(values, chance):
    mixed = list(values)
    chance.shuffle(mixed)
    assert same_value({"kappo": "set", "items": mixed}, tagged(values))
    assert not same_value({"kappo": "set", "items": [*mixed, 0.5]}, tagged(values))


@given(ANY_JSON, PLAIN)
def test_broken_answers_raise_nothing_that_is_not_caught(found, expected):
    with contextlib.suppress(TypeError, ValueError, ArithmeticError, RecursionError):
        assert isinstance(same_value(found, tagged(expected)), bool)


@given(st.text(max_size=30))
def test_a_text_is_itself(text):
    assert same_text(text, text)
    assert same_text(text + " \n\n", text)
    assert not same_text(text + "\n~", text)


def documented():
    """(kind, found, expected, passes) of each example in the table of policies."""
    text = (Path(__file__).parents[2] / "docs" / "grading_code.md").read_text()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].startswith(("text:", "values:")):
            for passes, examples in ((True, cells[2]), (False, cells[3])):
                for found, expected in re.findall(r"`([^`]*)` for `([^`]*)`", examples):
                    yield cells[0], found, expected, passes


@pytest.mark.parametrize(("kind", "found", "expected", "passes"), list(documented()))
def test_the_documented_policies(kind, found, expected, passes):
    if kind.startswith("text:"):
        assert same_text(found.replace(r"\n", "\n"), expected.replace(r"\n", "\n")) is passes
    else:
        assert same_value(*(tagged(eval(text)) for text in (found, expected))) is passes


def test_every_kind_is_documented_with_examples():
    assert len({kind for kind, *_ in documented()}) >= 7

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappo.records import Problem
from kappo.rewards.pass_rate import PassRate

PROBLEM = Problem("p", "3,7=0;8,2=6;", "1,2=3 0,9=9 5,5=0 9,2=7")
NAMES = st.sampled_from("ab")
BRANCH = st.tuples(NAMES, st.sampled_from("+-*"), NAMES).map("".join)


@pytest.mark.parametrize(
    ("text", "score", "verdict"),
    [
        ("a+b;a-b", 1.0, "right"),
        (" a+b;a-b\n", 1.0, "right"),
        ("b+a;a-b", 1.0, "right"),
        ("a+b;b-a", 0.75, "wrong"),
        ("a+b;a*b", 0.5, "wrong"),
        ("a*b;a-b", 0.5, "wrong"),
        ("a*b;b*b", 0.0, "wrong"),
        ("a+b", 0.0, "unparsable"),
        ("a+b;", 0.0, "unparsable"),
        ("a+b;a-b;", 0.0, "unparsable"),
        ("a+b;a-b;a*b", 0.0, "unparsable"),
        ("a+b; a-b", 0.0, "unparsable"),
        ("a+b;a/b", 0.0, "unparsable"),
        ("a+3;a-b", 0.0, "unparsable"),
        ("A+b;a-b", 0.0, "unparsable"),
        ("", 0.0, "unparsable"),
    ],
)
def test_grades(text, score, verdict):
    grade = PassRate().grade(PROBLEM, text)
    assert (grade.score, grade.verdict) == (score, verdict)


@given(
    first=BRANCH,
    second=BRANCH,
    tests=st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=1, max_size=20),
)
def test_score_is_the_share_of_passed_tests(first, second, tests):
    answer = " ".join(f"{a},{b}={value}" for a, b, value in tests)
    passed = [eval(first if a < b else second, {"a": a, "b": b}) % 10 == value for a, b, value in tests]
    grade = PassRate().grade(Problem("p", "", answer), f"{first};{second}")
    assert grade.score == sum(passed) / len(tests)
    assert (grade.verdict == "right") == all(passed)


@given(st.text(max_size=12) | st.text("ab+-*;\n 3", max_size=9))
def test_any_text_gets_a_grade(text):
    grade = PassRate().grade(PROBLEM, text)
    assert 0 <= grade.score <= 1
    assert (grade.score == 0) or grade.verdict != "unparsable"


def test_grader_can_be_sent_to_another_process():
    assert pickle.loads(pickle.dumps(PassRate())).grade(PROBLEM, "a+b;a-b").verdict == "right"

import pickle

import pytest

from kappo.errors import UserError
from kappo.records import Problem
from kappo.rewards.base import check_failed_share, failed_share
from kappo.rewards.boxed import BoxedAnswer, last_boxed

PROBLEM = Problem("p", "1,2=3;4,5=?", "9")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (r"so \boxed{9}", "9"),
        (r"\boxed{\frac{1}{2}} done", r"\frac{1}{2}"),
        (r"\boxed{{{}}}", "{{}}"),
        (r"\boxed{1} then \boxed{2}", "2"),
        (r"\boxed{}", ""),
        (r"\boxed{9", None),
        (r"\boxed{1} \boxed{9", None),
        (r"\boxed{\frac{1}{2}", None),
        (r"\boxed 9", None),
        ("9}", None),
        ("", None),
    ],
)
def test_last_boxed(text, want):
    assert last_boxed(text) == want


@pytest.mark.parametrize(
    ("text", "score", "verdict"),
    [
        (r"a+b:4+5=\boxed{9}", 1.0, "right"),
        (r"\boxed{ 9 }", 1.0, "right"),
        (r"\boxed{8} no, \boxed{9}", 1.0, "right"),
        (r"\boxed{9} no, \boxed{8}", 0.0, "wrong"),
        (r"\boxed{99}", 0.0, "wrong"),
        (r"\boxed{}", 0.0, "wrong"),
        ("9", 0.0, "unparsable"),
        (r"\boxed{9", 0.0, "unparsable"),
    ],
)
def test_grades(text, score, verdict):
    grade = BoxedAnswer().grade(PROBLEM, text)
    assert (grade.score, grade.verdict) == (score, verdict)


def test_grader_can_be_sent_to_another_process():
    assert pickle.loads(pickle.dumps(BoxedAnswer())).grade(PROBLEM, r"\boxed{9}").verdict == "right"


def test_failed_share_counts_what_says_nothing_about_the_answer():
    assert failed_share(["right", "wrong", "unparsable", "timeout", "crash"]) == 0.6
    assert failed_share(["right", "wrong"]) == failed_share([]) == 0


def test_limit_is_the_last_share_that_passes():
    verdicts = ["right"] * 6 + ["unparsable"] * 3 + ["crash"]
    check_failed_share(verdicts, 0.4, "bank x")
    with pytest.raises(UserError) as caught:
        check_failed_share(verdicts, 0.39, "bank x")
    message = str(caught.value)
    for part in ("bank x", "40%", "of 10", "unparsable 3", "crash 1", "eval.max_failed_share = 0.39"):
        assert part in message

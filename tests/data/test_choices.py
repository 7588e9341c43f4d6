"""Every shipped real data set: its settings come back from a resolved config, and readers find what they ask for."""

import pytest

from kappo.compose import choices
from kappo.config import build, plain
from kappo.data.real import RealData
from kappo.rewards.code import ProgramTests
from kappo.rewards.math import MathAnswer
from tests.data.made import data

EMBEDDED = ("rules", "programs")
REAL = [name for name in choices("data") if not name.startswith(EMBEDDED)]


@pytest.mark.parametrize("name", REAL)
def test_a_resolved_config_gives_the_same_set(name):
    made = data(name)
    assert isinstance(made, RealData)
    assert build(type(made), plain(made)) == made
    assert made.problems >= 1
    assert made.task in ("math", "code", "own")


def test_a_study_can_tell_test_and_validation_sets_apart():
    made = [data(name) for name in REAL if "train" not in name and name != "deepscaler"]
    splits = [(one.task, one.split) for one in made]
    assert len(set(splits)) == len(splits)


def test_the_choices_state_the_graders_own_defaults():
    assert data("leetcode_test", reward=False).reward == ProgramTests()
    assert data("math500", reward=False).reward == MathAnswer()

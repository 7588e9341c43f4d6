import numpy as np
import pytest

from kappo.compose import compose
from kappo.errors import UserError
from kappo.methods.base import Batch
from kappo.methods.objectives import Sharpening, TaskReward, Tempered, Tilted
from kappo.methods.reinforce import REINFORCE
from kappo.pressure.base import Adapted
from kappo.theory import sharpening

RNG = np.random.default_rng(0)
LOG_PI, LOG_BASE = (-RNG.exponential(3, size=(4, 3)) for _ in range(2))
REWARDS = RNG.integers(0, 2, (4, 3)).astype(float)
ONES = np.ones_like(REWARDS)


def advantage(objective, scale=ONES):
    """REINFORCE's, whose advantage is the whole reward; completions of one token."""
    adapted = objective.apply(Adapted(REWARDS, scale, ONES, ONES), LOG_BASE)
    one = (12, 1)
    batch = Batch(np.ones(one), LOG_BASE.reshape(one), LOG_PI.reshape(one), adapted)
    return REINFORCE(3, objective.kl_coef).signal(batch)["advantage"].reshape(REWARDS.shape)


@pytest.mark.parametrize(
    ("objective", "rewards", "alpha", "beta"),
    [
        (TaskReward(), REWARDS, 1.0, 0.0),
        (Tilted(1.0, 0.3), REWARDS, 1.0, 0.3),
        (Tilted(1.25, 0.3), REWARDS, 1.25, 0.3),
        (Tilted(0.5, 0.3), REWARDS, 0.5, 0.3),
        (Tempered(2.0), 0 * REWARDS, 2.0, 1.0),
        (Sharpening(1.5), 1.5 * LOG_BASE, 1.0, 0.0),
    ],
)
def test_what_each_completion_earns_is_theorys(objective, rewards, alpha, beta):
    want = sharpening.signal(LOG_PI, LOG_BASE, rewards, alpha, beta)
    np.testing.assert_allclose(advantage(objective), want, rtol=1e-12)


def test_pressure_scales_the_task_reward_alone():
    got = advantage(Tilted(1.5, 0.2), 3 * ONES)
    np.testing.assert_allclose(got, 3 * REWARDS - 0.2 * (LOG_PI - 1.5 * LOG_BASE), rtol=1e-12)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["method=apo", "objective=sharpening"], "set method=rloo"),
        (["method=grpo", "objective=tilted", "objective.alpha=2"], "set method=rloo"),
        (["method=rloo", "objective=tempered", "k=2"], "k = 2 with objective = tempered"),
        (["method=rloo", "objective=sharpening", "method.kl_coef=0.1"], "method.kl_coef = 0.1"),
        (["method=rloo", "objective=task_reward", "objective.kl_coef=0.1"], "objective.kl_coef"),
        (
            ["method=rloo", "objective=tilted", "objective.alpha=2", "method.interface=regularization"],
            "interface=reward",
        ),
    ],
)
def test_what_does_not_go_together(overrides, said):
    with pytest.raises(UserError) as caught:
        compose(overrides)
    assert said in str(caught.value)


def test_the_kl_term_follows_the_objective():
    for name, coef in (("tilted", 0.1), ("task_reward", 0.0), ("tempered", 1.0), ("sharpening", 0.0)):
        assert compose([f"objective={name}", "method=rloo"]).method.kl_coef == coef

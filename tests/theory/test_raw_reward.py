import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax

from kappo.theory import binary
from kappo.theory.estimators import policy_max_at_k
from kappo.theory.raw_reward import solve_continuous, solve_discrete
from tests.golden import adapter, records

ks = st.integers(1, 64)
betas = st.floats(-3, 1).map(lambda e: 10.0**e)
levels = st.lists(st.integers(0, 16).map(lambda i: i / 16), min_size=2, max_size=30)


def test_golden_discrete():
    assert len(records("maxk_discrete")) > 100
    for inputs, want in records("maxk_discrete"):
        got = adapter.maxk_discrete(*(inputs[name] for name in ("rewards", "counts", "k", "beta")))
        for name in ("p", "P", "H", "log_c"):
            np.testing.assert_allclose(got[name], want[name], rtol=1e-11, atol=1e-12 if name == "log_c" else 1e-300)
        np.testing.assert_allclose(got["beta_eff"][1:], want["beta_eff"][1:], rtol=1e-11)
        np.testing.assert_allclose(got["beta_eff_right_limit_at_r1"], want["beta_eff_right_limit_at_r1"], rtol=1e-11)


@pytest.mark.parametrize("which", range(3))
def test_golden_continuous(which):
    inputs, want = [r for r in records("theory_figures") if r[0]["panel"] == "bc"][which]
    got = adapter.fig1bc(*(inputs[name] for name in ("beta_a", "beta_b", "k", "beta", "r")))
    for name in ("F_star", "S"):
        np.testing.assert_allclose(got[name], want[name], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(got["beta_eff"][1:], want["beta_eff"][1:], rtol=1e-8)
    np.testing.assert_allclose(got["log_c"], want["log_c"], rtol=1e-8)


@pytest.mark.parametrize(("k", "beta"), [(1, 0.5), (2, 0.1), (4, 0.3), (8, 1.0)])
def test_is_the_maximum_of_the_objective(k, beta):
    """Against a general optimiser over the softmax logits of five completions, two of one reward."""
    rewards, q = np.array([0.3, 0.0, 1.0, 0.3, 0.6]), np.array([0.25, 0.4, 0.05, 0.2, 0.1])

    def loss(logits):
        log_pi = log_softmax(logits)
        pi = np.exp(log_pi)
        value, score = policy_max_at_k(pi, rewards, k)
        gain = score - beta * (log_pi - np.log(q))
        return beta * pi @ (log_pi - np.log(q)) - value, -pi * (gain - pi @ gain)

    direct = minimize(loss, np.log(q), jac=True, method="BFGS", options={"gtol": 1e-10})
    found = solve_discrete(rewards, k, beta, q)
    order = np.argsort(rewards, kind="stable")
    np.testing.assert_allclose(np.exp(found.log_p), np.exp(log_softmax(direct.x))[order], atol=1e-6)


@given(k=ks, beta=betas, logit=st.floats(-8, 8))
def test_two_rewards_are_the_binary_case(k, beta, logit):
    q = 1 / (1 + np.exp(-logit))
    found = solve_discrete([0.0, 1.0], k, beta, [1 - q, q])
    want = binary.solve(np.log(q) - np.log(1 - q), k, beta)
    np.testing.assert_allclose(found.log_p, [want.log_1mp, want.log_p], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.score[1], want.a, rtol=1e-10)
    np.testing.assert_allclose(-found.log_c, want.log_z, rtol=1e-10, atol=1e-12)


@given(rewards=levels, k=ks, beta=betas, shift=st.floats(-3, 3))
def test_a_bank_is_its_distribution_and_its_origin_is_free(rewards, k, beta, shift):
    """Repeated rewards are one level of that mass; a constant added to all of them changes nothing."""
    values, counts = np.unique(rewards, return_counts=True)
    bank, merged = solve_discrete(rewards, k, beta), solve_discrete(values, k, beta, counts)
    last = np.searchsorted(bank.rewards, values, side="right") - 1
    np.testing.assert_allclose(bank.log_cdf[last], merged.log_cdf, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(bank.score[last], merged.score, rtol=1e-9, atol=1e-12)
    moved = solve_discrete(np.array(rewards) + shift, k, beta)
    np.testing.assert_allclose(moved.score, bank.score, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(bank.log_cdf[-1], 0, atol=1e-10)
    assert (np.diff(bank.score) >= 0).all()
    assert (bank.score <= k * (bank.rewards - bank.rewards[0]) * (1 + 1e-12)).all()


@given(rewards=levels, beta=betas)
def test_k1_is_the_plain_reward(rewards, beta):
    found = solve_discrete(rewards, 1, beta)
    np.testing.assert_allclose(found.score, found.rewards - found.rewards[0], atol=1e-15)
    at = np.array([-1.0, 0.2, 3.0])
    np.testing.assert_allclose(found.transform(at), at - found.rewards[0], atol=1e-12)
    np.testing.assert_allclose(found.beta_eff, beta)


@given(rewards=levels, k=st.integers(2, 64), beta=betas)
def test_transform_joins_the_levels_by_lines(rewards, k, beta):
    """Eq. 109, and continuous: S of a level is H there, halfway lies halfway; below all levels there is no slope."""
    found = solve_discrete(rewards, k, beta)
    values = np.unique(rewards)
    at = np.searchsorted(found.rewards, values, side="right") - 1
    np.testing.assert_allclose(found.transform(values), found.score[at], rtol=1e-12)
    middle = (values[1:] + values[:-1]) / 2
    np.testing.assert_allclose(found.transform(middle), (found.score[at][1:] + found.score[at][:-1]) / 2, rtol=1e-9)
    np.testing.assert_allclose(found.transform([values[0] - 1]), 0, atol=0)
    np.testing.assert_allclose(found.transform([values[-1] + 1]), found.score[-1] + k, rtol=1e-9)


def test_many_references_at_once():
    rewards = np.random.default_rng(0).random((6, 5, 12))
    together = solve_discrete(rewards, 4, 0.1)
    assert together.log_c.shape == (6, 5)
    for i, j in ((0, 0), (5, 4), (2, 3)):
        alone = solve_discrete(rewards[i, j], 4, 0.1)
        np.testing.assert_allclose(together.log_p[i, j], alone.log_p, rtol=1e-12)


@pytest.mark.parametrize(("k", "beta"), [(1, 1e-6), (1000, 1e-6), (1000, 100.0), (4, 1e-5)])
def test_extremes_stay_finite_and_normalised(k, beta):
    rewards = np.arange(30.0) / 29
    found = solve_discrete(np.stack([rewards, np.zeros(30)]), k, beta)
    np.testing.assert_allclose(found.log_cdf[:, -1], 0, atol=1e-7)
    assert np.isfinite(found.score).all()
    np.testing.assert_array_equal(found.score[1], 0)


def test_a_fine_bank_approaches_the_continuous_optimum():
    """Quantiles of the uniform density as a bank of 4,000."""
    grid = np.linspace(0.1, 0.9, 5)
    want = solve_continuous(lambda r: 1.0, 0.0, 1.0, 4, 0.3, grid)
    found = solve_discrete((np.arange(4000) + 0.5) / 4000, 4, 0.3)
    np.testing.assert_allclose(found.transform(grid), want.score, rtol=4e-3)
    np.testing.assert_allclose(float(found.log_c), want.log_c, rtol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0, np.nan], 2, 0.1), "finite"),
        (([], 2, 0.1), "at least one"),
        (([0.0, 1.0], 0, 0.1), "k must be"),
        (([0.0, 1.0], 2, 0.0), "beta must be"),
        (([0.0, 1.0], 2, 0.1, [0.0, 0.0]), "positive sum"),
        (([0.0, 1.0], 2, 0.1, [1.0, -1.0]), ">= 0"),
    ],
)
def test_bad_references(arguments, message):
    with pytest.raises(ValueError, match=message):
        solve_discrete(*arguments)

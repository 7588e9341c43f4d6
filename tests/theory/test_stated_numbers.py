"""Numbers of the methods' regimes, each computed independently of this code, to the digits given."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from kappo.pressure.binary import Binary
from kappo.pressure.winrate import WinRate
from kappo.theory import binary, estimators, finite_bank, raw_reward, winrate


def solved(q, k, beta):
    return binary.solve(binary.logit(q), k, beta)


def two_levels(q_right, ties):
    """S(1) - S(0) of a bank of 30, k = 4, beta = 0.1."""
    bank = np.array([[0.0] * (30 - q_right) + [1.0] * q_right])
    pressure = WinRate(4, 0.1, ties)
    low, high = pressure.adapt(np.array([[0.0, 1.0]]), pressure.fit(bank)).reward[0]
    return high - low


@pytest.mark.parametrize(
    ("right", "inclusive", "midrank"), [(1, 0.091, 0.241), (15, 0.294, 0.0485), (29, 0.302, 0.010)]
)
def test_ties_on_two_levels(right, inclusive, midrank):
    assert two_levels(right, "inclusive") == pytest.approx(inclusive, abs=6e-4)
    assert two_levels(right, "midrank") == pytest.approx(midrank, abs=6e-4)


@pytest.mark.parametrize(("right", "want"), [(1, 0.266), (15, 0.151), (29, 0.195)])
def test_ties_broken_at_random(right, want):
    assert two_levels(right, "exact") == pytest.approx(want, abs=6e-4)


def test_midrank_at_k_1_is_the_same_for_all_success_rates():
    for right in (1, 15, 29):
        bank = np.array([[0.0] * (30 - right) + [1.0] * right])
        pressure = WinRate(1, 0.1, "midrank")
        low, high = pressure.adapt(np.array([[0.0, 1.0]]), pressure.fit(bank)).reward[0]
        assert high - low == pytest.approx(0.5, abs=1e-12)


def test_two_levels_by_three_conventions():
    """q = 0.1, k = 4, beta = 0.1: success of the tilt by inclusive T, and of the recursion on the quantiles."""
    scores = winrate.transform(np.array([0.9, 1.0]), 1.0, 4, 0.1)
    tilt = np.array([0.9, 0.1]) * np.exp(scores / 0.1)
    assert tilt[1] / tilt.sum() == pytest.approx(0.3910, abs=1.5e-4)
    found = raw_reward.solve_discrete([0.9, 1.0], 4, 0.1, [9, 1])
    assert np.exp(found.log_p[1]) == pytest.approx(0.3021, abs=5e-5)


def test_a_constant_bank_sends_both_rewards_to_the_top():
    bank = np.zeros((1, 30))
    pressure = WinRate(4, 0.1)
    scores = pressure.adapt(np.array([[0.0, 1.0]]), pressure.fit(bank)).reward[0]
    assert scores[0] == scores[1] == pytest.approx(winrate.table(30, 4, 0.1)[-1])
    assert scores[0] / 0.1 == pytest.approx(2.35, abs=5e-3)


def test_a_standardised_group_of_two_values_knows_no_k():
    for k in (1, 2, 4):
        group = winrate.transform(np.array([0.3] * 7 + [1.0]), 1.0, k, 0.1)
        standard = (group - group.mean()) / group.std()
        np.testing.assert_allclose(standard, [-0.378] * 7 + [2.646], atol=5e-4)


def test_the_papers_regime():
    """beta = 5e-4: a_4 is 4 without a success and next to nothing with one."""
    a = binary.solve_counts([0, 1, 3, 15, 27], 30, 4, 5e-4).a
    np.testing.assert_allclose(a, [4, 0.0028, 0.0023, 0.0013, 0.0004], atol=5e-5)
    assert float(solved(0.01, 4, 5e-4).a) == pytest.approx(0.0034, abs=5e-5)
    table = binary.solve_counts(np.arange(1, 30), 30, 4, 5e-4)
    targets = table.a - 5e-4 * table.log_z
    assert np.abs(targets).max() < 4e-3


@pytest.mark.parametrize("beta", [2.5e-4, 5e-4, 1e-3])
def test_dpo_strengths_on_the_papers_grid(beta):
    """k = 2: between 0.09 and 0.25, and 2.1 to 2.4 times apart from easy to hard."""
    table = binary.dpo_beta(binary.solve_counts(np.arange(1, 30), 30, 2, beta, binary.DPO_ALPHA))
    assert 0.085 < table[0] < 0.255
    assert table[0] == table.min()


def test_p_star_is_not_monotone_in_k_but_the_optimal_value_is():
    ks = (1, 2, 4, 8)
    p = np.array([float(solved(0.1, k, 0.5).p) for k in ks])
    np.testing.assert_allclose(p, [0.4509, 0.4754, 0.3951, 0.2982], atol=5e-5)
    kl = p * np.log(p / 0.1) + (1 - p) * np.log((1 - p) / 0.9)
    value = [1 - (1 - x) ** k - 0.5 * d for x, k, d in zip(p, ks, kl, strict=True)]
    assert value == sorted(value)


@pytest.mark.parametrize(("estimator", "bias", "rmse"), [("plug_in", 2.585, 3.04), ("posterior", 0.021, 0.086)])
def test_risk_of_the_two_estimates(estimator, bias, rmse):
    """k = 4, beta = 0.1, q = 0.01, M = 30."""
    bank = (np.arange(30) < np.arange(31)[:, None]).astype(float)
    table = Binary(4, 0.1, estimator=estimator).fit(bank).a
    error = finite_bank.error(table, solved(0.01, 4, 0.1).a, 0.01)
    assert error.bias == pytest.approx(bias, abs=1e-3)
    assert np.hypot(error.sigma, error.bias) == pytest.approx(rmse, abs=5e-3)


def test_at_even_odds_the_plug_in_has_the_smaller_bias():
    bank = (np.arange(30) < np.arange(31)[:, None]).astype(float)
    bias = [
        abs(float(finite_bank.error(Binary(4, 0.1, estimator=e).fit(bank).a, solved(0.5, 4, 0.1).a, 0.5).bias))
        for e in ("plug_in", "posterior")
    ]
    assert bias[0] < bias[1]


def test_pkpo():
    np.testing.assert_allclose(estimators.pkpo([1, 1, 1, 0, 0, 0, 0, 0], 4) * 8 / 4, [2 / 7] * 3 + [0] * 5, atol=1e-12)
    np.testing.assert_allclose(estimators.pkpo([0.2, 0.5, 0.9], 2), [0, 0.1, 0.36667], atol=5e-6)
    np.testing.assert_allclose(estimators.pkpo([1, 1, 1, 0, 0, 0, 0, 0], 4), [1 / 7] * 3 + [0] * 5, atol=1e-12)
    np.testing.assert_allclose(estimators.pkpo([0, 0, 1, 0], 4), [0, 0, 1, 0], atol=1e-12)
    extremes = [estimators.pkpo_leave_one_out(r, 1) for r in ([0.0, 1.0], [1.0, 0.0])]
    assert (np.min(extremes), np.max(extremes)) == pytest.approx((-1, 0.5))


def test_sampling_more_for_unsolved_prompts_alone_is_biased():
    """90 more completions where 30 show no success, all pooled: +0.0055 at q = 0.01."""
    q, first, more = 0.01, np.arange(31), np.arange(91)
    none = binom.pmf(0, 30, q)
    again = (binom.pmf(more, 90, q) * more / 120).sum()
    estimate = (binom.pmf(first, 30, q) * np.where(first > 0, first / 30, 0)).sum() + none * again
    assert estimate - q == pytest.approx(0.0055, abs=5e-5)


def test_what_seeds_can_show():
    """Two-sided sign flips, and replicates for an equivalence (TOST, 5 %, power 80 %) at a paired sd of 5 points."""
    np.testing.assert_allclose([2 / 2**5, 2 / 2**8], [0.0625, 0.0078], atol=5e-5)
    for margin, n in ((3, 24), (0.5, 856)):
        need = ((norm.ppf(0.95) + norm.ppf(0.9)) * 5 / margin) ** 2
        assert 0 <= round(n - need) <= 2  # Student's t asks for up to two more

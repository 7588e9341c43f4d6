import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from kappo.theory import binary, finite_bank, winrate
from tests.golden import adapter, records

qs = st.floats(0, 1)
ks = st.integers(1, 32)
betas = st.floats(-3, 1).map(lambda e: 10.0**e)


def test_golden():
    assert len(records("sensitivity")) == 52
    for inputs, want in records("sensitivity"):
        got = adapter.sensitivity(*(inputs[name] for name in ("k", "beta", "M", "q")))
        for name, value in got.items():
            if want[name] is None:
                assert np.isnan(value), (inputs, name)
            else:
                np.testing.assert_allclose(value, want[name], rtol=1e-10, atol=1e-12, err_msg=f"{inputs} {name}")


@given(total=st.integers(1, 300), q=qs)
def test_binomial(total, q):
    np.testing.assert_allclose(finite_bank.binomial(total, q), binom.pmf(np.arange(total + 1), total, q), atol=1e-13)


def test_numbers_of_the_paper():
    """Section K at M = 30, beta = 0.1, k = 4."""
    assert finite_bank.p_star(30, 4, 0.1, 0.1).bias == pytest.approx(-0.028, abs=5e-4)
    assert finite_bank.binomial(30, 0.1)[0] == pytest.approx(0.042, abs=5e-4)
    assert finite_bank.binomial(30, 0.99)[-1] == pytest.approx(0.740, abs=5e-4)
    assert binary.solve_counts([1], 30, 4, 0.1).p[0] == pytest.approx(0.553, abs=5e-4)


def test_plug_in_multiplier_at_rare_successes():
    """The mean of the plug-in a_4 in the papers' regime and at beta = 0.1: far above the true one."""
    for q, beta, mean, true in ((0.01, 5e-4, 2.96, 0.0034), (0.1, 0.1, 0.42542, 0.25951)):
        exact = float(binary.solve(binary.logit(q), 4, beta).a)
        assert exact == pytest.approx(true, rel=0.02)
        assert exact + finite_bank.a_k(30, 4, beta, q).bias == pytest.approx(mean, rel=2e-3)


def test_sampled_banks_agree():
    rng = np.random.default_rng(0)
    successes = rng.binomial(30, 0.2, size=200_000)
    drawn = binary.solve_counts(successes, 30, 4, 0.1).p
    error = finite_bank.p_star(30, 4, 0.1, 0.2)
    exact = float(binary.solve(binary.logit(0.2), 4, 0.1).p)
    assert drawn.mean() - exact == pytest.approx(error.bias, abs=4 * drawn.std() / np.sqrt(len(drawn)))
    assert drawn.std() == pytest.approx(error.sigma, rel=0.02)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_leading_terms(q):
    """Lemma K.1: at M = 3,000 the first-order noise and bias of p* are right to a part in a hundred."""

    def p(x):
        return binary.solve(binary.logit(x), 4, 0.1).p

    h = 1e-4
    slope, curvature = (p(q + h) - p(q - h)) / (2 * h), (p(q + h) - 2 * p(q) + p(q - h)) / h**2
    exact, leading = finite_bank.p_star(3000, 4, 0.1, q), finite_bank.first_order(3000, q, slope, curvature)
    assert exact.sigma == pytest.approx(leading.sigma, rel=0.01)
    assert exact.bias == pytest.approx(leading.bias, rel=0.02)


@given(total=st.integers(2, 100), k=ks, beta=betas, q=qs)
def test_bounds_of_lemma_k3(total, k, beta, q):
    rise = float(winrate.rise(1, 1, k, beta))
    error, bound = finite_bank.score(total, k, beta, q), finite_bank.score_bounds(total, k, beta, q)
    slack = 1e-10 * rise
    assert error.sigma * rise <= bound.sigma + slack
    assert -slack <= error.bias * rise <= bound.bias + slack


def test_uniform_bound_covers():
    """Eq. 157: the largest error over a bank's thresholds passes the bound in at most a share delta of banks."""
    rng, k, beta, delta, total = np.random.default_rng(1), 4, 0.1, 0.2, 30
    grid = np.linspace(0, 1, 301)
    exact = winrate.transform(grid, 1.0, k, beta)
    worst = []
    for _ in range(400):
        below = np.searchsorted(np.sort(rng.random(total)), grid, side="right")
        worst.append(np.abs(winrate.table(total, k, beta)[below] - exact).max())
    assert np.mean(np.array(worst) > finite_bank.uniform_bound(total, k, delta)) <= delta


@pytest.mark.parametrize("q", [-0.1, 1.1, np.nan])
def test_bad_chance(q):
    with pytest.raises(ValueError, match="q must lie"):
        finite_bank.p_star(30, 4, 0.1, q)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappo.theory.winrate import log_c, table, transform
from tests.golden import records

settings = {"k": st.integers(1, 256), "beta": st.floats(-4, 2).map(lambda e: 10.0**e)}
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


def integral(q, k, beta):
    """G(q) = int_0^q exp(T(u) / beta) du by quadrature in log(1 - u + beta / k), where the integrand is smooth."""
    shift = beta / k
    edges = np.linspace(np.log(1 - q + shift), np.log(1 + shift), 61)
    half = np.diff(edges)[:, None] / 2
    away = np.exp(edges[:-1, None] + half * (1 + NODES))
    return (half * WEIGHTS * away * np.exp(transform(np.clip(1 + shift - away, 0, q), 1.0, k, beta) / beta)).sum()


@pytest.mark.parametrize("name", ["log_C", "T"])
def test_golden(name):
    assert len(records("winrate")) == 70
    for inputs, want in records("winrate"):
        k, beta = inputs["k"], inputs["beta"]
        if name == "log_C":
            np.testing.assert_allclose(log_c(k, beta), want["log_C"], rtol=1e-12, atol=1e-13)
            continue
        got, t = table(inputs["M"], k, beta), np.array(want["T"])
        assert (np.abs(got - t) <= 1e-12 * (np.abs(t) + want["Delta_T"])).all(), inputs


@given(**settings)
def test_mean_of_exp_is_one(k, beta):
    assert integral(1.0, k, beta) == pytest.approx(1, rel=1e-9)


@given(q=st.floats(0.01, 0.99), **settings)
def test_solves_equation_12(q, k, beta):
    """exp(T / beta) = C + G^k / beta, the differential equation of which C is the eigenvalue."""
    want = np.logaddexp(log_c(k, beta), k * np.log(integral(q, k, beta)) - np.log(beta))
    assert transform(q, 1.0, k, beta) / beta == pytest.approx(want, rel=1e-9, abs=1e-9 * k)


@given(total=st.integers(1, 200), **settings)
def test_ends_increasing_and_convex(total, k, beta):
    t = table(total, k, beta)
    slack = 1e-12 * np.abs(t[[0, -1]]).max()
    assert t[0] == pytest.approx(beta * log_c(k, beta), rel=1e-14)
    assert t[-1] == pytest.approx(beta * np.logaddexp(log_c(k, beta), -np.log(beta)), rel=1e-12, abs=slack)
    assert (np.diff(t) >= -slack).all()
    assert (np.diff(t, 2) >= -slack).all()


@given(st.floats(-2, 2).map(lambda e: 10.0**e))
def test_k1_is_the_win_rate_itself(beta):
    want = np.arange(9) / 8 - beta * np.log(beta * np.expm1(1 / beta))
    np.testing.assert_allclose(table(8, 1, beta), want, rtol=1e-12, atol=1e-12 * max(1, beta))


@pytest.mark.parametrize("k", [2, 30, 1000])
@pytest.mark.parametrize("beta", [1e-6, 1e-3, 1.0, 100.0])
def test_extreme_settings_stay_finite_and_monotone(k, beta):
    t = table(1000, k, beta)
    assert np.isfinite(t).all()
    assert (np.diff(t) >= -1e-12 * np.abs(t).max()).all()


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize(
    ("successes", "inclusive", "midrank"), [(1, 0.091, 0.241), (15, 0.294, 0.0485), (29, 0.302, 0.010)]
)
def test_two_levels_reverse_the_inclusive_pressure(k, successes, inclusive, midrank):
    wrong = 30 - successes
    upper, lower = transform([30, wrong], 30, k, 0.1)
    half_up, half_down = transform([(30 + wrong) / 2, wrong / 2], 30, k, 0.1)
    if k == 1:
        assert upper - lower == pytest.approx(successes / 30, rel=1e-12)
        assert half_up - half_down == pytest.approx(0.5, rel=1e-12)
    else:
        assert upper - lower == pytest.approx(inclusive, abs=5e-4)
        assert half_up - half_down == pytest.approx(midrank, abs=5e-4)


def test_shape_is_kept():
    assert transform(np.zeros((3, 2, 4)), 4, 3, 0.1).shape == (3, 2, 4)
    assert transform(2, 4, 3, 0.1) == pytest.approx(table(4, 3, 0.1)[2], rel=1e-14)


@pytest.mark.parametrize(
    ("k", "beta"), [(0, 0.1), (-1, 0.1), (1.5, 0.1), (np.nan, 0.1), (2, -1.0), (2, 0.0), (2, np.nan), (2, np.inf)]
)
def test_bad_settings(k, beta):
    name = "k" if k != 2 else "beta"
    for call in (lambda: log_c(k, beta), lambda: table(4, k, beta)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            call()


@pytest.mark.parametrize(("counts", "total"), [(-0.5, 4), (4.5, 4), (np.nan, 4), (0, 0), (0, np.nan)])
@pytest.mark.parametrize("k", [1, 3])
def test_bad_counts(counts, total, k):
    with pytest.raises(ValueError, match="counts must lie in"):
        transform([0, counts], total, k, 0.1)

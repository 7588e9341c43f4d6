import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import log_softmax

from kappo.theory import winrate
from kappo.theory.ties import solve

masses = st.lists(st.integers(1, 20), min_size=1, max_size=12)
betas = st.floats(-4, 1).map(lambda e: 10.0**e)


@pytest.mark.parametrize(("successes", "gap"), [(1, 0.266), (15, 0.151), (29, 0.195)])
def test_two_levels(successes, gap):
    """k = 4, beta = 0.1, a bank of 30."""
    found = solve([30 - successes, successes], 4, 0.1)
    assert found.score[1] - found.score[0] == pytest.approx(gap, abs=5e-4)


def test_two_levels_success_rate():
    assert np.exp(solve([0.9, 0.1], 4, 0.1).log_p[1]) == pytest.approx(0.4448, abs=5e-5)


@pytest.mark.parametrize(("k", "beta"), [(2, 0.1), (4, 0.1), (4, 1.0), (9, 0.3)])
def test_is_the_maximum_of_the_objective(k, beta):
    """E[max of k evenly broken quantiles] by adaptive quadrature, against a general optimiser."""
    q = np.array([0.4, 0.1, 0.3, 0.2])
    edges = np.concatenate([[0], np.cumsum(q)])

    def loss(logits):
        log_p = log_softmax(logits)
        upto = np.concatenate([[0], np.cumsum(np.exp(log_p))])
        lost = quad(lambda u: np.interp(u, edges, upto) ** k, 0, 1, points=edges[1:-1], epsabs=1e-12)[0]
        return beta * np.exp(log_p) @ (log_p - np.log(q)) + lost

    direct = minimize(loss, np.log(q), method="BFGS", options={"gtol": 1e-9})
    found = solve(q, k, beta)
    np.testing.assert_allclose(np.exp(found.log_p), np.exp(log_softmax(direct.x)), atol=2e-6)
    assert loss(found.log_p) <= direct.fun + 1e-10


@given(q=masses, k=st.integers(1, 64), beta=betas)
def test_optimum_is_the_tilt_by_its_own_score(q, k, beta):
    found, share = solve(q, k, beta), np.array(q) / np.sum(q)
    scale = max(1.0, np.abs(found.score / beta).max())
    np.testing.assert_allclose(found.log_p, np.log(share) + found.score / beta, atol=1e-9 * scale)
    assert np.exp(np.log(share) + found.score / beta).sum() == pytest.approx(1, rel=1e-9)
    assert (found.edge[:-1] <= found.score).all()
    assert (found.score <= found.edge[1:]).all()


@given(q=masses, beta=betas)
def test_k1_is_the_mid_rank(q, beta):
    share = np.array(q) / np.sum(q)
    found = solve(q, 1, beta)
    middle = np.cumsum(share) - share / 2
    np.testing.assert_allclose(found.score - found.score[0], middle - middle[0], atol=1e-13)
    np.testing.assert_allclose(np.diff(found.edge), share, atol=1e-13)


def test_many_distinct_rewards_approach_the_continuous_transformation():
    found = solve(np.ones(400), 4, 0.1)
    want = winrate.transform((np.arange(400) + 0.5) / 400, 1.0, 4, 0.1)
    np.testing.assert_allclose(found.score, want, atol=1e-4)


@pytest.mark.parametrize(("k", "beta"), [(1000, 0.1), (1000, 1e-4), (4, 1e-6), (2, 100.0)])
def test_extremes(k, beta):
    found = solve([29, 1, 3], k, beta)
    assert np.isfinite(found.score).all()
    assert np.exp(found.log_p).sum() == pytest.approx(1, rel=1e-12)
    tilt = found.log_p - np.log([29 / 33, 1 / 33, 3 / 33])
    np.testing.assert_allclose(tilt, found.score / beta, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("q", [[], [1.0, 0.0], [1.0, np.nan], [[1.0]], [-1.0]])
def test_bad_masses(q):
    with pytest.raises(ValueError, match="positive numbers"):
        solve(q, 2, 0.1)

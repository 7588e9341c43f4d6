import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from kappo.theory.sharpening import best, gradient, limit, objective, optimum
from tests.golden import adapter, records

KINDS = ["tempered_optimum", "tilted_optimum", "policy_gradient", "no_kl_limits", "autoregressive", "rloo"]
BASE = np.log([0.5, 0.25, 0.2, 0.05])
REWARDS = np.array([0.0, 1.0, 0.0, 1.0])


@pytest.mark.parametrize("kind", KINDS)
def test_golden(kind):
    found = [(i, o) for i, o in records("sharpening") if i["kind"] == kind]
    assert len(found) >= 6
    for inputs, want in found:
        got = adapter.sharpening(**inputs)
        assert got.pop("sequences", None) == want.get("sequences")
        for name in got.keys() & want.keys():
            np.testing.assert_allclose(got[name], want[name], rtol=1e-12, atol=1e-13, err_msg=f"{inputs} {name}")


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.5), (1.25, 0.3), (0.0, 1.0), (2.0, 3.0)])
def test_optimum_is_the_maximum(alpha, beta):
    def loss(logits):
        return -objective(log_softmax(logits), BASE, REWARDS, alpha, beta), -gradient(
            logits, BASE, REWARDS, alpha, beta
        )

    direct = minimize(loss, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-11})
    found = optimum(BASE, REWARDS, alpha, beta)
    np.testing.assert_allclose(np.exp(found.log_pi), np.exp(log_softmax(direct.x)), atol=1e-7)
    assert -direct.fun == pytest.approx(beta * float(found.log_z), rel=1e-9)


@pytest.mark.parametrize(("reward", "beta"), [(REWARDS, 0.0), (1.25 * BASE, 0.0), (0 * BASE, 1.0), (REWARDS, 0.4)])
def test_gradient_by_finite_differences(reward, beta):
    """Task reward, sharpening, tempered, tilted."""
    logits, step = np.array([0.3, -0.2, 0.1, 0.5]), 1e-6
    moves = step * np.eye(4)
    ahead = [objective(log_softmax(logits + move), BASE, reward, 1.25, beta) for move in moves]
    behind = [objective(log_softmax(logits - move), BASE, reward, 1.25, beta) for move in moves]
    numeric = (np.array(ahead) - np.array(behind)) / (2 * step)
    np.testing.assert_allclose(gradient(logits, BASE, reward, 1.25, beta), numeric, atol=1e-9)


def test_limits():
    np.testing.assert_array_equal(best(REWARDS), [False, True, False, True])
    np.testing.assert_allclose(limit(BASE, REWARDS, 1.0), [0, 5 / 6, 0, 1 / 6], atol=1e-15)
    np.testing.assert_allclose(np.exp(optimum(BASE, REWARDS, 1.0, 1e-3).log_pi), limit(BASE, REWARDS, 1.0), atol=1e-12)
    np.testing.assert_allclose(np.exp(optimum(BASE, 0 * BASE, 200.0, 1.0).log_pi), [1, 0, 0, 0], atol=1e-12)


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (1.0, -1.0), (-0.5, 1.0), (np.nan, 1.0), (1.0, np.inf)])
def test_bad_settings(alpha, beta):
    with pytest.raises(ValueError, match="expected alpha >= 0 and beta > 0"):
        optimum(BASE, REWARDS, alpha, beta)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from kappo.theory.binary import dpo_beta, logit, solve, solve_counts
from tests.golden import records

ks = st.integers(1, 1000)
betas = st.floats(-6, 2).map(lambda e: 10.0**e)
logits = st.floats(-27, 27)

GOLDEN = {
    "p_star": ("p", lambda k: 2e-13 + 2e-15 * k, 0.0),
    "log_p_star": ("log_p", lambda k: 1e-11, 1e-15),
    "log_one_minus_p_star": ("log_1mp", lambda k: 1e-13, 1e-13),
    "a_k": ("a", lambda k: 2e-13 + 2e-15 * k, 1e-290),
    "log_a_k": ("log_a", lambda k: 1e-13, 1e-12),
    "beta_eff": ("beta_eff", lambda k: 2e-13 + 2e-15 * k, 0.0),
    "log_beta_eff": ("log_beta_eff", lambda k: 1e-13, 1e-12),
    "log_Z": ("log_z", lambda k: 2e-13 + 2e-15 * k, 0.0),
}


@pytest.mark.parametrize("key", GOLDEN)
def test_golden_optima(key):
    name, rtol, atol = GOLDEN[key]
    for inputs, outputs in records("binary"):
        k = inputs["k"]
        got = getattr(solve(logit(inputs["p_ref"]), k, inputs["beta"]), name)
        np.testing.assert_allclose(got, outputs[key], rtol=rtol(k), atol=atol, err_msg=str(inputs))


@pytest.mark.parametrize("method", ["A*PO", "DPO"])
def test_golden_tables(method):
    tables = [(i, o["table"]) for i, o in records("algorithm1") if i["method"] == method]
    assert len(tables) > 20
    for inputs, table in tables:
        k, beta, total, alpha = inputs["k"], inputs["beta"], inputs["M"], inputs["alpha"]
        got = solve_counts(np.arange(total + 1), total, k, beta, alpha)
        want = {name: np.array([row[name] for row in table]) for name in table[0]}
        rtol = 1e-12 + 4e-15 * k
        np.testing.assert_allclose(got.p, want["p_star"], rtol=rtol)
        np.testing.assert_allclose(got.a, want["a"], rtol=rtol, atol=1e-290)
        np.testing.assert_allclose(got.log_1mp, want["log_one_minus_p_star"], rtol=1e-12, atol=1e-12)
        if method == "DPO":
            np.testing.assert_allclose(dpo_beta(got), want["b"], rtol=rtol)
        else:
            np.testing.assert_allclose(beta * got.log_z, want["ell"], rtol=rtol, atol=1e-15)


@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("k", [1, 2, 16])
def test_no_success_keeps_p_at_zero(k, alpha):
    got = solve_counts([0], 30, k, 0.1, alpha)
    assert (got.p, got.log_1mp, got.log_z) == (0.0, 0.0, 0.0)
    np.testing.assert_allclose([got.a[0], got.beta_eff[0]], [k, 0.1 / k], rtol=1e-15)


def test_all_successes_reward_side():
    many, one = solve_counts([30], 30, 4, 0.1), solve_counts([30], 30, 1, 0.1)
    assert (many.p, many.a, many.beta_eff, many.log_z) == (1.0, 0.0, np.inf, 0.0)
    np.testing.assert_allclose([one.p[0], one.a[0], one.beta_eff[0], one.log_z[0]], [1, 1, 0.1, 10], rtol=1e-15)


def test_all_successes_with_pseudo_count_stay_inside():
    got = solve_counts([30], 30, 4, 0.1, 0.5)
    assert 30 / 30.5 < got.p[0] < 1
    assert 0 < got.a[0] < 4


def test_cap():
    assert dpo_beta(solve(0.0, 1, 5.0)) == 2.0
    assert dpo_beta(solve(0.0, 1, 1.5)) == pytest.approx(1.5, rel=1e-15)
    vanished = solve(50.0, 1000, 1.0)
    assert vanished.a == 0.0
    assert dpo_beta(vanished) == 2.0
    assert dpo_beta(vanished, cap=7.0) == 7.0


@given(ks, betas, logits)
def test_residual_of_equation_6(k, beta, ref):
    got = solve(ref, k, beta)
    reward = np.exp(np.log(k / beta) + (k - 1) * got.log_1mp)
    scale = max(1.0, abs(ref), reward)
    assert abs(got.log_p - got.log_1mp - ref - reward) <= 1e-9 * scale
    assert abs(got.log_a - np.log(k) - (k - 1) * got.log_1mp) <= 1e-9 * max(1.0, abs(got.log_a))
    assert np.logaddexp(got.log_p, got.log_1mp) == pytest.approx(0, abs=1e-12)
    assert 0 <= got.a <= k * (1 + 1e-12)


@pytest.mark.parametrize("k", [1, 2, 4, 8])
@pytest.mark.parametrize("beta", [0.05, 0.1, 0.5, 2.0])
@pytest.mark.parametrize("ref", [0.01, 0.1, 0.5, 0.9])
def test_maximises_the_objective(k, beta, ref):
    def loss(x):
        p, q = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x))
        kl = p * np.log(p / ref) + q * np.log(q / (1 - ref))
        return -(1 - q**k) + beta * kl

    start = logit(ref)
    found = minimize_scalar(loss, bounds=(start, min(start + k / beta, 30)), options={"xatol": 1e-9})
    got = solve(start, k, beta)
    assert got.p == pytest.approx(1 / (1 + np.exp(-found.x)), abs=1e-6)
    assert got.log_z == pytest.approx(np.log(1 - ref + ref * np.exp(got.a / beta)), rel=1e-12)


def test_number_of_the_paper():
    assert solve(logit(0.1), 2, 0.5).p == pytest.approx(0.475357, abs=5e-7)


@given(ks, betas)
def test_easier_prompts_have_larger_p_and_smaller_reward(k, beta):
    got = solve(np.linspace(-20, 20, 81), k, beta)
    assert (np.diff(got.log_p) >= -1e-12).all()
    assert (np.diff(got.log_1mp) <= 1e-12 * np.maximum(1, np.abs(got.log_1mp[1:]))).all()
    if k > 1:
        assert (np.diff(got.log_a) < 0).all()


@given(betas, logits)
def test_k1_is_the_ordinary_tilt(beta, ref):
    got = solve(ref, 1, beta)
    assert got.a == pytest.approx(1, rel=1e-13)
    assert got.beta_eff == pytest.approx(beta, rel=1e-13)
    tilted = ref + 1 / beta
    assert got.log_p - got.log_1mp == pytest.approx(tilted, rel=1e-9, abs=1e-9)
    assert got.log_z == pytest.approx(np.logaddexp(0, tilted) - np.logaddexp(0, ref), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("k", "beta"), [(0, 0.1), (-1, 0.1), (1.5, 0.1), (2, -1.0), (2, 0.0), (2, np.nan), (2, np.inf)]
)
def test_bad_settings(k, beta):
    name = "k" if k != 2 else "beta"
    with pytest.raises(ValueError, match=f"{name} must be"):
        solve(0.0, k, beta)


def test_nan_reference():
    with pytest.raises(ValueError, match="NaN"):
        solve([0.0, np.nan], 2, 0.1)


@pytest.mark.parametrize("successes", [1.5, -1, 31, np.nan])
def test_impossible_successes(successes):
    with pytest.raises(ValueError, match=r"whole numbers in \[0, 30\]"):
        solve_counts([3, successes], 30, 2, 0.1)


@given(k=st.integers(1, 1000), exponent=st.floats(-6, 2), spread=st.floats(0.1, 700), seed=st.integers(0, 99))
def test_many_at_once_are_each_alone(k, exponent, spread, seed):
    """Large arrays start from a grid."""
    logits = np.random.default_rng(seed).normal(scale=spread, size=700)
    logits[:2] = -np.inf, np.inf
    found = solve(logits, k, 10.0**exponent)
    for at in (0, 1, 2, 3, int(np.argmin(logits[2:])) + 2, int(np.argmax(logits[2:])) + 2):
        alone = solve(logits[at], k, 10.0**exponent)
        np.testing.assert_allclose(found.log_a[at], alone.log_a, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.log_1mp[at], alone.log_1mp, rtol=1e-11, atol=1e-12)


@given(beta=betas, at=logits)
def test_k_1_is_exactly_the_ordinary_objective(beta, at):
    found = solve([at, -np.inf, np.inf], 1, beta)
    np.testing.assert_array_equal([found.a, found.log_a, found.beta_eff], [[1.0] * 3, [0.0] * 3, [beta] * 3])

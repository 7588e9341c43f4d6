from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from kappo.theory.estimators import leave_one_out, max_at_k, pass_at_k, pkpo, pkpo_leave_one_out, pkpo_plain
from tests.golden import adapter, records

rewards = st.integers(2, 7).flatmap(
    lambda n: st.lists(st.integers(-3, 3) | st.floats(-1e3, 1e3, width=32), min_size=n, max_size=n)
)


def enumerated(successes, samples, k):
    subsets = list(combinations(range(samples), k))
    return sum(min(subset) < successes for subset in subsets) / len(subsets)


@pytest.mark.parametrize("samples", range(1, 9))
def test_equals_enumeration_of_subsets(samples):
    for k in range(1, samples + 1):
        want = [enumerated(c, samples, k) for c in range(samples + 1)]
        np.testing.assert_allclose(pass_at_k(np.arange(samples + 1), samples, k), want, rtol=1e-13, atol=0)


@given(st.integers(1, 300), st.data())
def test_exact_ends_and_bounds(samples, data):
    k = data.draw(st.integers(1, samples))
    c = data.draw(st.integers(0, samples))
    value = pass_at_k(c, samples, k)
    assert 0 <= value <= 1
    assert (value == 0) == (c == 0)
    if samples - c < k:
        assert value == 1


def test_unbiased_for_independent_samples():
    samples, p = 12, 0.3
    weights = binom.pmf(np.arange(samples + 1), samples, p)
    for k in (1, 4, 12):
        assert weights @ pass_at_k(np.arange(samples + 1), samples, k) == pytest.approx(1 - (1 - p) ** k, rel=1e-12)


def test_shape_is_kept():
    assert pass_at_k(np.zeros((3, 2)), 4, 2).shape == (3, 2)


def test_many_samples_stay_finite_and_monotone():
    samples, counts = 100_000, np.unique(np.geomspace(1, 99_999, 200).astype(int))
    curves = np.stack([pass_at_k(counts, samples, k) for k in (1, 10, 1_000, 50_000, 100_000)])
    assert np.isfinite(curves).all()
    assert (np.diff(curves, axis=0) >= 0).all()
    assert (np.diff(curves, axis=1) >= 0).all()
    np.testing.assert_allclose(curves[0], counts / samples, rtol=1e-12)
    np.testing.assert_allclose(pass_at_k(1, samples, 1_000), 0.01, rtol=1e-12)


@pytest.mark.parametrize(("samples", "k"), [(4, 5), (4, 0), (4, -1)])
def test_k_out_of_range(samples, k):
    with pytest.raises(ValueError, match=f"pass@{k}"):
        pass_at_k([0], samples, k)


@pytest.mark.parametrize("successes", [-1, 5, 0.5, np.nan])
def test_impossible_successes(successes):
    with pytest.raises(ValueError, match="whole numbers"):
        pass_at_k([1, successes], 4, 2)


@pytest.mark.parametrize("kind", ["pass_at_k", "max_at_k", "pkpo"])
def test_golden_estimators(kind):
    found = [(i, o) for i, o in records("estimators") if i["kind"] == kind and o.get("sloo_minus_one", o) is not None]
    assert len(found) > 30
    for inputs, want in found:
        if kind == "pass_at_k":
            got = pass_at_k(inputs["c"], inputs["n"], inputs["k"])
            np.testing.assert_allclose(got, want["value"], rtol=1e-12, err_msg=str(inputs))
            continue
        r, k = inputs["rewards"], inputs["k"]
        got, value = (max_at_k(r, k), want["value"]) if kind == "max_at_k" else (pkpo(r, k), want["sloo_minus_one"])
        np.testing.assert_allclose(got, value, rtol=1e-12, atol=1e-13 * np.abs(r).max(), err_msg=str(inputs))


@given(rewards, st.data())
def test_max_at_k_is_the_mean_maximum_of_subsets(values, data):
    k = data.draw(st.integers(1, len(values)))
    want = np.mean([max(subset) for subset in combinations(values, k)])
    scale = np.abs(values).max()
    assert max_at_k(values, k) == pytest.approx(want, rel=1e-12, abs=1e-13 * scale)
    shuffled = data.draw(st.permutations(values))
    assert max_at_k(shuffled, k) == max_at_k(values, k)


@given(rewards, st.data())
def test_pkpo_is_the_mean_gain_over_subsets(values, data):
    """A sample earns what it adds to the maximum of each k-subset that holds it."""
    n = len(values)
    k = data.draw(st.integers(2, n))
    subsets = list(combinations(range(n), k))
    want = np.zeros(n)
    for subset in subsets:
        for i in subset:
            rest = max(values[j] for j in subset if j != i)
            want[i] += max(values[i] - rest, 0) / len(subsets)
    got = pkpo(values, k)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13 * np.abs(values).max())
    assert (got >= 0).all()


@given(rewards, st.data())
def test_pkpo_plain_and_leave_one_out_by_subsets(values, data):
    """s_i: mean over k-subsets of the maximum of those that hold i; the baseline: max@k of the others."""
    n = len(values)
    k = data.draw(st.integers(1, n))
    subsets = list(combinations(range(n), k))
    want = np.array([sum(max(values[j] for j in s) for s in subsets if i in s) / len(subsets) for i in range(n)])
    slack = 1e-12 * max(1.0, np.abs(values).max())
    np.testing.assert_allclose(pkpo_plain(values, k), want, rtol=1e-12, atol=slack)
    if k == n:
        with pytest.raises(ValueError, match="expected k < n"):
            pkpo_leave_one_out(values, k)
        return
    others = np.array([max_at_k([*values[:i], *values[i + 1 :]], k) for i in range(n)])
    np.testing.assert_allclose(pkpo_leave_one_out(values, k), want - k / (n - 1) * others, rtol=1e-12, atol=slack)


def test_golden_weights_of_all_three_kinds():
    for inputs, want in [r for r in records("estimators") if r[0]["kind"] == "pkpo"]:
        got = adapter.pkpo(inputs["rewards"], inputs["k"])
        for name in ("rho", "s", "sloo", "sloo_minus_one"):
            if want[name] is None:
                assert got[name] is None
            else:
                scale = np.abs(inputs["rewards"]).max()
                np.testing.assert_allclose(got[name], want[name], rtol=1e-12, atol=1e-13 * scale, err_msg=str(inputs))


def test_golden_policy_gradients():
    found = [r for r in records("estimators") if r[0]["kind"] == "max_at_k_policy_gradient"]
    assert found
    for inputs, want in found:
        got = adapter.max_at_k_policy_gradient(*(inputs[name] for name in ("policy_weights", "rewards", "k")))
        np.testing.assert_allclose(got["max_at_k"], want["max_at_k"], rtol=1e-12)
        np.testing.assert_allclose(got["grad_logits"], want["grad_logits"], rtol=1e-12, atol=1e-13)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=12))
def test_leave_one_out(values):
    want = [r - np.mean([*values[:i], *values[i + 1 :]]) for i, r in enumerate(values)]
    np.testing.assert_allclose(leave_one_out(values), want, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(leave_one_out(values).sum(), 0, atol=1e-9)


@pytest.mark.parametrize("n", [10**3, 10**5])
def test_large_groups(n):
    """All three weights of 0/1 rewards stay exact where binomials overflow: with one success s = k / n for it alone."""
    values, k = np.zeros(n), 64
    values[7] = 1.0
    np.testing.assert_allclose(max_at_k(values, k), k / n, rtol=1e-12)
    np.testing.assert_allclose(pkpo(values, k)[[7, 8]], [k / n, 0], rtol=1e-12)
    np.testing.assert_allclose(pkpo_plain(values, k)[[7, 8]], [k / n, k / n * (k - 1) / (n - 1)], rtol=1e-10)
    want = [k / n, k / n * (k - 1) / (n - 1) - k / (n - 1) * k / (n - 1)]
    np.testing.assert_allclose(pkpo_leave_one_out(values, k)[[7, 8]], want, rtol=1e-9)


def test_one_sample_has_no_others():
    with pytest.raises(ValueError, match="at least 2 samples, got 1"):
        leave_one_out([1.0])


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.data())
def test_max_at_k_of_successes_is_pass_at_k(right, data):
    k = data.draw(st.integers(1, len(right)))
    want = pass_at_k(sum(right), len(right), k)
    assert max_at_k(np.array(right, dtype=float), k) == pytest.approx(want, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("dtype", [int, bool, np.int8, np.float32])
def test_whole_rewards_are_not_rounded(dtype):
    values = np.array([0, 1, 0, 0, 1], dtype=dtype)
    assert max_at_k(values, 2) == pytest.approx(0.7, rel=1e-14)
    np.testing.assert_allclose(pkpo(values, 2), [0, 0.3, 0, 0, 0.3], rtol=1e-14)


def test_pkpo_numbers_by_hand():
    np.testing.assert_allclose(pkpo([1.0, 1, 1, 0, 0, 0, 0, 0], 4), [1 / 7] * 3 + [0] * 5, rtol=1e-14)
    np.testing.assert_allclose(pkpo([0.2, 0.5, 0.9], 2), [0, 0.1, 11 / 30], rtol=1e-14, atol=1e-16)
    np.testing.assert_array_equal(pkpo([0.0, 0, 1, 0], 4), [0, 0, 1, 0])
    np.testing.assert_array_equal(pkpo([0.0, 1, 1, 0], 4), 0)


@pytest.mark.parametrize(("n", "k"), [(2, 2), (3, 2), (4, 3), (4, 4)])
def test_unbiased_over_all_groups_of_a_policy(n, k):
    """A softmax policy over three rewards, gradient of E[max of k] by hand: d/dtheta of sum r (F^k - F_below^k)."""
    policy, values = np.array([0.5, 0.3, 0.2]), np.array([0.1, 1.0, 0.4])
    groups = np.array(list(product(range(3), repeat=n)))
    chance = policy[groups].prod(axis=1)
    order = np.argsort(values)
    upto = np.cumsum(policy[order])
    levels = values[order]
    assert chance @ max_at_k(values[groups], k) == pytest.approx(levels @ np.diff(upto**k, prepend=0), rel=1e-13)
    included = values[:, None] <= levels
    d_upto = policy[:, None] * (included - upto)
    want = np.diff(k * upto ** (k - 1) * d_upto, prepend=0, axis=1) @ levels
    score = np.eye(3)[groups] - policy
    got = np.einsum("g,gn,gnc->c", chance, pkpo(values[groups], k), score)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)


def test_leading_axes_are_kept():
    values = np.random.default_rng(0).normal(size=(3, 2, 5))
    assert max_at_k(values, 2).shape == (3, 2)
    assert pkpo(values, 2).shape == (3, 2, 5)
    np.testing.assert_array_equal(pkpo(values, 2)[1, 1], pkpo(values[1, 1], 2))
    assert max_at_k(values, 5).tolist() == values.max(axis=-1).tolist()


@pytest.mark.parametrize("k", [-1, 0, 5])
def test_k_out_of_range_for_rewards(k):
    with pytest.raises(ValueError, match=f"max@{k}"):
        max_at_k(np.zeros(4), k)
    with pytest.raises(ValueError, match=f"PKPO with k = {k}, n = 4"):
        pkpo(np.zeros(4), k)


def test_pkpo_has_no_baseline_at_k1():
    with pytest.raises(ValueError, match="expected 2 <= k <= n"):
        pkpo([0.0, 1.0], 1)


@pytest.mark.parametrize("estimator", [max_at_k, pkpo])
def test_nan_rewards(estimator):
    with pytest.raises(ValueError, match="NaN"):
        estimator([[0.0, 1.0], [np.nan, 1.0]], 2)

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from kappo.theory.estimators import pass_at_k


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

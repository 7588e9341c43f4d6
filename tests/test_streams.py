import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from kappo import streams

KNOWN = [
    ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


@pytest.mark.parametrize(("counter", "key", "want"), KNOWN)
def test_philox_known_answers(counter, key, want):
    words = streams.philox4x32(counter, key)
    assert " ".join(f"{int(word):08x}" for word in words) == want


def test_philox_is_the_same_on_arrays():
    key = (0xA4093822, 0x299F31D0)
    got = np.stack(streams.philox4x32((np.arange(5), 1, np.arange(5) * 7, 3), key), axis=1)
    want = [[int(word) for word in streams.philox4x32((i, 1, 7 * i, 3), key)] for i in range(5)]
    np.testing.assert_array_equal(got, want)


def test_draws_do_not_depend_on_batch_or_order():
    items = [f"p{i}" for i in range(20)]
    whole = streams.uniform(3, "s", items, 2, 5)
    np.testing.assert_array_equal(streams.uniform(3, "s", items[::-1], 2, 5)[::-1], whole)
    np.testing.assert_array_equal([streams.uniform(3, "s", [item], 2, 5)[0] for item in items], whole)


@pytest.mark.parametrize("other", [(4, "s", 1, 2, 3), (3, "t", 1, 2, 3), (3, "s", 0, 2, 3), (3, "s", 1, 1, 3)])
def test_every_coordinate_matters(other):
    assert streams.uniform(*other) != streams.uniform(3, "s", 1, 2, 3)
    assert streams.uniform(3, "s", 1, 2, 3) != streams.uniform(3, "s", 1, 2, 4)


def test_sample_and_position_are_not_exchangeable():
    assert streams.uniform(0, "s", 1, 2, 3) != streams.uniform(0, "s", 1, 3, 2)


def test_items_beyond_32_bits_differ_from_those_below():
    assert streams.uniform(0, "s", [7]) != streams.uniform(0, "s", [7 + 2**32])


def test_numbers_and_their_text_are_different_items():
    assert streams.uniform(0, "s", [7]) != streams.uniform(0, "s", ["7"])
    np.testing.assert_array_equal(streams.item_keys([0, 7]), [0, 7])
    np.testing.assert_array_equal(streams.item_keys(["a", "b"]), [streams.digest("a"), streams.digest("b")])


def test_digest_separates_its_parts():
    assert len({streams.digest("ab", "c"), streams.digest("a", "bc"), streams.digest("abc"), streams.digest(1, 2)}) == 4


def test_broadcasting():
    got = streams.uniform(1, "s", np.arange(3)[:, None, None], np.arange(4)[:, None], np.arange(5))
    assert got.shape == (3, 4, 5)
    assert got[2, 3, 4] == streams.uniform(1, "s", 2, 3, 4)
    assert len(np.unique(got)) == 60


@pytest.mark.parametrize("axis", ["items", "sample", "position"])
def test_uniform_along_every_axis(axis):
    coordinates = {"items": 5, "sample": 0, "position": 0, axis: np.arange(20_000)}
    drawn = streams.uniform(11, "ks", **coordinates)
    assert kstest(drawn, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.03
    assert drawn.min() > 0
    assert drawn.max() < 1


def test_normal():
    drawn = streams.normal(11, "ks", np.arange(20_000))
    assert kstest(drawn, "norm").pvalue > 1e-3
    assert np.isfinite(drawn).all()


@given(st.integers(0, 2**31), st.integers(0, 200), st.integers(0, 9))
def test_permutation_is_one(seed, size, epoch):
    np.testing.assert_array_equal(np.sort(streams.permutation(seed, "p", size, epoch)), np.arange(size))


def test_permutation_changes_with_epoch_and_is_fair():
    orders = np.stack([streams.permutation(0, "p", 6, epoch) for epoch in range(3_000)])
    assert len(np.unique(orders, axis=0)) > 650
    shares = np.stack([(orders == i).mean(axis=0) for i in range(6)])
    np.testing.assert_allclose(shares, 1 / 6, atol=0.03)


@given(st.integers(1, 40), st.data())
def test_batches_are_distinct_within_an_epoch(size, data):
    batch = data.draw(st.integers(1, size))
    per_epoch = size // batch
    for epoch in range(3):
        steps = range(epoch * per_epoch, (epoch + 1) * per_epoch)
        drawn = np.concatenate([streams.batch_indices(1, "b", size, batch, step) for step in steps])
        assert len(set(drawn)) == len(drawn) == per_epoch * batch
        assert set(drawn) <= set(range(size))


def test_batches_cover_every_epoch_in_another_order():
    epochs = [[streams.batch_indices(1, "b", 12, 4, 3 * e + i) for i in range(3)] for e in range(2)]
    first, second = (np.concatenate(epoch) for epoch in epochs)
    assert set(first) == set(second) == set(range(12))
    assert (first != second).any()


@pytest.mark.parametrize("batch", [0, 5])
def test_impossible_batch(batch):
    with pytest.raises(ValueError, match=f"a batch of {batch} out of 4"):
        streams.batch_indices(0, "b", 4, batch, 0)


@pytest.mark.parametrize(
    ("items", "sample", "message"),
    [([1.0], 0, "items of type float64"), ([-1], 0, "item -1"), ([1], -1, "sample from -1"), ([1], 2**32, "sample")],
)
def test_counters_out_of_range_are_refused(items, sample, message):
    with pytest.raises(ValueError, match=message):
        streams.uniform(0, "s", items, sample)

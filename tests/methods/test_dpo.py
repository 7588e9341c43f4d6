import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kappo.methods.base import Batch
from kappo.methods.dpo import DPO
from kappo.pressure.base import Adapted
from kappo.pressure.binary import Binary

RNG = np.random.default_rng(0)
PAIRS, STEPS = 4, 3
LENGTHS = [3, 1, 2, 3, 1, 1, 2, 2]
MASK = (np.arange(STEPS) < np.array(LENGTHS)[:, None]).astype(float)
LOGPROBS = -RNG.exponential(size=(2 * PAIRS, STEPS))
REF = -RNG.exponential(size=(2 * PAIRS, STEPS)) * MASK
BETA = [0.1, 0.5, 2.0, 0.02]
METHODS = [DPO(smoothing, scale) for smoothing in (0.0, 0.3) for scale in ("raw", "per_beta")]


def adapted(beta=BETA):
    wide = np.repeat(np.array(beta, dtype=float)[:, None], 2, axis=1)
    return Adapted(np.tile([1.0, 0.0], (len(beta), 1)), np.ones(wide.shape), wide, np.zeros(wide.shape))


def losses(logprobs, method, mask=MASK, ref=REF, beta=BETA):
    signal = method.signal(Batch(mask, ref, ref, adapted(beta)))
    made = {name: torch.from_numpy(np.array(value)) for name, value in signal.items()}
    return method.loss(torch.as_tensor(logprobs), torch.from_numpy(mask), made)


def by_hand(logprobs, method):
    found = []
    for pair in range(PAIRS):
        h = 0.0
        for row, sign in ((2 * pair, 1), (2 * pair + 1, -1)):
            h += sign * sum(logprobs[row][t] - REF[row, t] for t in range(LENGTHS[row]))
        agree = 1 / (1 + math.exp(-BETA[pair] * h))
        smoothing = method.label_smoothing
        loss = -(1 - smoothing) * math.log(agree) - smoothing * math.log(1 - agree)
        found.append(loss / BETA[pair] if method.loss_scale == "per_beta" else loss)
    return found


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_loss_by_hand(method):
    np.testing.assert_allclose(losses(LOGPROBS, method), by_hand(LOGPROBS, method), rtol=1e-12)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_gradient_by_finite_differences(method):
    logprobs = torch.tensor(LOGPROBS, requires_grad=True)
    losses(logprobs, method).sum().backward()
    for i in range(2 * PAIRS):
        for t in range(STEPS):
            shifted = [LOGPROBS.copy(), LOGPROBS.copy()]
            shifted[0][i, t] += 1e-5
            shifted[1][i, t] -= 1e-5
            want = (by_hand(shifted[0], method)[i // 2] - by_hand(shifted[1], method)[i // 2]) / 2e-5
            assert float(logprobs.grad[i, t]) == pytest.approx(want, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_padding_does_not_matter(method):
    wider = np.pad(np.where(MASK == 1, LOGPROBS, 99.0), ((0, 0), (0, 3)), constant_values=-7.0)
    got = losses(wider, method, np.pad(MASK, ((0, 0), (0, 3))), np.pad(REF, ((0, 0), (0, 3))))
    np.testing.assert_array_equal(got, losses(LOGPROBS, method))


def test_per_beta_pulls_every_pair_alike_at_the_start():
    start = torch.tensor(REF, requires_grad=True)
    losses(start, DPO(loss_scale="per_beta")).sum().backward()
    np.testing.assert_allclose(start.grad, MASK * np.tile([-0.5, 0.5], PAIRS)[:, None], rtol=1e-12)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_extreme_margins_stay_finite(method):
    logprobs = torch.tensor(np.tile([[-1e4], [0.0]], (PAIRS, STEPS)), requires_grad=True)
    loss = losses(logprobs, method)
    loss.sum().backward()
    assert torch.isfinite(loss).all()
    assert torch.isfinite(logprobs.grad).all()


BANKS = arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 12)), elements=st.sampled_from([0.0, 1.0]))


@given(BANKS, st.data())
def test_select_picks_one_right_and_one_wrong(bank, data):
    usable = DPO().usable(bank)
    np.testing.assert_array_equal(usable, [0 < sum(row) < len(row) for row in bank])
    bank = bank[usable]
    inside = st.floats(0, 1, exclude_min=True, exclude_max=True)
    u = data.draw(arrays(float, (len(bank), 2), elements=inside))
    chosen = DPO().select(bank, u)
    assert chosen.shape == (len(bank), 2)
    for row, (right, wrong) in zip(bank, chosen, strict=True):
        assert (row[right], row[wrong]) == (1, 0)


def test_select_is_uniform_over_right_and_over_wrong():
    row = np.array([0.0, 1, 0, 1, 1, 0, 0, 0])
    u = (np.arange(15) + 0.5) / 15
    chosen = DPO().select(np.tile(row, (15, 1)), np.stack([u, u], axis=1))
    np.testing.assert_array_equal(np.bincount(chosen[:, 0], minlength=8), 5 * (row == 1))
    np.testing.assert_array_equal(np.bincount(chosen[:, 1], minlength=8), 3 * (row == 0))


REFERENCE = torch.tensor([0.06, 0.04, 0.4, 0.3, 0.15, 0.05], dtype=torch.float64)
P_STAR = 0.475357
BETA_EFF = 0.5 / (2 * (1 - P_STAR))
SIGMA = 0.26894142136999512


def descend(method, steps, lr):
    """Success probabilities of exact gradient descent; pairs drawn from the reference, two of six outcomes right."""
    pairs = [(i, j) for i in (0, 1) for j in (2, 3, 4, 5)]
    rows = torch.tensor(pairs).ravel()
    weights = torch.stack([REFERENCE[i] / 0.1 * REFERENCE[j] / 0.9 for i, j in pairs])
    ref, mask = REFERENCE.log()[rows][:, None].numpy(), torch.ones(16, 1)
    made = method.signal(Batch(mask.numpy(), ref, ref, adapted([BETA_EFF] * 8)))
    made = {name: torch.from_numpy(np.array(value)) for name, value in made.items()}
    logits = REFERENCE.log().clone().requires_grad_()
    seen = []
    for _ in range(steps):
        logprobs = torch.log_softmax(logits, -1)
        seen.append(float(logprobs.detach()[:2].exp().sum()))
        loss = (weights * method.loss(logprobs.index_select(0, rows)[:, None], mask, made)).sum()
        (gradient,) = torch.autograd.grad(loss, logits)
        logits = (logits - lr * gradient).detach().requires_grad_()
    return seen, torch.softmax(logits, -1).detach()


@pytest.mark.parametrize(("scale", "lr"), [("raw", 25.0), ("per_beta", 25.0 * BETA_EFF)])
def test_labels_of_sigmoid_one_reach_the_optimum(scale, lr):
    seen, final = descend(DPO(SIGMA, scale), 700, lr)
    assert seen[-1] == pytest.approx(P_STAR, abs=1e-6)
    lifted = REFERENCE * torch.exp(torch.tensor([1.0, 1, 0, 0, 0, 0]) / BETA_EFF)
    np.testing.assert_allclose(final, lifted / lifted.sum(), atol=1e-6)


def test_hard_labels_diverge():
    seen, _ = descend(DPO(), 300, 25.0)
    assert (np.diff(seen) > 0).all()
    assert seen[-1] > 0.99


def test_optimum_is_that_of_the_reward_side():
    pressure = Binary(2, 0.5)
    rows = pressure.fit(np.array([[1.0] + [0] * 9]))
    assert rows.p_star[0] == pytest.approx(P_STAR, abs=1e-6)
    assert rows.beta_eff[0] == pytest.approx(BETA_EFF, rel=1e-5)


def test_beta_of_a_pair_is_that_of_its_prompt():
    pressure = Binary(2, 0.5)
    rows = pressure.fit(np.array([[1.0, 0, 0, 0], [1, 1, 1, 0]]), "regularization")
    made = pressure.adapt(np.array([[1.0, 0], [1, 0]]), rows, "regularization")
    zeros = np.zeros((4, 1))
    beta = DPO().signal(Batch(zeros + 1, zeros, zeros, made))["beta"]
    np.testing.assert_array_equal(beta, rows.beta_eff)
    assert beta[0] < beta[1]

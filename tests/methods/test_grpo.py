import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from kappo.methods.base import Batch
from kappo.methods.grpo import GRPO
from kappo.pressure.base import Adapted
from kappo.pressure.binary import Binary

RNG = np.random.default_rng(0)
GROUPS, N, STEPS = 3, 4, 5
UNITS = GROUPS * N
LENGTHS = [5, 1, 3, 2, 4, 4, 1, 5, 2, 2, 3, 5]
MASK = (np.arange(STEPS) < np.array(LENGTHS)[:, None]).astype(float)
LOGPROBS = -RNG.exponential(size=(UNITS, STEPS))
BEHAVIOUR = (LOGPROBS + RNG.normal(scale=0.4, size=(UNITS, STEPS))) * MASK
REF = -RNG.exponential(size=(UNITS, STEPS)) * MASK
REWARDS = np.array([[1.0, 0, 0, 1], [0.2, 0.9, 0.5, 0.5], [1, 0, 0, 0]])
SCALE, BETA = [2.0, 0.3, 1.0], [0.1, 0.5, 1.5]
METHODS = [
    GRPO(samples_per_prompt=N, standardize=standardize, interface=interface)
    for standardize in (True, False)
    for interface in ("reward", "regularization")
]


def adapted(rewards=REWARDS, scale=SCALE, beta=BETA):
    wide = [np.broadcast_to(np.array(v, dtype=float)[:, None], rewards.shape) for v in (scale, beta)]
    return Adapted(rewards, *wide, np.zeros(rewards.shape))


def tensors(signal):
    return {name: torch.from_numpy(np.array(value)) for name, value in signal.items()}


def losses(logprobs, method, width=0, fill=0.0):
    mask, ref, behaviour = (np.pad(v, ((0, 0), (0, width))) for v in (MASK, REF, BEHAVIOUR))
    signal = method.signal(Batch(mask, ref, behaviour, adapted()))
    return method.loss(torch.as_tensor(logprobs), torch.from_numpy(mask), tensors(signal))


def by_hand(logprobs, method):
    found = []
    for i in range(UNITS):
        group = REWARDS[i // N].tolist()
        mean = sum(group) / N
        advantage = SCALE[i // N] * (group[i % N] - mean)
        if method.standardize:
            advantage /= math.sqrt(sum((r - mean) ** 2 for r in group) / (N - 1)) + 1e-6
        surrogate = log_ratio = 0.0
        for t in range(LENGTHS[i]):
            ratio = math.exp(logprobs[i][t] - BEHAVIOUR[i, t])
            surrogate += min(ratio * advantage, min(max(ratio, 0.8), 1.2) * advantage)
            log_ratio += logprobs[i][t] - REF[i, t]
        penalty = BETA[i // N] / 2 * log_ratio**2 if method.interface == "regularization" else 0.0
        found.append((penalty - surrogate) / LENGTHS[i])
    return found


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_loss_by_hand(method):
    np.testing.assert_allclose(losses(LOGPROBS, method), by_hand(LOGPROBS, method), rtol=1e-12, atol=1e-14)


def test_clip_binds_on_both_sides_and_only_where_it_should():
    method = METHODS[0]
    logprobs = torch.tensor(LOGPROBS, requires_grad=True)
    losses(logprobs, method).sum().backward()
    ratio = np.exp(LOGPROBS - BEHAVIOUR)
    up = (REWARDS - REWARDS.mean(1, keepdims=True)).ravel()[:, None] * MASK
    stopped = ((ratio > 1.2) & (up > 0)) | ((ratio < 0.8) & (up < 0))
    assert stopped[up > 0].any()
    assert stopped[up < 0].any()
    assert ((ratio > 1.2) & (up < 0)).any()
    assert ((ratio < 0.8) & (up > 0)).any()
    np.testing.assert_array_equal(logprobs.grad == 0, stopped | (up == 0))


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_gradient_by_finite_differences(method):
    logprobs = torch.tensor(LOGPROBS, requires_grad=True)
    losses(logprobs, method).sum().backward()
    for i in range(UNITS):
        for t in range(STEPS):
            shifted = [LOGPROBS.copy(), LOGPROBS.copy()]
            shifted[0][i, t] += 1e-5
            shifted[1][i, t] -= 1e-5
            want = (by_hand(shifted[0], method)[i] - by_hand(shifted[1], method)[i]) / 2e-5
            assert float(logprobs.grad[i, t]) == pytest.approx(want, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_padding_does_not_matter(method):
    filled = torch.tensor(np.where(MASK == 1, LOGPROBS, 99.0))
    wider = torch.nn.functional.pad(filled, (0, 3), value=-7.0).requires_grad_()
    loss = losses(wider, method, width=3)
    np.testing.assert_allclose(loss.detach(), losses(LOGPROBS, method), rtol=1e-14)
    loss.sum().backward()
    assert not wider.grad[torch.from_numpy(np.pad(MASK, ((0, 0), (0, 3)))) == 0].any()


GROUP = st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=8, max_size=8).filter(lambda g: len(set(g)) > 1)


def advantages(rewards, scale=1.0, **settings):
    rewards = np.array([rewards], dtype=float)
    zeros = np.zeros((rewards.size, 1))
    method = GRPO(samples_per_prompt=rewards.size, **settings)
    return method.signal(Batch(zeros + 1, zeros, zeros, adapted(rewards, [scale], [0.1])))["advantage"]


@given(GROUP, st.floats(1e-3, 1e3))
def test_standardisation_cancels_a_factor_before_it_and_keeps_one_after_it(group, a):
    plain = advantages(group, eps=0.0)
    np.testing.assert_allclose(advantages([a * r for r in group], eps=0.0), plain, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(advantages(group, a, eps=0.0), a * plain, rtol=1e-12)
    np.testing.assert_allclose(
        advantages(group, a, standardize=False), advantages([a * r for r in group], 1, standardize=False)
    )
    assert plain.std(ddof=1) == pytest.approx(1)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1])
def test_flat_groups_give_zero(standardize, reward):
    np.testing.assert_allclose(advantages([reward] * 8, 4.0, standardize=standardize), 0.0, atol=1e-9)


def test_flat_groups_of_zeros_and_ones_give_no_gradient():
    rewards = np.array([[0.0] * N, [1.0] * N, [0.0] * N])
    made = tensors(METHODS[0].signal(Batch(MASK, REF, BEHAVIOUR, adapted(rewards))))
    logprobs = torch.tensor(LOGPROBS, requires_grad=True)
    METHODS[0].loss(logprobs, torch.from_numpy(MASK), made).sum().backward()
    assert not logprobs.grad.any()


def test_reference_is_needed_on_the_regularization_side_only():
    assert [m.needs for m in METHODS[:2]] == [frozenset(), {"ref_logprobs"}]


Q, P_STAR, BETA_0 = 0.1, 0.475357, 0.5
A = 2 * (1 - P_STAR)


def descend(steps=3000, lr=1.0, **settings):
    """Success probability that exact gradient descent reaches with groups of 8: the expectation over all groups."""
    method = GRPO(samples_per_prompt=8, **settings)
    reward_side = method.interface == "reward"
    rewards = (np.arange(8) < np.arange(9)[:, None]).astype(float)
    made = adapted(rewards, [A if reward_side else 1.0] * 9, [BETA_0 if reward_side else BETA_0 / A] * 9)
    right = torch.from_numpy(rewards.ravel() == 1)
    ones, start = np.ones((72, 1)), torch.tensor([Q, 1 - Q], dtype=torch.float64).log()

    def pick(pair):
        return torch.where(right, pair[0], pair[1])[:, None]

    logits = start.clone().requires_grad_()
    for _ in range(steps):
        logprobs = torch.log_softmax(logits, -1)
        p = float(logprobs[0].detach().exp())
        weights = torch.from_numpy(binom.pmf(np.arange(9), 8, p)).repeat_interleave(8) / 8
        batch = Batch(ones, pick(start).numpy(), pick(logprobs.detach()).numpy(), made)
        loss = (weights * method.loss(pick(logprobs), torch.ones(72, 1), tensors(method.signal(batch)))).sum()
        (gradient,) = torch.autograd.grad(loss, logits)
        logits = (logits - lr * gradient).detach().requires_grad_()
    return float(torch.softmax(logits, -1)[0].detach())


def test_fixed_point_without_std_is_that_of_a_reward_shrunk_by_the_groups_own_mean():
    want = 1 / (1 + math.exp(-math.log(Q / (1 - Q)) - 7 / 8 * A / BETA_0))
    assert want == pytest.approx(0.410724, abs=1e-6)
    assert descend(standardize=False, interface="regularization") == pytest.approx(want, abs=1e-6)


def test_fixed_point_with_std_overshoots_the_optimum():
    assert descend(interface="regularization") == pytest.approx(0.9246, abs=5e-5)


@pytest.mark.parametrize("standardize", [True, False])
def test_reward_side_has_no_kl_and_goes_to_one(standardize):
    assert descend(standardize=standardize, interface="reward", steps=600) > 0.99


def test_pressure_reaches_the_advantage():
    bank = np.array([[1.0] + [0] * 9, [0.0] * 10])
    rewards = np.array([[1.0, 0, 0, 0], [1, 0, 0, 0]])
    pressure = Binary(2, 0.5)
    made = pressure.adapt(rewards, pressure.fit(bank))
    zeros = np.zeros((8, 1))
    found = GRPO(samples_per_prompt=4, standardize=False).signal(Batch(zeros + 1, zeros, zeros, made))["advantage"]
    np.testing.assert_allclose(found, np.outer([A, 2.0], [0.75, -0.25, -0.25, -0.25]).ravel(), rtol=1e-5)

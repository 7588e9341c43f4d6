import itertools

import numpy as np
import pytest
import torch

from kappo.config import build
from kappo.errors import UserError
from kappo.methods.base import Batch
from kappo.methods.pkpo import PKPO
from kappo.pressure.none import NoPressure

RNG = np.random.default_rng(0)
STEPS = 4
LENGTHS = [4, 1, 2, 4, 3, 2, 1, 3]
MASK = (np.arange(STEPS) < np.array(LENGTHS)[:, None]).astype(float)
LOGPROBS = -RNG.exponential(size=(8, STEPS))
REWARDS = np.array([[0.3, 1.0, 0.0, 0.3], [0.2, 0.5, 0.9, -1.0]])


def losses(logprobs, method, rewards=REWARDS, mask=MASK):
    pressure = NoPressure(0.1)
    adapted = pressure.adapt(rewards, pressure.fit(np.zeros((len(rewards), 3))))
    zeros = np.zeros_like(mask)
    signal = method.signal(Batch(mask, zeros, zeros, adapted))
    made = {name: torch.from_numpy(np.array(value)) for name, value in signal.items()}
    return method.loss(torch.as_tensor(logprobs), torch.from_numpy(mask), made)


def by_hand(logprobs, k):
    found = []
    for i in range(8):
        group, own = REWARDS[i // 4], REWARDS[i // 4, i % 4]
        others = [group[j] for j in range(4) if j != i % 4]
        gains = [max(own - max(chosen), 0) for chosen in itertools.combinations(others, k - 1)]
        score = k / 4 * sum(gains) / len(gains)
        found.append(-4 * score * sum(logprobs[i][t] for t in range(LENGTHS[i])))
    return found


@pytest.mark.parametrize("k", [2, 3, 4])
def test_loss_by_hand(k):
    np.testing.assert_allclose(losses(LOGPROBS, PKPO(k, 4)), by_hand(LOGPROBS, k), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("k", [2, 4])
def test_gradient_by_finite_differences(k):
    logprobs = torch.tensor(LOGPROBS, requires_grad=True)
    losses(logprobs, PKPO(k, 4)).sum().backward()
    for i in range(8):
        for t in range(STEPS):
            shifted = [LOGPROBS.copy(), LOGPROBS.copy()]
            shifted[0][i, t] += 1e-5
            shifted[1][i, t] -= 1e-5
            want = (by_hand(shifted[0], k)[i] - by_hand(shifted[1], k)[i]) / 2e-5
            assert float(logprobs.grad[i, t]) == pytest.approx(want, rel=1e-8, abs=1e-9)


def test_padding_does_not_matter():
    wider = np.pad(np.where(MASK == 1, LOGPROBS, 99.0), ((0, 0), (0, 3)), constant_values=-7.0)
    got = losses(wider, PKPO(2, 4), mask=np.pad(MASK, ((0, 0), (0, 3))))
    np.testing.assert_array_equal(got, losses(LOGPROBS, PKPO(2, 4)))


def policy_gradient(method, rewards, logits):
    """Gradient of the expected mean loss, by all groups of n samples of a softmax."""
    logits = logits.clone().requires_grad_()
    logprobs = torch.log_softmax(logits, -1)
    total = torch.zeros((), dtype=torch.float64)
    for drawn in itertools.product(range(len(rewards)), repeat=method.samples_per_prompt):
        picks = list(drawn)
        mask = np.ones((len(picks), 1))
        group = losses(logprobs[picks][:, None], method, rewards[picks][None], mask)
        total = total + logprobs.detach()[picks].sum().exp() * group.mean()
    return torch.autograd.grad(total, logits)[0]


@pytest.mark.parametrize(("k", "samples"), [(2, 3), (3, 3), (2, 0), (2, 4)])
@pytest.mark.parametrize("rewards", [[0.0, 0.0, 1.0], [0.3, -0.5, 1.2]])
def test_expected_gradient_is_minus_that_of_max_at_k(k, samples, rewards):
    rewards = np.array(rewards)
    logits = torch.tensor([0.4, 1.0, -0.7], dtype=torch.float64, requires_grad=True)
    p = torch.softmax(logits, -1)
    exact = sum(p[list(d)].prod() * rewards[list(d)].max() for d in itertools.product(range(3), repeat=k))
    exact.backward()
    np.testing.assert_allclose(policy_gradient(PKPO(k, samples), rewards, logits.detach()), -logits.grad, rtol=1e-11)


def test_a_lone_success_of_k_samples_gets_all_and_nothing_is_centred():
    losses_of_minus_one = losses(np.full((4, 1), -1.0), PKPO(4), np.array([[0.0, 1, 0, 0]]), np.ones((4, 1)))
    np.testing.assert_array_equal(losses_of_minus_one, [0, 4, 0, 0])


def test_samples_of_zero_means_k():
    assert [PKPO(5).samples_per_prompt, PKPO(2, 6).samples_per_prompt] == [5, 6]


def test_fewer_samples_than_k_is_an_error():
    with pytest.raises(ValueError, match="samples = 3 with k = 4: max@k needs at least k"):
        PKPO(4, 3)


@pytest.mark.parametrize("node", [{"k": 1}, {"k": 2, "samples": -1}, {"k": 4, "samples": 2}])
def test_settings_are_checked_when_they_are_read(node):
    with pytest.raises(UserError, match=r"k = |samples = "):
        build(PKPO, node)

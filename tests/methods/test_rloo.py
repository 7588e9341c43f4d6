import itertools

import numpy as np
import pytest
import torch

from kappo.methods.base import Batch
from kappo.methods.reinforce import REINFORCE
from kappo.methods.rloo import RLOO
from kappo.pressure.base import Adapted
from kappo.pressure.binary import Binary
from kappo.theory import binary

RNG = np.random.default_rng(0)
LENGTHS = [4, 1, 2, 4, 3, 2]
MASK = (np.arange(4) < np.array(LENGTHS)[:, None]).astype(float)
LOGPROBS, REFERENCE = (-RNG.exponential(size=(6, 4)) * MASK for _ in range(2))
REWARDS, SCALES = np.array([[0.3, 1.0, 0.0], [1.0, 0.5, 0.2]]), np.array([[4.0] * 3, [0.5] * 3])
BETAS = np.array([[0.2] * 3, [0.7] * 3])
KLS = [("k1", "reward"), ("k2", "reward"), ("k3", "reward"), ("k1", "loss"), ("k2", "loss"), ("k3", "loss")]


def losses(logprobs, method, behaviour=LOGPROBS):
    adapted = Adapted(REWARDS, SCALES, BETAS, np.zeros_like(REWARDS))
    signal = method.signal(Batch(MASK, REFERENCE, behaviour, adapted))
    made = {name: torch.from_numpy(np.array(value)) for name, value in signal.items()}
    return method.loss(torch.as_tensor(logprobs), torch.from_numpy(MASK), made)


def by_hand(logprobs, estimator, where, baseline, coefs):
    def divergence(values, i):
        d = [values[i][t] - REFERENCE[i][t] for t in range(LENGTHS[i])]
        kinds = {"k1": sum(d), "k2": sum(d) ** 2 / 2, "k3": sum(np.exp(-x) - 1 + x for x in d)}
        return kinds[estimator]

    total = [SCALES.flat[i] * REWARDS.flat[i] for i in range(6)]
    if where == "reward":
        total = [r - coefs[i] * divergence(LOGPROBS, i) for i, r in enumerate(total)]
    found = []
    for i in range(6):
        others = [total[j] for j in range(6) if j // 3 == i // 3 and j != i]
        advantage = total[i] - (sum(others) / 2 if baseline else 0)
        loss = -advantage * sum(logprobs[i][t] for t in range(LENGTHS[i]))
        found.append(loss + (coefs[i] * divergence(logprobs, i) if where == "loss" else 0))
    return found


@pytest.mark.parametrize(("estimator", "where"), KLS)
@pytest.mark.parametrize("kind", [RLOO, REINFORCE])
def test_loss_by_hand_and_gradient_by_finite_differences(kind, estimator, where):
    method = kind(3, 0.4, estimator, where)
    logprobs = torch.tensor(LOGPROBS, requires_grad=True)
    got = losses(logprobs, method)
    arguments = (estimator, where, kind is RLOO, [0.4] * 6)
    np.testing.assert_allclose(got.detach(), by_hand(LOGPROBS, *arguments), rtol=1e-12)
    got.sum().backward()
    for i, t in ((0, 0), (0, 3), (2, 1), (5, 0)):
        moved = [LOGPROBS.copy(), LOGPROBS.copy()]
        moved[0][i, t] += 1e-5
        moved[1][i, t] -= 1e-5
        want = (by_hand(moved[0], *arguments)[i] - by_hand(moved[1], *arguments)[i]) / 2e-5
        assert float(logprobs.grad[i, t]) == pytest.approx(want, rel=1e-7, abs=1e-9)
    assert float(logprobs.grad[1, 1]) == 0


@pytest.mark.parametrize(("estimator", "where"), [("k1", "reward"), ("k2", "loss")])
def test_regularisation_side_takes_each_prompts_beta(estimator, where):
    method = RLOO(3, 0.4, estimator, where, "regularization")
    want = by_hand(LOGPROBS, estimator, where, True, BETAS.ravel().tolist())
    np.testing.assert_allclose(losses(LOGPROBS, method), want, rtol=1e-12)


def test_reference_is_scored_only_where_it_is_used():
    assert RLOO(3, 0.0).needs == frozenset()
    assert RLOO(3, 0.1).needs == RLOO(3, 0.0, interface="regularization").needs == {"ref_logprobs"}


def descent(method, logits, reference, rewards, a, beta, interface):
    """Expected gradient over all groups of a tabular softmax policy."""
    logits = logits.clone().requires_grad_()
    log_pi = torch.log_softmax(logits, -1)
    total, n = torch.zeros((), dtype=torch.float64), method.samples_per_prompt
    for drawn in itertools.product(range(len(rewards)), repeat=n):
        picks = list(drawn)
        own = log_pi.detach()[picks].numpy()[:, None]
        shape = (1, n)
        scale = a if interface == "reward" else 1.0
        strength = beta if interface == "reward" else beta / a
        adapted = Adapted(rewards[picks][None], np.full(shape, scale), np.full(shape, strength), np.zeros(shape))
        signal = method.signal(Batch(np.ones((n, 1)), reference[picks][:, None], own, adapted))
        made = {name: torch.from_numpy(np.array(value)) for name, value in signal.items()}
        loss = method.loss(log_pi[picks][:, None], torch.ones(n, 1, dtype=torch.float64), made)
        total = total + log_pi.detach()[picks].sum().exp() * loss.mean()
    return torch.autograd.grad(total, logits)[0]


def fixed_point(method, interface="reward", q=0.1, k=2, beta=0.5, steps=4000):
    """Success probability that exact gradient descent reaches: two completions, one right, exact coefficients."""
    optimum = binary.solve(binary.logit(q), k, beta)
    reference, rewards = np.log([1 - q, q]), np.array([0.0, 1.0])
    logits = torch.tensor(reference)
    for _ in range(steps):
        step = descent(method, logits, reference, rewards, float(optimum.a), beta, interface)
        logits = logits - 2.0 * step
        if float(step.abs().max()) < 1e-10:
            break
    return float(torch.softmax(logits, -1)[1])


@pytest.mark.parametrize(
    ("method", "interface", "p"),
    [
        (RLOO(2, 0.5, "k1", "reward"), "reward", 0.475357),
        (RLOO(2, 0.5, "k2", "loss"), "reward", 0.475357),
        (RLOO(2, 0.5, "k3", "loss"), "reward", 0.602566),
        (REINFORCE(1, 0.5, "k1", "reward"), "reward", 0.475357),
        (REINFORCE(1, 0.5, "k2", "loss"), "reward", 0.475357),
        (RLOO(2, 0.5, "k1", "reward", "regularization"), "regularization", 0.475357),
        (RLOO(2, 0.5, "k2", "loss", "regularization"), "regularization", 0.475357),
    ],
)
def test_fixed_points(method, interface, p):
    """q = 0.1, k = 2, beta = 0.5: p* = 0.475357 with the reverse KL's gradient, elsewhere without."""
    assert fixed_point(method, interface) == pytest.approx(p, abs=5e-6)


def test_k1_in_the_loss_does_nothing():
    """Its expected gradient is 0: success goes to 1."""
    assert fixed_point(RLOO(2, 0.5, "k1", "loss"), steps=600) > 0.99


def test_scales_come_from_the_pressure():
    rows = Binary(4, 0.1).fit(np.array([[0.0, 0.0], [0.0, 1.0]]))
    adapted = Binary(4, 0.1).adapt(np.array([[0.0, 1.0], [0.0, 1.0]]), rows)
    signal = RLOO(2, 0.0).signal(Batch(np.ones((4, 1)), np.zeros((4, 1)), np.zeros((4, 1)), adapted))
    np.testing.assert_allclose(signal["advantage"], [-4, 4, -rows.a[1], rows.a[1]])

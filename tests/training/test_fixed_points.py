"""Every arm of the fixed-point table goes where theory says, by exact gradients, and by sampled ones near it."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from kappo.methods.apo import APO
from kappo.methods.qrpo import QRPO
from kappo.methods.rloo import RLOO
from kappo.pressure.binary import Binary
from kappo.pressure.raw_reward import RawReward
from kappo.pressure.winrate import WinRate
from kappo.theory import estimators
from kappo.training import fixed_points, shared_parameters, tabular
from kappo.training.tabular import Problem, Table

ARMS = {arm.name: arm for arm in fixed_points.arms()}

PUBLISHED = {
    "A*PO": 0.475357,
    "A*PO, log Z = 0": 0.475357,
    "A*PO, samples of the reference": 0.475357,
    "A*PO, online a_k": 0.475357,
    "A*PO, bank 6 of 30": 0.3769,
    "A*PO, bank 6 of 30, samples of the reference": 0.4933,
    "RLOO, k1 in reward": 0.475357,
    "RLOO, k2 in loss": 0.475357,
    "RLOO, online a_k": 0.475357,
    "REINFORCE, k1 in reward": 0.475357,
    "RLOO, k3 in loss": 0.602566,
    "REINFORCE, k3 in loss": 0.602566,
    "RLOO, k1 in loss": 1,
    "GRPO, KL side, without std": 0.410724,
    "GRPO, KL side, with std": 0.9246,
    "RLOO, a_k times (R - KL)": 0.450853,
    "RLOO, k = 1": 0.450853,
    "DPO, labels 0 and 1": 1,
    "DPO, labels 0.27 and 0.73": 0.475357,
    "PKPO": 1,
    "PKPO with KL": 0.475357,
    "A*PO, k = 4, beta = 0.1, bank 0 of 30": 1.000,
    "A*PO, k = 4, beta = 0.1, bank 1 of 30": 0.799,
    "A*PO, k = 4, beta = 0.1, bank 3 of 30": 0.598,
    "A*PO, k = 4, beta = 0.1, bank 10 of 30": 0.313,
    "A*PO, win-rate, ties inclusive": 0.391,
    "A*PO, win-rate, ties at random": 0.4448,
}
"""Computed independently of this code; to the digits given."""


def last(steps):
    *_, (_, parameters) = steps
    return parameters


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.mark.parametrize("name", PUBLISHED)
def test_theory_agrees_with_the_published_values(name):
    digits = len(f"{PUBLISHED[name]:g}".partition(".")[2])
    assert ARMS[name].expected == pytest.approx(PUBLISHED[name], abs=0.51 * 10.0**-digits + 2e-5 * (digits < 1))


@pytest.mark.parametrize("name", ARMS)
def test_exact_gradients_reach_what_theory_says(name):
    arm = ARMS[name]
    reached = arm.problem.success(last(tabular.exact(arm.problem, 400, 0.1)))[0]
    if arm.expected in (0.0, 1.0) or arm.expected > 0.999999:
        assert abs(reached - arm.expected) < 0.02  # a limit
        gradient = torch.autograd.grad(arm.problem.exact(p := _at(arm.problem, 9.0, arm.expected)), p)[0][0]
        assert float(gradient[1] - gradient[0]) * (1 if arm.expected > 0.5 else -1) <= 1e-9  # and it still goes there
    else:
        assert reached == pytest.approx(arm.expected, abs=1e-6)


def _at(problem, shift, expected):
    parameters = problem.start()
    parameters[0, 1 if expected > 0.5 else 0] = shift
    return parameters.requires_grad_()


@pytest.mark.slow
@pytest.mark.parametrize("name", ARMS)
def test_sampled_gradients_reach_it_within_their_noise(name):
    arm = ARMS[name]
    ends = [
        arm.problem.success(last(tabular.sampled(arm.problem, 250, 0.1, count=64, seed=seed)))[0] for seed in (1, 2)
    ]
    assert np.mean(ends) == pytest.approx(arm.expected, abs=0.025)


@pytest.mark.parametrize(
    "name", ["A*PO", "GRPO, KL side, with std", "PKPO with KL", "RLOO, k3 in loss", "DPO, labels 0 and 1"]
)
def test_sampled_gradients_are_unbiased(name):
    """Their mean over many groups is the exact one, away from the start."""
    problem = ARMS[name].problem
    parameters = torch.tensor([[0.0, 0.8]], dtype=torch.float64, requires_grad=True)
    (exact,) = torch.autograd.grad(problem.exact(parameters), parameters)
    draws = []
    for step in range(40):
        (found,) = torch.autograd.grad(problem.sampled(parameters, step, 500, 3), parameters)
        draws.append(found.numpy())
    error = np.std(draws, axis=0) / len(draws) ** 0.5
    assert (np.abs(np.mean(draws, axis=0) - exact.numpy()) < 4.5 * error + 1e-12).all()


SHARED = {
    "J_4 itself (online a_k)": (0.9043, 3.145),
    "reward side": (0.8991, 2.813),
    "k = 1": (0.8161, None),
    "regularisation side": (0.7531, 1.397),
    "DPO, labels 0.27 and 0.73": (0.7146, 1.127),
}


def test_with_shared_parameters_the_two_sides_differ():
    found = {row["arm"]: row for row in shared_parameters.rows() if row["arm"] != "J_4"}
    assert set(found) == set(SHARED)
    for name, (objective, shift) in SHARED.items():
        assert found[name]["objective"] == pytest.approx(objective, abs=6e-5)
        if shift:
            assert found[name]["shift"] == pytest.approx(shift, abs=6e-4)


LEVELS = np.array([[0.1, 0.3, 0.35, 0.9]])
COUNTS = (4, 3, 2, 1)


def many_levels(method, pressure, **settings):
    reference = np.array([COUNTS]) / sum(COUNTS)
    bank = np.repeat(LEVELS[0], COUNTS)[None]
    return Problem(Table(reference, LEVELS), method, pressure, pressure.fit(bank, "reward"), **settings)


@pytest.mark.parametrize("method", [APO(), RLOO(2, 0.2)])
def test_raw_reward_pressure_trains_max_at_k_itself(method):
    """Against a direct maximisation of max@3 - beta KL over the simplex."""
    k, beta = 3, 0.2
    problem = many_levels(method, RawReward(k, beta))
    reference = problem.table.reference[0]

    def loss(logits):
        log_pi = logits - np.logaddexp.reduce(logits)
        pi = np.exp(log_pi)
        return -estimators.policy_max_at_k(pi, LEVELS[0], k)[0] + beta * pi @ (log_pi - np.log(reference))

    best = minimize(loss, np.log(reference), tol=1e-12).x
    want = np.exp(best - np.logaddexp.reduce(best))
    np.testing.assert_allclose(problem.policy(last(tabular.exact(problem, 600, 0.1)))[0], want, atol=2e-5)


@pytest.mark.parametrize("ties", ["inclusive", "midrank", "exact"])
def test_win_rate_pressure_reaches_the_tilt_of_its_scores(ties):
    pressure = WinRate(4, 0.1, ties)
    problem = many_levels(APO(), pressure)
    scores = pressure.adapt(LEVELS, problem.rows).reward[0]
    want = problem.table.reference[0] * np.exp(scores / 0.1)
    got = problem.policy(last(tabular.exact(problem, 600, 0.1)))[0]
    np.testing.assert_allclose(got, want / want.sum(), atol=1e-5)


def test_qrpo_on_the_banks_completions_is_a_regression():
    """On distinct rewards its Z is nearly 1: the minimiser of the squared residual under the reference."""
    m, beta = 30, 0.3
    rewards = np.arange(m)[None] / m
    pressure = WinRate(2, beta)
    table = Table(np.full((1, m), 1 / m), rewards)
    problem = Problem(table, QRPO(), pressure, pressure.fit(rewards, "reward"), behaviour="reference")
    scores = pressure.adapt(rewards, problem.rows).reward[0]

    def loss(logits):
        return np.mean((scores - beta * (logits - np.logaddexp.reduce(logits) + np.log(m))) ** 2)

    best = minimize(loss, scores / beta, tol=1e-14).x
    want = np.exp(best - np.logaddexp.reduce(best))
    got = problem.policy(last(tabular.exact(problem, 800, 0.1)))[0]
    np.testing.assert_allclose(got, want, atol=1e-5)
    optimum = np.exp(scores / beta) / np.exp(scores / beta).sum()
    assert np.abs(got - optimum).sum() / 2 < 0.02


def test_solving_again_from_the_trained_policy_drifts():
    """p_theta as the next p_ref: .1 -> .598 -> .744 -> .800 (k = 4, beta = 0.1), not the optimum."""
    q, seen = 0.1, []
    for _ in range(3):
        pressure = Binary(4, 0.1)
        bank = np.array([[0.0] * (1000 - round(1000 * q)) + [1.0] * round(1000 * q)])
        table = Table(np.array([[1 - q, q]]), np.array([[0.0, 1.0]]))
        problem = Problem(table, APO(), pressure, pressure.fit(bank, "reward"))
        q = float(problem.success(last(tabular.exact(problem, 400, 0.1)))[0])
        seen.append(q)
    np.testing.assert_allclose(seen, [0.598, 0.744, 0.800], atol=2e-3)

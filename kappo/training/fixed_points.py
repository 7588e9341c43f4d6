"""Where each method goes, by theory and by training a table: method x pressure x KL, the arms that miss included.

One prompt with two completions, of which the reference takes the right one with probability q; the optimum of eq. 4
(KAPPO) takes it with p*. `expected` is what theory says of the arm, p* or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from kappo.methods.apo import APO
from kappo.methods.base import Batch, Signal
from kappo.methods.dpo import DPO
from kappo.methods.grpo import GRPO
from kappo.methods.kl import Estimator, Where
from kappo.methods.objectives import Sharpening, TaskReward, Tempered, Tilted
from kappo.methods.pkpo import PKPO
from kappo.methods.qrpo import QRPO
from kappo.methods.reinforce import REINFORCE
from kappo.methods.rloo import RLOO
from kappo.pressure.base import Pressure, tilted
from kappo.pressure.binary import Binary
from kappo.pressure.none import NoPressure
from kappo.pressure.raw_reward import RawReward
from kappo.pressure.winrate import WinRate
from kappo.theory import binary, sharpening, ties
from kappo.theory.finite_bank import binomial
from kappo.training import tabular
from kappo.training.tabular import Problem, Table

if TYPE_CHECKING:
    from torch import Tensor

Q, K, BETA = 0.1, 2, 0.5
"""p_ref, k and beta of most arms."""

LABELS = float(expit(-1.0))
"""Label smoothing that gives DPO the finite optimum 1 / beta_eff."""


@dataclass(frozen=True)
class Arm:
    """expected: the success probability that theory gives; optimum: p* of the objective that the arm is meant for."""

    name: str
    why: str
    problem: Problem
    expected: float
    optimum: float

    @property
    def reaches(self) -> bool:
        return abs(self.expected - self.optimum) < 1e-9


@dataclass(frozen=True)
class ScaledAdvantage(RLOO):
    """The mistake: a_k times an advantage that already holds the KL."""

    def signal(self, batch: Batch) -> Signal:
        found = super().signal(replace(batch, adapted=replace(batch.adapted, scale=np.ones_like(batch.adapted.scale))))
        return {"advantage": found["advantage"] * np.ravel(batch.adapted.scale)}


@dataclass(frozen=True)
class PKPOWithKL(PKPO):
    """PKPO with the KL term that the papers' has not: k2 in the loss."""

    kl_coef: float = BETA

    def signal(self, batch: Batch) -> Signal:
        return {**super().signal(batch), "ref_logprobs": batch.ref_logprobs}

    def loss(self, logprobs: Tensor, mask: Tensor, signal: Mapping[str, Tensor]) -> Tensor:
        log_ratio = ((logprobs - signal["ref_logprobs"]) * mask).sum(-1)
        return super().loss(logprobs, mask, signal) + self.kl_coef * log_ratio.square() / 2


def one_prompt(
    method: Any, pressure: Pressure, right: int = 1, total: int = 10, q: float = Q, **settings: Any
) -> Problem:
    """A prompt of true success q whose bank has `right` of `total`; 1 of 10 makes the coefficients exact."""
    bank = np.array([[0.0] * (total - right) + [1.0] * right])
    table = Table(np.array([[1 - q, q]]), np.array([[0.0, 1.0]]))
    return Problem(table, method, pressure, pressure.fit(bank, "reward"), **settings)


def p_star(q: float = Q, k: int = K, beta: float = BETA) -> float:
    return float(binary.solve(binary.logit(q), k, beta).p)


def _tilt(q: float, energy: float) -> float:
    """Success of pi_ref exp(energy R)."""
    return float(expit(logit(q) + energy))


def _root(slope: Any) -> float:
    """The success probability at which the expected gradient vanishes."""
    return float(brentq(slope, 1e-9, 1 - 1e-9, xtol=1e-15))


def _log_ratios(p: float) -> tuple[float, float]:
    """log pi / pi_ref of the wrong and the right completion."""
    return np.log((1 - p) / (1 - Q)), np.log(p / Q)


def _standardized(p: float, n: int) -> float:
    """E[sum over the right ones of the standardised reward] / n, of groups of n with N ~ Binomial(n, p) right."""
    j = np.arange(n + 1)
    std = np.sqrt(j * (n - j) / n / (n - 1))
    advantage = np.divide(1 - j / n, std, out=np.zeros(n + 1), where=std > 0)
    return float(binomial(n, p) @ (j * advantage)) / n


def arms() -> list[Arm]:
    """All arms; q = 0.1, k = 2, beta = 0.5 unless said otherwise, exact coefficients unless a bank is named."""
    return [*_binary_arms(), *_policy_gradient_arms(), *_bank_arms(), *_reward_arms(), *_objective_arms()]


def _binary_arms() -> list[Arm]:
    pressure, best = Binary(K, BETA), p_star()
    a = float(binary.solve(binary.logit(Q), K, BETA).a)
    exact = one_prompt(APO(), pressure)
    no_z = replace(exact, rows=replace(exact.rows, log_z=np.zeros(1)))
    group = GRPO(8, interface="regularization", eps=1e-12)

    def std_slope(p: float) -> float:
        low, high = _log_ratios(p)
        return a * _standardized(p, 8) - BETA * p * (1 - p) * (high - low)

    return [
        Arm("A*PO", "the gradient of -J", exact, best, best),
        Arm("A*PO, log Z = 0", "on-policy log Z is a baseline", no_z, best, best),
        Arm("A*PO, samples of the reference", "exact log Z", replace(exact, behaviour="reference"), best, best),
        Arm("A*PO, online a_k", "a_k of the policy", replace(exact, online=True), best, best),
        Arm("DPO, labels 0 and 1", "no finite optimum", one_prompt(DPO(), pressure), 1.0, best),
        Arm("DPO, labels 0.27 and 0.73", "h = 1 / beta_eff", one_prompt(DPO(LABELS), pressure), best, best),
        Arm("GRPO, no KL", "nothing holds it back", one_prompt(GRPO(8), pressure), 1.0, best),
        Arm(
            "GRPO, KL side, without std",
            "group mean includes self: reward shrunk by 7/8",
            one_prompt(replace(group, standardize=False), pressure),
            _tilt(Q, 7 / 8 * a / BETA),
            best,
        ),
        Arm(
            "GRPO, KL side, with std", "follows no such objective", one_prompt(group, pressure), _root(std_slope), best
        ),
        Arm("PKPO", "no KL term", one_prompt(PKPO(2, 2), NoPressure(BETA)), 1.0, best),
        Arm("PKPO with KL", "pass@k itself under KL", one_prompt(PKPOWithKL(2, 2), NoPressure(BETA)), best, best),
    ]


def _policy_gradient_arms() -> list[Arm]:
    pressure, best = Binary(K, BETA), p_star()
    a = float(binary.solve(binary.logit(Q), K, BETA).a)

    def forward(p: float) -> float:
        return a * p * (1 - p) + BETA * (Q - p)

    kls: list[tuple[Estimator, Where, float, str]] = [
        ("k1", "reward", best, "the reverse KL's gradient"),
        ("k2", "loss", best, "the reverse KL's gradient"),
        ("k3", "loss", _root(forward), "the forward KL's gradient"),
        ("k1", "loss", 1.0, "expected gradient 0"),
        ("k2", "reward", 1.0, "a penalty that grows as the wrong completion gets rare"),
        ("k3", "reward", 1.0, "a penalty that grows as the wrong completion gets rare"),
    ]
    made = []
    for kind, n in ((RLOO, 2), (REINFORCE, 1)):
        for kl, where, p, why in kls:
            method = kind(n, BETA, kl, where)
            made.append(Arm(f"{kind.__name__}, {kl} in {where}", why, one_prompt(method, pressure), p, best))
        for kl, where, p, why in kls[:2]:
            method = kind(n, BETA, kl, where, "regularization")
            name = f"{kind.__name__}, KL side, {kl} in {where}"
            made.append(Arm(name, why, one_prompt(method, pressure), p, best))
    one = one_prompt(RLOO(2, BETA), NoPressure(BETA))
    made.append(Arm("RLOO, k = 1", "k = 1", one, p_star(k=1), p_star(k=1)))
    online = replace(one_prompt(RLOO(2, BETA), pressure), online=True)
    made.append(Arm("RLOO, online a_k", "the gradient of J_k itself", online, best, best))
    wrong = one_prompt(ScaledAdvantage(2, BETA), pressure)
    made.append(Arm("RLOO, a_k times (R - KL)", "a_k cancels: the k = 1 optimum", wrong, p_star(k=1), best))
    return made


def _bank_arms() -> list[Arm]:
    """A bank that is off: pi_ref exp(a(N) R / beta) of the bank's a, and the off-policy bias of its log Z."""
    made, best = [], p_star(Q, 4, 0.1)
    for right in (0, 1, 3, 10):
        problem = one_prompt(APO(), Binary(4, 0.1), right, 30)
        expected = _tilt(Q, float(problem.rows.a[0]) / 0.1)
        name = f"A*PO, k = 4, beta = 0.1, bank {right} of 30"
        made.append(Arm(name, "pi_ref exp(a(N) R / beta)", problem, best if right == 3 else expected, best))
    biased = one_prompt(APO(), Binary(K, BETA), 6, 30)
    a, log_z = float(biased.rows.a[0]), float(biased.rows.log_z[0])

    def off_policy(p: float) -> float:
        low, high = _log_ratios(p)
        residual = a - BETA * log_z - BETA * high, -BETA * log_z - BETA * low
        return Q * (1 - p) * residual[0] - (1 - Q) * p * residual[1]

    name = "A*PO, bank 6 of 30"
    made.append(Arm(name, "pi_ref exp(a(N) R / beta)", biased, _tilt(Q, a / BETA), p_star()))
    stale = replace(biased, behaviour="reference")
    made.append(Arm(f"{name}, samples of the reference", "log Z biases", stale, _root(off_policy), p_star()))
    return made


def _reward_arms() -> list[Arm]:
    """Pressures that transform rewards, on two levels: k = 4, beta = 0.1."""
    k, beta = 4, 0.1
    best = p_star(Q, k, beta)
    random_ties = float(np.exp(ties.solve([0.9, 0.1], k, beta).log_p[1]))
    made = [
        Arm("A*PO, raw-reward pressure", "two levels: binary", one_prompt(APO(), RawReward(k, beta)), best, best),
        Arm(
            "A*PO, win-rate, ties at random",
            "exact for ties",
            one_prompt(APO(), WinRate(k, beta, "exact")),
            random_ties,
            random_ties,
        ),
    ]
    reverse: tuple[tuple[Estimator, Where], ...] = (("k1", "reward"), ("k2", "loss"))
    for kl, where in reverse:
        method = RLOO(2, beta, kl, where)
        name = f"RLOO, {kl} in {where}"
        raw, exact = one_prompt(method, RawReward(k, beta)), one_prompt(method, WinRate(k, beta, "exact"))
        made.append(Arm(f"{name}, raw-reward pressure", "two levels: binary", raw, best, best))
        made.append(Arm(f"{name}, win-rate, ties at random", "exact for ties", exact, random_ties, random_ties))
    qrpo = one_prompt(QRPO(), WinRate(k, beta, "exact"), behaviour="reference")
    made.append(Arm("QRPO on the bank, ties at random", "exact log Z", qrpo, random_ties, random_ties))
    quantiles: tuple[Literal["inclusive", "midrank"], ...] = ("inclusive", "midrank")
    for how in quantiles:
        pressure = WinRate(k, beta, how)
        bank = np.array([[0.0] * 9 + [1.0]])
        scores = pressure.adapt(bank, pressure.fit(bank)).reward
        p = float(tilted(scores / beta)[0][0, -1])
        made.append(Arm(f"A*PO, win-rate, ties {how}", "not eq. 11", one_prompt(APO(), pressure), p, random_ties))
    return made


def _objective_arms() -> list[Arm]:
    """The second paper's four, beta = 0.5: the right completion is the unlikely one."""
    base, rewards = np.log([1 - Q, Q]), np.array([0.0, 1.0])
    made = []
    for name, objective, alpha, beta, task in (
        ("tilted, alpha = 1.25", Tilted(1.25, BETA), 1.25, BETA, 1.0),
        ("tempered, alpha = 1.25", Tempered(1.25), 1.25, 1.0, 0.0),
        ("tempered, alpha = 0.5", Tempered(0.5), 0.5, 1.0, 0.0),
    ):
        p = float(np.exp(sharpening.optimum(base, task * rewards, alpha, beta).log_pi[1]))
        problem = one_prompt(RLOO(2, objective.kl_coef), NoPressure(BETA), objective=objective)
        made.append(Arm(f"RLOO, {name}", "its optimum", problem, p, p))
    best = one_prompt(RLOO(2, 0.0), NoPressure(BETA), objective=TaskReward())
    made.append(Arm("RLOO, task reward", "the best completion", best, 1.0, 1.0))
    sharp = one_prompt(RLOO(2, 0.0), NoPressure(BETA), objective=Sharpening())
    made.append(Arm("RLOO, sharpening", "the mode of the reference", sharp, 0.0, 0.0))
    return made


def trajectory(arm: Arm, steps: int = 300, lr: float = 0.1, every: int = 5) -> Iterator[dict[str, Any]]:
    """Rows arm, why, reaches, step, exact, sampled, expected, optimum: the arm's success probability on its way."""
    about = {"arm": arm.name, "why": arm.why, "reaches": arm.reaches}
    theory = {"expected": arm.expected, "optimum": arm.optimum}
    ways = zip(tabular.exact(arm.problem, steps, lr), tabular.sampled(arm.problem, steps, lr), strict=True)
    for (step, exact), (_, sampled) in ways:
        if step % every == 0 or step == steps:
            reached = {"exact": arm.problem.success(exact), "sampled": arm.problem.success(sampled)}
            yield {**about, "step": step, **{k: float(v[0]) for k, v in reached.items()}, **theory}

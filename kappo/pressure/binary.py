"""pass@k pressure for rewards in {0, 1} (KAPPO, eq. 5-7, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kappo import streams
from kappo.config import within
from kappo.pressure.base import Adapted, BadReward, Floats, Interface, Rows, checked, scaled, tilted
from kappo.theory import binary


@dataclass(frozen=True)
class Binary:
    """pass@k pressure for rewards in {0, 1}: Algorithm 1 of KAPPO.

    On the reward side a success is worth a_k (eq. 7) with p_ref = N / M; on the regularisation side beta becomes
    beta / a_k with p_ref = N / (M + 0.5) and a cap of 2 (eq. 149).

    estimator: how a_k comes from N. `plug_in`: a_k(N / M) (the paper's); `posterior`: the mean of a_k(p) over the
    posterior of p_ref under Jeffreys' prior, which has lower risk (theory/finite_bank.py); `online`: in training
    k (1 - p)^(k-1) of the policy's running success rate p (pressure/online.py), the table being the plug-in's. Reward
    side only.
    zero: what a prompt without a success in the bank gets. `paper`: what the estimator gives, a_k = k with the plug-in
    (eq. 148); `posterior`: the posterior's mean; `drop`: a_k = 0, so that the prompt keeps the reference. Reward side
    only.
    assign: controls. `own`: each prompt its coefficient; `mean`: all prompts the mean one; `permuted`: coefficients
    dealt out at random.
    memory: of estimator `online`, how many completions back the running rate remembers.
    """

    k: int = within(1, at_least=1, at_most=1000)
    beta: float = within(0.1, at_least=1e-6, at_most=100)
    estimator: Literal["plug_in", "posterior", "online"] = "plug_in"
    zero: Literal["paper", "posterior", "drop"] = "paper"
    assign: Literal["own", "mean", "permuted"] = "own"
    memory: float = within(8.0, above=0)

    def __post_init__(self) -> None:
        if self.estimator == "online" and (self.zero, self.assign) != ("paper", "own"):
            raise ValueError(
                f"zero = {self.zero!r}, assign = {self.assign!r} with estimator = 'online', whose a_k is the policy's: "
                "set zero=paper assign=own"
            )

    def fit(self, bank_rewards: Floats, interface: Interface = "reward") -> Rows:
        """bank_rewards: (P, M), each 0 or 1. Raises BadReward for other values."""
        rewards = checked(bank_rewards)
        bad = np.argwhere(~np.isin(rewards, (0.0, 1.0)))
        if len(bad):
            row, column = bad[0]
            raise BadReward(rewards[row, column], int(row), int(column), "0 or 1 (binary pressure)")
        total = rewards.shape[1]
        alpha = binary.DPO_ALPHA if interface == "regularization" else 0.0
        successes = rewards.sum(axis=1).astype(np.int64)
        table = binary.solve_counts(np.arange(total + 1), total, self.k, self.beta, alpha)
        beta_eff = binary.dpo_beta(table) if interface == "regularization" else table.beta_eff
        rows = Rows(
            successes=successes,
            q=successes / (total + alpha),
            p_star=table.p[successes],
            a=table.a[successes],
            beta_eff=beta_eff[successes],
            log_z=table.log_z[successes],
            rewards=rewards,
        )
        return self._controlled(rows, interface)

    def _controlled(self, rows: Rows, interface: Interface) -> Rows:
        """Coefficients by `estimator`, `zero` and `assign`; p_star and log_z follow from them."""
        if self.estimator != "posterior" and (self.zero, self.assign) == ("paper", "own"):
            return rows
        if interface == "regularization":
            if self.zero != "paper" or self.estimator != "plug_in":
                raise ValueError(
                    f"zero = {self.zero!r}, estimator = {self.estimator!r} speak of a_k, which the regularisation side "
                    "does not use; set zero=paper estimator=plug_in"
                )
            paired = (rows.successes > 0) & (rows.successes < rows.rewards.shape[1])
            beta_eff = _assigned(rows.beta_eff, self.assign, paired)
            return self._with(rows, self.beta / beta_eff, beta_eff)
        total, none = rows.rewards.shape[1], rows.successes == 0
        posterior = self._posterior_means(total) if "posterior" in (self.estimator, self.zero) else np.zeros(total + 1)
        a = posterior[rows.successes] if self.estimator == "posterior" else rows.a
        if self.zero != "paper":
            a = np.where(none, 0.0 if self.zero == "drop" else posterior[0], a)
        a = _assigned(a, self.assign, np.ones(len(a), dtype=bool))
        with np.errstate(divide="ignore"):
            return self._with(rows, a, self.beta / a)

    def _with(self, rows: Rows, a: Floats, beta_eff: Floats) -> Rows:
        """Other coefficients, and the optimum that goes with them: logit p* = logit q + a / beta (eq. 4)."""
        delta = a / self.beta
        p_star = np.exp(-binary.softplus(-binary.logit(rows.q) - delta))
        with np.errstate(divide="ignore"):
            log_z = np.logaddexp(np.log1p(-rows.q), np.log(rows.q) + delta)
        return replace(rows, a=a, beta_eff=beta_eff, log_z=log_z, p_star=p_star)

    def at_rate(self, rows: Rows, rate: Floats) -> Rows:
        """The rows with a_k = k (1 - rate)^(k-1), the policy's own (eq. 7 with its success rate for p*)."""
        a = self.k * (1 - rate) ** (self.k - 1)
        with np.errstate(divide="ignore"):
            return self._with(rows, a, self.beta / a)

    def _posterior_means(self, total: int) -> Floats:
        """E[a_k(p)], p ~ Beta(N + 1/2, M - N + 1/2), for N = 0 .. M, by the trapezoidal rule in logit p.

        There the integrand is smooth and falls off at both ends at least like exp(-|logit| / 2).
        """
        logits = np.arange(-90, 90, 0.05)
        log_p, log_1mp = -binary.softplus(-logits), -binary.softplus(logits)
        n = np.arange(total + 1)[:, None]
        posterior, _ = tilted((n + 0.5) * log_p + (total - n + 0.5) * log_1mp)
        return posterior @ binary.solve(logits, self.k, self.beta).a

    def adapt(self, rewards: Floats, rows: Rows, interface: Interface = "reward") -> Adapted:
        """rewards: (P, N) of rollouts on the prompts of `rows`."""
        return scaled(rewards, rows, interface, self.beta)


def _assigned(values: Floats, how: str, taking_part: NDArray[np.bool_]) -> Floats:
    """The values of the prompts that take part, averaged or permuted among them."""
    found = values.copy()
    if how == "mean" and taking_part.any():
        found[taking_part] = values[taking_part].mean()
    elif how == "permuted":
        chosen = np.flatnonzero(taking_part)
        found[chosen] = values[chosen[streams.permutation(0, "pressure/permuted", len(chosen))]]
    return found

"""No pressure: the ordinary @1 method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kappo.config import within
from kappo.pressure.base import Adapted, Floats, Interface, Rows, checked, scaled, tilted, untouched
from kappo.pressure.binary import Binary


@dataclass(frozen=True)
class NoPressure:
    """The ordinary @1 method, for any rewards: a = 1 and Z = mean exp(R / beta) over the bank.

    For rewards in {0, 1} this is binary pressure at k = 1.
    """

    beta: float = within(0.1, at_least=1e-6, at_most=100)

    def fit(self, bank_rewards: Floats, interface: Interface = "reward") -> Rows:
        rewards = checked(bank_rewards)
        if np.isin(rewards, (0.0, 1.0)).all():
            return Binary(1, self.beta).fit(rewards, interface)
        if interface != "reward":
            raise ValueError("the regularisation side takes rewards in {0, 1}, this bank holds others")
        weights, log_z = tilted(rewards / self.beta)
        return untouched(rewards, self.beta, log_z, (weights * rewards).sum(axis=1))

    def adapt(self, rewards: Floats, rows: Rows, interface: Interface = "reward") -> Adapted:
        return scaled(rewards, rows, interface, self.beta)

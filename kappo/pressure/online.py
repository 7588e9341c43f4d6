"""Online pressure: a_k of the policy as it is, from a running success rate, instead of the optimum's from the bank.

a = k (1 - p_theta)^(k-1) is the gradient of pass@k itself (KAPPO eq. 7 with p_theta for p*): the same fixed point, no
bank needed, and right with shared parameters, where p* of one prompt does not hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kappo.pressure.base import Floats, Rows
from kappo.pressure.binary import Binary


@dataclass(frozen=True)
class OnlineRate:
    """rate: each prompt's running success rate, (P,), in (0, 1); `renewed` updates it in place."""

    pressure: Binary
    rate: Floats

    @classmethod
    def of(cls, pressure: Any, rows: Rows) -> OnlineRate | None:
        """Started from the bank, smoothed by Jeffreys' prior; None where the pressure is not online."""
        if getattr(pressure, "estimator", "") != "online":
            return None
        return cls(pressure, (rows.successes + 0.5) / (rows.rewards.shape[1] + 1))

    def renewed(self, rows: Rows, prompts: NDArray[np.int64], rewards: Floats) -> Rows:
        """The prompts' rows with a_k of the rates so far; then the rates move towards the mean of rewards (P, N).

        a_k does not depend on these rewards, or the gradient would be biased.
        """
        n, rate = rewards.shape[1], self.rate[prompts]
        self.rate[prompts] += n / (n + self.pressure.memory) * (rewards.mean(axis=1) - rate)
        return self.pressure.at_rate(rows, rate)

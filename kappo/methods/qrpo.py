"""QRPO: A*PO's regression on the reference's own completions, with quantile rewards (Matrenok et al., 2025).

loss = (R - beta log Z - beta sum_t [log pi - log pi_ref])^2 with R the reward's quantile under the reference, whose
log Z is known exactly: hence the regression holds on any completions, here on those of the bank. Win-rate pressure
hands in T_k = R - beta log Z at k = 1, and its @k version (KAPPO eq. 12). Rewards in {0, 1} have no such Z.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kappo.methods.apo import APO
from kappo.methods.base import Source


@dataclass(frozen=True)
class QRPO(APO):
    """A*PO's settings; samples nothing."""

    source: ClassVar[Source] = "bank"
    pressures: ClassVar[tuple[str, ...]] = ("winrate",)

    def usable(self, bank_rewards: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.ones(len(bank_rewards), dtype=bool)

    def select(self, bank_rewards: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.int64]:
        """Any completion of each prompt, (P, 1)."""
        return (u * bank_rewards.shape[1]).astype(np.int64)

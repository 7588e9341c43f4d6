"""REINFORCE: the policy gradient without a baseline (Williams, 1992); n = 1 completion a prompt will do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kappo.config import within
from kappo.methods.rloo import RLOO


@dataclass(frozen=True)
class REINFORCE(RLOO):
    """RLOO's settings; each reward is its own advantage: unbiased, and of higher variance."""

    samples_per_prompt: int = within(1, at_least=1)

    def advantage(self, rewards: np.ndarray) -> np.ndarray:
        return rewards

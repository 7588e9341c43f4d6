"""The four objectives of *Beyond Distribution Sharpening* (eq. 3-6), for methods with a KL term of their own.

All are J = E_pi[r] - kl_coef E_pi[log pi - alpha log pi_ref]. A method's KL term is the part with alpha = 1; the rest,
kl_coef (alpha - 1) log pi_ref(y), is added to the reward after pressure, which speaks of the task's reward alone.
theory/sharpening.py has the optima.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from kappo.config import within
from kappo.pressure.base import Adapted, Floats


class Objective(Protocol):
    """kl_coef: the strength that the method's KL term must have. needs_reference: whether apply uses log pi_ref."""

    @property
    def kl_coef(self) -> float: ...

    @property
    def needs_reference(self) -> bool: ...

    @property
    def uses_task(self) -> bool: ...

    def apply(self, adapted: Adapted, ref_logprobs: Floats) -> Adapted:
        """adapted: of the task's reward. ref_logprobs: log pi_ref of whole completions, (P, N), in nats."""
        ...


@dataclass(frozen=True)
class TaskReward:
    """Eq. 3: the task's reward and nothing else."""

    kl_coef: float = within(0.0, at_least=0, at_most=0)

    needs_reference = False
    uses_task = True

    def apply(self, adapted: Adapted, ref_logprobs: Floats) -> Adapted:
        return adapted


@dataclass(frozen=True)
class Tilted:
    """Eq. 4: the task's reward under a KL penalty to pi_ref^alpha. alpha = 1 is the objective of KAPPO."""

    alpha: float = within(1.0, at_least=0)
    kl_coef: float = within(0.1, at_least=0)

    uses_task = True

    @property
    def needs_reference(self) -> bool:
        return self.alpha != 1

    def apply(self, adapted: Adapted, ref_logprobs: Floats) -> Adapted:
        if not self.needs_reference:
            return adapted
        return _rewarded(adapted, adapted.scale * adapted.reward + self.kl_coef * (self.alpha - 1) * ref_logprobs)


@dataclass(frozen=True)
class Tempered:
    """Eq. 6: no task reward; the optimum is pi_ref^alpha, normalised."""

    alpha: float = within(1.25, at_least=0)
    kl_coef: float = within(1.0, at_least=1, at_most=1)

    needs_reference = True
    uses_task = False

    def apply(self, adapted: Adapted, ref_logprobs: Floats) -> Adapted:
        return _rewarded(adapted, (self.alpha - 1) * ref_logprobs)


@dataclass(frozen=True)
class Sharpening:
    """Eq. 5: the likelihood under the reference is the reward; the optimum is its mode."""

    alpha: float = within(1.0, above=0)
    kl_coef: float = within(0.0, at_least=0, at_most=0)

    needs_reference = True
    uses_task = False

    def apply(self, adapted: Adapted, ref_logprobs: Floats) -> Adapted:
        return _rewarded(adapted, self.alpha * ref_logprobs)


def _rewarded(adapted: Adapted, rewards: Floats) -> Adapted:
    return replace(adapted, reward=rewards, scale=np.ones(rewards.shape))

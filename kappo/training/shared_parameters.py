"""Where reward side and regularisation side differ: two prompts that share one parameter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit, logit

from kappo.methods.dpo import DPO
from kappo.methods.rloo import RLOO
from kappo.pressure.base import Pressure
from kappo.pressure.binary import Binary
from kappo.pressure.none import NoPressure
from kappo.training import tabular
from kappo.training.fixed_points import LABELS
from kappo.training.tabular import Problem, Table


def problems() -> dict[str, Problem]:
    """Two prompts, q = 0.5 and 0.05, one logit shift for both, k = 4, beta = 0.1: where the two sides differ."""
    q, k, beta = np.array([0.5, 0.05]), 4, 0.1
    bank = np.array([[0.0] * 10 + [1.0] * 10, [0.0] * 19 + [1.0]])
    table = Table(np.stack([1 - q, q], axis=1), np.array([[0.0, 1.0]] * 2))

    def problem(method: Any, pressure: Pressure, **settings: Any) -> Problem:
        return Problem(table, method, pressure, pressure.fit(bank, "reward"), shared=True, **settings)

    pressure = Binary(k, beta)
    return {
        "J_4 itself (online a_k)": problem(RLOO(2, beta), pressure, online=True),
        "reward side": problem(RLOO(2, beta), pressure),
        "k = 1": problem(RLOO(2, beta), NoPressure(beta)),
        "regularisation side": problem(RLOO(2, beta, interface="regularization"), pressure),
        "DPO, labels 0.27 and 0.73": problem(DPO(LABELS), pressure),
    }


def objective_at_k(p: np.ndarray, q: np.ndarray, k: int, beta: float) -> float:
    """Mean over prompts of pass@k - beta KL(p | q), two completions each (KAPPO eq. 2)."""
    kl = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    return float(np.mean(1 - (1 - p) ** k - beta * kl))


def rows(steps: int = 1500, lr: float = 0.1) -> Iterator[dict[str, Any]]:
    """Rows arm, step, shift, objective: J_4 of the shared shift, and each arm's last one."""
    found = problems()
    q = next(iter(found.values())).table.reference[:, 1]
    for shift in np.arange(0, 10.51, 0.1):
        value = objective_at_k(expit(logit(q) + shift), q, 4, 0.1)
        yield {"arm": "J_4", "step": 0, "shift": float(shift), "objective": value}
    for name, problem in found.items():
        *_, (step, parameters) = tabular.exact(problem, steps, lr)
        shift = float(parameters[0, 1] - parameters[0, 0])
        value = objective_at_k(problem.success(parameters), q, 4, 0.1)
        yield {"arm": name, "step": step, "shift": shift, "objective": value}

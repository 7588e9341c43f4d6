"""The KL axis of policy-gradient methods: estimators of KL(pi | pi_ref) from samples of pi, as a penalty or a loss.

With d = sum_t log pi / pi_ref: k1 = d, k2 = d^2 / 2, k3 = sum_t (exp(-d_t) - 1 + d_t). In the reward, k1 gives the
gradient of the reverse KL, as k2 does in the loss. k1 in the loss has expected gradient 0, and k3's gradient there is
that of the forward KL: both are here because the field uses them, and lead elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Estimator = Literal["k1", "k2", "k3"]
Where = Literal["reward", "loss"]


def penalty(log_ratio: NDArray[np.float64], estimator: Estimator) -> NDArray[np.float64]:
    """log_ratio: log pi - log pi_ref of each token, 0 outside completions, (B, T) -> (B,) in nats."""
    total = log_ratio.sum(axis=1)
    if estimator == "k1":
        return total
    return total**2 / 2 if estimator == "k2" else (np.expm1(-log_ratio) + log_ratio).sum(axis=1)


def loss(log_ratio: Tensor, estimator: Estimator) -> Tensor:
    """`penalty` of tensors, to be differentiated."""
    total = log_ratio.sum(-1)
    if estimator == "k1":
        return total
    return total.square() / 2 if estimator == "k2" else ((-log_ratio).expm1() + log_ratio).sum(-1)

"""Unbiased estimators of pass@k and max@k from n samples a problem."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from kappo.theory.binary import Floats


def pass_at_k(successes: ArrayLike, samples: int, k: int) -> Floats:
    """Unbiased pass@k = 1 - C(n - c, k) / C(n, k) = 1 - prod_{i = n-c+1..n} (1 - k / i).

    successes: c, whole numbers in [0, n], any shape; samples: n; 1 <= k <= n. Raises ValueError otherwise: with
    n < k the quantity cannot be estimated without bias. Exactly 0 at c = 0 and exactly 1 where n - c < k.
    """
    c = np.asarray(successes, dtype=np.float64)
    if not 1 <= k <= samples:
        raise ValueError(f"pass@{k} needs between 1 and n = {samples} samples a problem: draw more samples or lower k")
    if ((c < 0) | (c > samples) | (c != np.floor(c)) | np.isnan(c)).any():
        raise ValueError(f"successes must be whole numbers in [0, {samples}]")
    i = np.arange(samples, k, -1, dtype=np.float64)
    log_all_fail = np.concatenate([[0.0], np.cumsum(np.log1p(-k / i))])
    within = np.minimum(c, samples - k).astype(np.int64)
    return np.where(samples - c < k, 1.0, -np.expm1(log_all_fail[within]))

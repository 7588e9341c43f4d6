"""DPO on pairs from the reference bank (KAPPO eq. 13; Rafailov et al., 2023).

loss = -log sigma(beta_eff(x) [log-ratio of a right completion - log-ratio of a wrong one]), log-ratio =
sum_t log pi / pi_ref. Under binary pressure beta_eff is that of eq. 149: @k-DPO. Prompts whose bank holds no success or
no failure give no pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from kappo.config import within
from kappo.methods.base import Batch, Need, Signal, Source
from kappo.pressure.base import Interface

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class DPO:
    """label_smoothing: share of pairs taken the wrong way round; sigma(-1) = 0.2689 has the optimum of eq. 5, 0 none.

    loss_scale: `raw` is eq. 13; `per_beta` divides by beta_eff, so that at the start every pair pulls alike.
    """

    label_smoothing: float = within(0.0, at_least=0, below=0.5)
    loss_scale: Literal["raw", "per_beta"] = "raw"

    source: ClassVar[Source] = "bank"
    samples_per_prompt: ClassVar[int] = 2
    sequences_per_unit: ClassVar[int] = 2
    uses_bank: ClassVar[bool] = True
    needs: ClassVar[frozenset[Need]] = frozenset({"ref_logprobs"})
    interface: ClassVar[Interface] = "regularization"
    pressures: ClassVar[tuple[str, ...]] = ("none", "binary")

    def usable(self, bank_rewards: NDArray[np.float64]) -> NDArray[np.bool_]:
        right = (bank_rewards == 1.0).sum(axis=1)
        return (right > 0) & (right < bank_rewards.shape[1])

    def select(self, bank_rewards: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.int64]:
        """For each prompt one right and one wrong completion, (P, 2)."""
        right = bank_rewards == 1.0
        return np.stack([_pick(right, u[:, 0]), _pick(~right, u[:, 1])], axis=1)

    def signal(self, batch: Batch) -> Signal:
        sums = (batch.ref_logprobs * batch.mask).sum(axis=1)
        return {"ref_logprob": sums.reshape(-1, 2), "beta": batch.adapted.beta[:, 0]}

    def loss(self, logprobs: Tensor, mask: Tensor, signal: Mapping[str, Tensor]) -> Tensor:
        """logprobs, mask: (2 * pairs, T), each pair's right completion first -> (pairs,)."""
        from torch.nn.functional import logsigmoid

        log_ratio = (logprobs * mask).sum(-1).reshape(-1, 2) - signal["ref_logprob"]
        margin = signal["beta"] * (log_ratio[:, 0] - log_ratio[:, 1])
        loss = -(1 - self.label_smoothing) * logsigmoid(margin) - self.label_smoothing * logsigmoid(-margin)
        return loss if self.loss_scale == "raw" else loss / signal["beta"]


def _pick(among: NDArray[np.bool_], u: NDArray[np.float64]) -> NDArray[np.int64]:
    """The place of one true entry of each row, chosen by u in (0, 1)."""
    rank = (u * among.sum(axis=1)).astype(np.int64)
    return np.argmax(np.cumsum(among, axis=1) > rank[:, None], axis=1)

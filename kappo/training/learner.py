"""The learner: log-probs and a method's loss over micro-batches, global reduction, clip, AdamW, cosine schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kappo.config import Train
from kappo.errors import UserError
from kappo.logprobs import Sequences, token_logprobs
from kappo.methods.base import Method, Signal


@dataclass(frozen=True)
class Units:
    """One step's loss units: the method's signal by unit, and their sequences, in the same order.

    bins: named sets of sequences (masks) whose pull on the policy is logged.
    """

    sequences: Sequences
    signal: Signal
    bins: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)


def learning_rate(step: int, steps: int, peak: float, warmup_share: float) -> float:
    """Linear warm-up over the first share of the steps, then half a cosine down to 0. step counts from 0."""
    warmup = max(1, math.ceil(warmup_share * steps)) if warmup_share > 0 else 0
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


class Learner:
    """Holds a model and its optimizer; knows no method beyond `loss`.

    micro_batch_size: sequences a forward pass; it changes memory and speed, and the result by rounding only.
    """

    def __init__(self, model: Any, settings: Train, temperature: float, micro_batch_size: int):
        self.model, self.settings = model, settings
        self.temperature, self.micro_batch_size = temperature, micro_batch_size
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=settings.lr,
            betas=(settings.betas[0], settings.betas[1]),
            eps=settings.eps,
            weight_decay=settings.weight_decay,
        )

    def step(self, units: Units, method: Method, step: int) -> dict[str, float]:
        """One optimizer step; returns loss, grad_norm (before the clip), clipped (0 or 1), entropy (nats), lr.

        pull/BIN: mean over a bin's completion tokens of |d loss of the unit / d log pi(token)|: 2 beta |residual| for
        A*PO, |advantage| / length for GRPO.

        Raises UserError when loss or gradient is not finite; the weights are then still those of the step before.
        """
        lr = learning_rate(step, self.settings.steps, self.settings.lr, self.settings.warmup_share)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad(set_to_none=True)
        sequences, mask = units.sequences, units.sequences.mask
        tokens, rows, width = float(mask.sum()), len(mask), mask.shape[1]
        each = method.sequences_per_unit
        count = rows // each
        signal = {name: torch.tensor(value, dtype=torch.float32) for name, value in units.signal.items()}
        total_loss, total_entropy = 0.0, 0.0
        pulls = []
        size = max(1, self.micro_batch_size // each)
        for low in range(0, count, size):
            span, part = slice(low, low + size), slice(low * each, (low + size) * each)
            logprobs, entropy = token_logprobs(
                self.model, sequences.rows(part.start, part.stop), self.temperature, width
            )
            logprobs.retain_grad()
            loss = method.loss(logprobs, mask[part], {name: value[span] for name, value in signal.items()})
            reduced = reduce(loss, count, tokens)
            reduced.backward()  # type: ignore[no-untyped-call]
            if units.bins:
                assert logprobs.grad is not None
                pulls.append((count if loss.dim() == 1 else tokens) * logprobs.grad.abs().sum(-1))
            total_loss += float(reduced.detach())
            total_entropy += float(entropy.sum())
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.max_grad_norm))
        if not (math.isfinite(total_loss) and math.isfinite(norm)):
            raise UserError(
                f"training diverged at step {step + 1}: loss {total_loss}, gradient norm {norm}. Lower lr (now "
                f"{self.settings.lr:g}) or raise beta; earlier checkpoints are kept."
            )
        self.optimizer.step()
        return {
            "loss": total_loss,
            "grad_norm": norm,
            "clipped": float(norm > self.settings.max_grad_norm),
            "entropy": total_entropy / max(tokens, 1.0),
            "lr": lr,
            **self._pulls(units, pulls),
        }

    @staticmethod
    def _pulls(units: Units, parts: list[Tensor]) -> dict[str, float]:
        if not parts:
            return {}
        pull, lengths = torch.cat(parts).double().numpy(), units.sequences.lengths.numpy()
        return {
            f"pull/{name}": float(pull[rows].sum() / lengths[rows].sum())
            for name, rows in units.bins.items()
            if rows.any()
        }


def reduce(loss: Tensor, units: int, tokens: float) -> Tensor:
    """Sum over a micro-batch, divided by global counts: units for losses (B,), completion tokens for losses (B, T)."""
    return loss.sum() / (units if loss.dim() == 1 else tokens)


def optimizer_tensors(learner: Learner) -> dict[str, Tensor]:
    """Optimizer state by parameter name: `step/`, `exp_avg/`, `exp_avg_sq/` + name."""
    found: dict[str, Tensor] = {}
    for name, parameter in learner.model.named_parameters():
        for key, value in learner.optimizer.state.get(parameter, {}).items():
            found[f"{key}/{name}"] = value.contiguous()
    return found


def restore_optimizer(learner: Learner, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`. Raises UserError when a parameter's state is missing."""
    for name, parameter in learner.model.named_parameters():
        keys = ("step", "exp_avg", "exp_avg_sq")
        missing = [f"{key}/{name}" for key in keys if f"{key}/{name}" not in tensors]
        if missing:
            raise UserError(f"the checkpoint's optimizer state lacks {missing[0]}: delete this checkpoint and resume")
        learner.optimizer.state[parameter] = {key: tensors[f"{key}/{name}"].clone() for key in keys}

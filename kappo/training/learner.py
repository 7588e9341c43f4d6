"""The learner: log-probs and a method's loss over micro-batches, global reduction, clip, AdamW, cosine schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kappo.config import Train
from kappo.errors import UserError
from kappo.logprobs import Sequences, token_logprobs
from kappo.methods.base import Method, Signal


@dataclass(frozen=True)
class Units:
    """One step's loss units: sequences and the method's signal, first axes aligned."""

    sequences: Sequences
    signal: Signal


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

        Raises UserError when loss or gradient is not finite; the weights are then still those of the step before.
        """
        lr = learning_rate(step, self.settings.steps, self.settings.lr, self.settings.warmup_share)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad(set_to_none=True)
        sequences, mask = units.sequences, units.sequences.mask
        tokens, rows, width = float(mask.sum()), len(mask), mask.shape[1]
        signal = {name: torch.as_tensor(value, dtype=torch.float32) for name, value in units.signal.items()}
        total_loss, total_entropy = 0.0, 0.0
        for low in range(0, rows, self.micro_batch_size):
            span = slice(low, low + self.micro_batch_size)
            part = sequences.rows(low, low + self.micro_batch_size)
            logprobs, entropy = token_logprobs(self.model, part, self.temperature, width)
            loss = method.loss(logprobs, mask[span], {name: value[span] for name, value in signal.items()})
            reduced = reduce(loss, rows, tokens)
            reduced.backward()  # type: ignore[no-untyped-call]
            total_loss += float(reduced.detach())
            total_entropy += float(entropy.sum())
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.max_grad_norm))
        if not (math.isfinite(total_loss) and math.isfinite(norm)):
            raise UserError(
                f"training diverged at step {step + 1}: loss {total_loss}, gradient norm {norm}. Lower lr (now "
                f"{self.settings.lr:g}) or raise beta; the checkpoints before this step are kept."
            )
        self.optimizer.step()
        return {
            "loss": total_loss,
            "grad_norm": norm,
            "clipped": float(norm > self.settings.max_grad_norm),
            "entropy": total_entropy / max(tokens, 1.0),
            "lr": lr,
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

"""Log-probs and entropy of given tokens, without ever building (batch, time, vocabulary) at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

TOKENS_PER_CHUNK = 4096
"""Completion tokens whose logits exist at the same time."""


@dataclass(frozen=True)
class Sequences:
    """Prompts with completions, right-padded: ids (B, L); completion token t of row b stands at starts[b] + t."""

    ids: Tensor
    starts: Tensor
    lengths: Tensor

    @property
    def mask(self) -> Tensor:
        """(B, T) float: 1 on completion tokens, T the longest completion."""
        steps = torch.arange(int(self.lengths.max()), device=self.ids.device)
        return (steps < self.lengths[:, None]).float()

    def rows(self, low: int, high: int) -> Sequences:
        return Sequences(self.ids[low:high], self.starts[low:high], self.lengths[low:high])


def pack(prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]], pad: int) -> Sequences:
    """Token lists -> right-padded Sequences. Right padding needs no attention mask: no token sees what follows it."""
    rows = [[*p, *c] for p, c in zip(prompts, completions, strict=True)]
    width = max(map(len, rows))
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    starts, lengths = [len(p) for p in prompts], [len(c) for c in completions]
    return Sequences(torch.from_numpy(ids), torch.tensor(starts), torch.tensor(lengths))


def _head(hidden: Tensor, targets: Tensor, weight: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    logits = torch.nn.functional.linear(hidden, weight).float() / temperature
    log_norm = torch.logsumexp(logits, -1)
    logprobs = logits.gather(-1, targets[:, None]).squeeze(-1) - log_norm
    with torch.no_grad():
        entropy = log_norm - (torch.softmax(logits, -1) * logits).sum(-1)
    return logprobs, entropy


def token_logprobs(
    model: Any, batch: Sequences, temperature: float = 1.0, width: int | None = None
) -> tuple[Tensor, Tensor]:
    """Log-probs and entropies (nats, no gradient) of the completion tokens, each (B, width), 0 where there is none.

    model: a transformers causal language model. temperature: that of the sampling distribution. width: at least the
    longest completion (default: exactly that). The projection onto the vocabulary runs in chunks that are recomputed
    in the backward pass.
    """
    hidden = model.model(input_ids=batch.ids, use_cache=False).last_hidden_state
    mask = batch.mask.bool()
    if width is not None:
        mask = torch.nn.functional.pad(mask, (0, width - mask.shape[1]))
    row, step = mask.nonzero(as_tuple=True)
    place = batch.starts[row] + step
    states, targets = hidden[row, place - 1], batch.ids[row, place]
    weight = model.lm_head.weight
    parts = []
    for low in range(0, len(row), TOKENS_PER_CHUNK):
        span = slice(low, low + TOKENS_PER_CHUNK)
        arguments = (states[span], targets[span], weight, temperature)
        if torch.is_grad_enabled() and len(row) > TOKENS_PER_CHUNK:
            parts.append(checkpoint(_head, *arguments, use_reentrant=False))
        else:
            parts.append(_head(*arguments))
    logprobs, entropy = (torch.cat(values) for values in zip(*parts, strict=True))
    empty = torch.zeros(mask.shape, dtype=logprobs.dtype, device=logprobs.device)
    return empty.index_put((row, step), logprobs), empty.index_put((row, step), entropy)

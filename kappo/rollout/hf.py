"""Sampling with transformers' forward pass: a key-value cache, one prefill a prompt, counter-based noise.

A token is drawn by inverting the distribution function at one uniform number, a function of (seed, stream, prompt,
sample, position) alone. Rows that finish leave the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kappo import streams
from kappo.config import within
from kappo.data.template import model_stops
from kappo.errors import UserError
from kappo.records import Completion
from kappo.rollout.base import Prompt, SamplingSpec

if TYPE_CHECKING:
    from torch import Tensor

KEEP_SHARE = 0.75
"""Finished rows are dropped once fewer than this share still runs; dropping copies the cache."""


@dataclass
class HFEngine:
    """temperature of the sampling distribution (no top-p, no top-k); batch_size: rows that run together."""

    temperature: float = within(1.0, at_least=1e-3)
    max_new_tokens: int = within(16, at_least=1)
    batch_size: int = within(1024, at_least=1)
    _loaded: Any = field(default=None, init=False, repr=False, compare=False)

    def load(self, model: Any, tokenizer: Any, version: int) -> None:
        self._loaded = (model, tokenizer, version)

    def generate(self, prompts: Sequence[Prompt], spec: SamplingSpec) -> list[Completion]:
        """Raises UserError when a prompt leaves no room for max_new_tokens in the model's positions."""
        model, tokenizer, version = self._loaded
        room = model.config.max_position_embeddings - self.max_new_tokens
        unfit = [prompt for prompt in prompts if not 0 < len(prompt.token_ids) <= room]
        if unfit:
            worst = max(unfit, key=lambda p: len(p.token_ids))
            raise UserError(
                f"prompt {worst.id} has {len(worst.token_ids)} tokens: expected 1 to {room}, so that "
                f"rollout.max_new_tokens = {self.max_new_tokens} fit into the model's positions; {len(unfit)} of "
                f"{len(prompts)} prompts do not fit: lower rollout.max_new_tokens or data.max_prompt_chars"
            )
        found: list[Completion] = []
        for group, n, first in self._batches(prompts, spec):
            found += self._batch(model, tokenizer, version, group, replace(spec, n=n, first_sample=first))
        order = {prompt.id: i for i, prompt in enumerate(prompts)}
        found.sort(key=lambda c: (order[c.prompt_id], c.sample))
        return found

    def _batches(self, prompts: Sequence[Prompt], spec: SamplingSpec) -> Iterator[tuple[list[Prompt], int, int]]:
        """Prompts of like length together, at most batch_size rows at once; a prompt's samples split when they must."""
        n = min(spec.n, self.batch_size)
        together = max(1, self.batch_size // n)
        ranked = sorted(prompts, key=lambda p: len(p.token_ids))
        for low in range(0, len(ranked), together):
            for first in range(0, spec.n, n):
                yield ranked[low : low + together], min(n, spec.n - first), spec.first_sample + first

    def _batch(
        self, model: Any, tokenizer: Any, version: int, prompts: list[Prompt], spec: SamplingSpec
    ) -> list[Completion]:
        import torch

        rows, steps = len(prompts) * spec.n, self.max_new_tokens
        keys = np.repeat(streams.item_keys([p.id for p in prompts]), spec.n)
        samples = np.tile(np.arange(spec.first_sample, spec.first_sample + spec.n), len(prompts))
        noise = torch.from_numpy(
            streams.uniform(spec.seed, spec.stream, keys[None], samples[None], np.arange(steps)[:, None])
        ).to(model.device)
        tokens = torch.full((rows, steps), tokenizer.pad_token_id, device=model.device)
        logprobs = torch.zeros((rows, steps), device=model.device)
        lengths = torch.full((rows,), steps, device=model.device)
        ends_with = {*model_stops(tokenizer, getattr(model, "generation_config", None))}
        ends_with |= {id for prompt in prompts for id in prompt.stop}
        stops = torch.tensor(sorted(ends_with), device=model.device)

        with torch.inference_mode():
            cache, logits, padding, positions = _prefill(model, prompts, tokenizer.pad_token_id, spec.n)
            alive = torch.arange(rows, device=model.device)
            running = torch.ones(rows, dtype=torch.bool, device=model.device)
            for step in range(steps):
                drawn, chosen = _draw(logits / self.temperature, noise[step, alive])
                live = alive[running]
                tokens[live, step], logprobs[live, step] = drawn[running], chosen[running]
                last = torch.isin(drawn, stops)
                lengths[alive[running & last & (lengths[alive] == steps)]] = step + 1
                if not spec.fixed_length:
                    running = running & ~last
                left = int(running.sum())
                if left == 0 or step + 1 == steps:
                    break
                if left < KEEP_SHARE * len(alive):
                    kept = running.nonzero().squeeze(-1)
                    cache.batch_select_indices(kept)
                    alive, drawn, positions, running = alive[kept], drawn[kept], positions[kept], running[kept]
                    padding = padding if padding is None else padding[kept]
                if padding is not None:
                    padding = torch.nn.functional.pad(padding, (0, 1), value=1)
                positions = positions + 1
                logits = model(
                    input_ids=drawn[:, None],
                    attention_mask=padding,
                    position_ids=positions[:, None],
                    past_key_values=cache,
                    use_cache=True,
                ).logits[:, -1]

        ids, values, ends = tokens.tolist(), logprobs.tolist(), lengths.tolist()
        read = [row[:end] for row, end in zip(ids, ends, strict=True)]
        ended = [row[-1] in ends_with for row in read]
        words = [row[:-1] if end else row for row, end in zip(read, ended, strict=True)]
        texts = tokenizer.batch_decode(words, skip_special_tokens=True)
        sizes = [steps] * rows if spec.fixed_length else ends
        return [
            Completion(
                prompts[i // spec.n].id,
                int(samples[i]),
                ids[i][: sizes[i]],
                values[i][: sizes[i]],
                "stop" if ended[i] else "length",
                texts[i],
                version,
            )
            for i in range(rows)
        ]

    def score(self, prompts: Sequence[Prompt], completions: Sequence[Completion]) -> list[list[float]]:
        import torch

        from kappo.logprobs import pack, token_logprobs

        model, tokenizer, _ = self._loaded
        by_id = {p.id: p.token_ids for p in prompts}
        scored: list[list[float]] = []
        for low in range(0, len(completions), self.batch_size):
            part = completions[low : low + self.batch_size]
            batch = pack([by_id[c.prompt_id] for c in part], [c.token_ids for c in part], tokenizer.pad_token_id)
            with torch.inference_mode():
                values = token_logprobs(model, batch, self.temperature)[0].tolist()
            scored += [row[: len(c.token_ids)] for row, c in zip(values, part, strict=True)]
        return scored


def _prefill(model: Any, prompts: list[Prompt], pad: int, n: int) -> tuple[Any, Tensor, Tensor | None, Tensor]:
    """One forward pass over the distinct prompts, repeated n times: cache, next-token logits, padding mask, positions.

    Prompts of unequal length are padded on the left; of equal length they need no mask (None).
    """
    import torch

    width = max(len(p.token_ids) for p in prompts)
    ids = torch.full((len(prompts), width), pad)
    for i, prompt in enumerate(prompts):
        ids[i, width - len(prompt.token_ids) :] = torch.tensor(prompt.token_ids)
    ends = torch.tensor([len(p.token_ids) for p in prompts])
    positions = torch.arange(width) - (width - ends)[:, None]
    padding = None if int(ends.min()) == width else (positions >= 0).long().to(model.device)
    out = model(
        input_ids=ids.to(model.device),
        attention_mask=padding,
        position_ids=positions.clamp(min=0).to(model.device),
        use_cache=True,
        logits_to_keep=1,
    )
    cache = out.past_key_values
    cache.batch_repeat_interleave(n)
    repeated = padding if padding is None else padding.repeat_interleave(n, 0)
    last = (ends - 1).to(model.device).repeat_interleave(n, 0)
    return cache, out.logits[:, -1].repeat_interleave(n, 0), repeated, last


def _draw(logits: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Invert the distribution function at `noise` in (0, 1): drawn tokens and their log-probs. logits: (B, V)."""
    import torch

    logits = logits.float()
    logprobs = torch.log_softmax(logits, -1)
    edges = logprobs.double().exp().cumsum(-1)
    drawn = torch.searchsorted(edges, (noise * edges[:, -1])[:, None]).squeeze(-1)
    drawn = drawn.clamp(max=logits.shape[-1] - 1)
    return drawn, logprobs.gather(-1, drawn[:, None]).squeeze(-1)

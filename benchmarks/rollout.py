"""Sampling: kappo's hf engine against transformers' generate, the same model, prompts and lengths, one thread."""

from __future__ import annotations

import torch
from _harness import report, side_by_side

from kappo.config import Model
from kappo.data.embedded import Rules
from kappo.models import fresh_model, fresh_tokenizer
from kappo.reference import prompts_of
from kappo.rewards.boxed import BoxedAnswer
from kappo.rollout.base import SamplingSpec
from kappo.rollout.hf import HFEngine

NEW_TOKENS = 16
MIX = [0.30, 0.22, 0.15, 0.11, 0.08, 0.06, 0.05, 0.03]


def main() -> None:
    torch.set_num_threads(1)
    settings = Model("embedded_tiny")
    tokenizer = fresh_tokenizer(Rules.vocabulary(), settings.max_positions)
    model = fresh_model(settings, tokenizer, 0)
    problems = Rules("train", BoxedAnswer(), 32, MIX, MIX).load(0)
    prompts = prompts_of(problems, tokenizer)
    ids = torch.tensor([p.token_ids for p in prompts])
    engine = HFEngine(1.0, NEW_TOKENS, 1024)
    engine.load(model, tokenizer, 0)
    rows = []
    for samples in (1, 8, 32):

        def ours(samples: int = samples) -> None:
            engine.generate(prompts, SamplingSpec(samples, 0, "bench"))

        def peer(samples: int = samples) -> None:
            with torch.inference_mode():
                model.generate(ids, do_sample=True, max_new_tokens=NEW_TOKENS, num_return_sequences=samples, top_k=0)

        completions = engine.generate(prompts, SamplingSpec(samples, 0, "bench"))
        tokens = sum(len(c.token_ids) for c in completions)
        name = f"sample {len(prompts)} x {samples} completions"
        rows.append(side_by_side(name, ours, peer, "transformers generate", 1.0, amount=tokens, unit="tokens/s"))
    report("rollout", rows)


if __name__ == "__main__":
    main()

"""A step's loss units from the reference bank: draw prompts that the method can use, and its choice of completions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np

from kappo import streams
from kappo.config import Config, choice_name
from kappo.data.template import template_of
from kappo.errors import UserError
from kappo.logprobs import pack
from kappo.methods.base import BankMethod, Batch
from kappo.pressure.base import Pressure, Rows
from kappo.records import BANK, read_table
from kappo.reference import prompts_of
from kappo.training.learner import Units
from kappo.training.policy import bins, padded


class BankSource:
    """Makes a step's units from stored completions. Raises UserError when the bank has too few prompts to draw from."""

    def __init__(self, config: Config, bank: Path, tokenizer: Any, rows: Rows):
        self.config, self.rows, self.pad = config, rows, tokenizer.pad_token_id
        self.method = cast(BankMethod, config.method)
        self.pressure = cast(Pressure, config.pressure)
        data = cast(Any, config.data)
        problems = data.load(config.replicate)
        self.prompts = prompts_of(problems, tokenizer, template_of(data))
        stored = read_table(bank / "bank.parquet", BANK)
        place = {id: i for i, id in enumerate(dict.fromkeys(stored["prompt_id"].to_pylist()))}
        size = len(stored) // len(place)
        self.first = np.array([place[p.id] * size for p in problems])
        self.tokens, self.logprobs = stored["token_ids"].to_pylist(), stored["logprobs"].to_pylist()
        self.usable = np.flatnonzero(self.method.usable(rows.rewards))
        if len(self.usable) < config.train.prompts_per_step:
            raise UserError(
                f"method = {choice_name(config.method)} can use {len(self.usable)} of {len(problems)} prompts of the "
                f"bank, train.prompts_per_step = {config.train.prompts_per_step}: lower it, or raise "
                "bank.samples_per_prompt or data.problems"
            )

    def __call__(self, step: int) -> tuple[Units, dict[str, float]]:
        config, n = self.config, self.method.samples_per_prompt
        order = f"train/order/r{config.replicate}"
        drawn = streams.batch_indices(config.seed, order, len(self.usable), config.train.prompts_per_step, step)
        picks = self.usable[drawn]
        ids = np.array([self.prompts[i].id for i in picks])
        stream = f"train/select/r{config.replicate}"
        u = streams.uniform(config.seed, stream, ids[:, None], step, np.arange(n))
        rows = self.rows.take(picks)
        chosen = self.method.select(rows.rewards, u)
        places = (self.first[picks][:, None] + chosen).ravel()
        tokens, logprobs = [self.tokens[i] for i in places], [self.logprobs[i] for i in places]
        prompts = [self.prompts[i].token_ids for i in picks for _ in range(n)]
        sequences = pack(prompts, tokens, self.pad)
        mask = sequences.mask.numpy().astype(np.float64)
        reference = padded(logprobs, mask.shape)
        rewards = np.take_along_axis(rows.rewards, chosen, axis=1)
        adapted = self.pressure.adapt(rewards, rows, self.method.interface)
        signal = self.method.signal(Batch(mask, reference, reference, adapted))
        about = {
            "length": float(np.mean([len(t) for t in tokens])),
            "usable_prompts": float(len(self.usable)),
            "beta_eff": float(adapted.beta.mean()),
        }
        return Units(sequences, signal, bins(rows.q, n)), about

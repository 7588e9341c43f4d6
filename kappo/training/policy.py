"""A step's loss units from the policy itself: draw prompts, sample, grade, adapt."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from kappo import streams
from kappo.config import Config
from kappo.data.template import template_of
from kappo.logprobs import pack
from kappo.methods.base import Batch, Method
from kappo.methods.objectives import Objective
from kappo.pressure.base import Pressure, Rows
from kappo.pressure.online import OnlineRate
from kappo.records import Completion, Grade
from kappo.reference import prompts_of, rollout
from kappo.rewards.base import check_failed_share, failed_share
from kappo.rollout.base import RolloutEngine, SamplingSpec
from kappo.training.learner import Units

BINS = {"none": (-1.0, 0.0), "rare": (0.0, 0.1), "some": (0.1, 0.3), "often": (0.3, 1.0)}
"""Prompts by their mean bank reward, in (low, high]."""


def bins(q: np.ndarray, each: int) -> dict[str, np.ndarray]:
    """Masks over completions, `each` a prompt. q: the prompts' mean bank rewards."""
    return {name: np.repeat((q > low) & (q <= high), each) for name, (low, high) in BINS.items()}


class PolicySource:
    """Makes a step's units by sampling from the learner's model."""

    def __init__(self, config: Config, model: Any, reference: RolloutEngine, tokenizer: Any, rows: Rows):
        self.config, self.model, self.reference, self.tokenizer, self.rows = config, model, reference, tokenizer, rows
        self.data = cast(Any, config.data)
        self.method = cast(Method, config.method)
        self.pressure = cast(Pressure, config.pressure)
        self.objective = cast(Objective, config.objective)
        self.online = OnlineRate.of(config.pressure, rows)
        self.engine = cast(RolloutEngine, config.rollout)
        self.problems = self.data.load(config.replicate)

    @property
    def carried(self) -> dict[str, np.ndarray]:
        """What a resumed run must find again, updated in place."""
        return {"rate": self.online.rate} if self.online else {}

    def __call__(self, step: int) -> tuple[Units, dict[str, float]]:
        config, n = self.config, self.method.samples_per_prompt
        order = f"train/order/r{config.replicate}"
        picks = streams.batch_indices(config.seed, order, len(self.problems), config.train.prompts_per_step, step)
        drawn = [self.problems[i] for i in picks]
        self.engine.load(self.model, self.tokenizer, step)
        stream = f"train/r{config.replicate}/{step}"
        spec = SamplingSpec(n, config.seed, stream, fixed_length=config.train.fixed_length)
        graded = rollout(self.engine, self.data, drawn, self.tokenizer, spec)
        stale = [c.weight_version for c, _ in graded if c.weight_version != step]
        if stale:
            raise RuntimeError(f"step {step} was sampled from weights of version {stale[0]}")
        verdicts = [g.verdict for _, g in graded]
        check_failed_share(verdicts, config.eval.max_failed_share, f"training step {step + 1}")

        prompts = prompts_of(drawn, self.tokenizer, template_of(self.data))
        tokens = [c.token_ids for c, _ in graded]
        sequences = pack([p.token_ids for p in prompts for _ in range(n)], tokens, self.tokenizer.pad_token_id)
        mask = sequences.mask.numpy().astype(np.float64)
        behaviour = padded([c.logprobs for c, _ in graded], mask.shape)
        used = "ref_logprobs" in self.method.needs or self.objective.needs_reference
        scored = used or (step + 1) % config.train.checkpoint_every == 0
        values = self.reference.score(prompts, [c for c, _ in graded]) if scored else [[] for _ in graded]
        reference = padded(values, mask.shape)
        rewards = np.array([g.score for _, g in graded]).reshape(len(drawn), n)
        rows = self.rows.take(picks)
        if self.online:
            rows = self.online.renewed(rows, picks, rewards)
        adapted = self.pressure.adapt(rewards, rows, self.method.interface)
        adapted = self.objective.apply(adapted, reference.sum(axis=1).reshape(rewards.shape))
        signal = self.method.signal(Batch(mask, reference, behaviour, adapted))
        about = self._about(graded, rewards, adapted.scale * adapted.reward)
        if scored:
            about["kl"] = float((behaviour - reference).sum(axis=1).mean())
        return Units(sequences, signal, bins(rows.q, n)), about

    @staticmethod
    def _about(graded: list[tuple[Completion, Grade]], rewards: np.ndarray, targets: np.ndarray) -> dict[str, float]:
        """flat, varied: shares of groups with one distinct reward, and with three or more."""
        distinct = np.array([len(set(group)) for group in rewards.tolist()])
        groups = {"flat": float((distinct == 1).mean()), "varied": float((distinct >= 3).mean())}
        return {
            "reward": float(rewards.mean()),
            "adapted_reward": float(targets.mean()),
            "length": float(np.mean([len(c.token_ids) for c, _ in graded])),
            "failed_share": failed_share([g.verdict for _, g in graded]),
            "rollouts": float(len(graded)),
            **(groups if rewards.shape[1] > 1 else {}),
        }


def padded(rows: list[list[float]], shape: tuple[int, int]) -> np.ndarray:
    """Rows of numbers in a (B, T) array, 0 behind each."""
    found = np.zeros(shape)
    for row, values in zip(found, rows, strict=True):
        row[: len(values)] = values
    return found

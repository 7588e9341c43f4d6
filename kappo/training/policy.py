"""A run of policy training: draw prompts, sample, grade, adapt, learn; then validate the kept checkpoints."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any, cast

import numpy as np

from kappo import streams
from kappo.config import Config, choice_name
from kappo.evaluation import curve, sample_problems, successes
from kappo.folders import Place, locked
from kappo.logprobs import pack
from kappo.methods.base import Batch, Method
from kappo.models import load_model
from kappo.pressure import Pressure, Rows
from kappo.records import Completion, Grade, write_json
from kappo.reference import prompts_of, rollout
from kappo.rewards.base import check_failed_share, failed_share
from kappo.rollout.base import RolloutEngine, SamplingSpec
from kappo.tracking import Tracker, progress
from kappo.training.checkpoint import folder_name
from kappo.training.learner import Learner, Units
from kappo.training.loop import Loop

VALIDATION = "validation.json"


def kept_steps(config: Config) -> list[int]:
    """Steps whose checkpoints are validated and kept: every validate_every, and the last."""
    every, steps = config.train.validate_every, config.train.steps
    return sorted({*range(every, steps + 1, every), steps})


class PolicySource:
    """Makes a step's units by sampling from the learner's model."""

    def __init__(self, config: Config, model: Any, reference: RolloutEngine, tokenizer: Any, rows: Rows):
        self.config, self.model, self.reference, self.tokenizer, self.rows = config, model, reference, tokenizer, rows
        self.data = cast(Any, config.data)
        self.method = cast(Method, config.method)
        self.pressure = cast(Pressure, config.pressure)
        self.engine = cast(RolloutEngine, config.rollout)
        self.problems = self.data.load(config.replicate)

    def __call__(self, step: int) -> tuple[Units, dict[str, float]]:
        config, n = self.config, self.method.samples_per_prompt
        order = f"train/order/r{config.replicate}"
        picks = streams.batch_indices(config.seed, order, len(self.problems), config.train.prompts_per_step, step)
        drawn = [self.problems[i] for i in picks]
        self.engine.load(self.model, self.tokenizer, step)
        spec = SamplingSpec(n, config.seed, f"train/r{config.replicate}/{step}")
        graded = rollout(self.engine, self.data.reward, drawn, self.tokenizer, spec)
        stale = [c.weight_version for c, _ in graded if c.weight_version != step]
        if stale:
            raise RuntimeError(f"step {step} was sampled from weights of version {stale[0]}")
        verdicts = [g.verdict for _, g in graded]
        check_failed_share(verdicts, config.eval.max_failed_share, f"training step {step + 1}")

        prompts = prompts_of(drawn, self.tokenizer)
        tokens = [c.token_ids for c, _ in graded]
        sequences = pack([p.token_ids for p in prompts for _ in range(n)], tokens, self.tokenizer.pad_token_id)
        mask = sequences.mask.numpy().astype(np.float64)
        reference = np.zeros_like(mask)
        if "ref_logprobs" in self.method.needs:
            for row, values in zip(reference, self.reference.score(prompts, [c for c, _ in graded]), strict=True):
                row[: len(values)] = values
        rewards = np.array([g.score for _, g in graded]).reshape(len(drawn), n)
        adapted = self.pressure.adapt(rewards, self.rows.take(picks), self.method.interface)
        signal = self.method.signal(Batch(mask, reference, adapted))
        return Units(sequences, signal), self._about(graded, reference, adapted.scale * adapted.reward)

    def _about(
        self, graded: list[tuple[Completion, Grade]], reference: np.ndarray, targets: np.ndarray
    ) -> dict[str, float]:
        """kl: the k1 estimate of KL(policy || reference) in nats a completion."""
        behaviour = np.array([sum(c.logprobs) for c, _ in graded])
        known = "ref_logprobs" in self.method.needs
        kl = {"kl": float((behaviour - reference.sum(axis=1)).mean())} if known else {}
        return {
            "reward": float(np.mean([g.score for _, g in graded])),
            "adapted_reward": float(targets.mean()),
            "length": float(np.mean([len(c.token_ids) for c, _ in graded])),
            "failed_share": failed_share([g.verdict for _, g in graded]),
            "rollouts": float(len(graded)),
            **kl,
        }


def train(config: Config, place: Place, base: Path, rows: Rows) -> None:
    """Train one run from the base model, validate its kept checkpoints; resumes from the latest checkpoint."""
    with locked(place) as work:
        if not work:
            return
        model, tokenizer = load_model(base, config.runtime.threads)
        method = cast(Method, config.method)
        engine = cast(RolloutEngine, config.rollout)
        reference = copy(engine)
        reference.load(load_model(base, config.runtime.threads)[0], tokenizer, 0)
        learner = Learner(model, config.train, engine.temperature, config.runtime.micro_batch_size)
        source = PolicySource(config, model, reference, tokenizer, rows)
        keep = kept_steps(config)
        tracker = Tracker.of(config, place.folder, "train", place.slice)
        per_step = config.train.prompts_per_step * method.samples_per_prompt
        loop = Loop(place.folder, config.train.steps, per_step, config.train.checkpoint_every, keep)
        loop.run(learner, tokenizer, method, source, tracker, f"train {place.id}")
        del learner, reference, model
        rollouts = {"rollouts": config.train.steps * per_step, "bank_rollouts": rows.rewards.size}
        scores = validate(config, place.folder, keep)
        write_json(place.folder / VALIDATION, {**describe(config), **rollouts, "checkpoints": scores})
        files = [f"checkpoints/{folder_name(step)}/model.safetensors" for step in keep]
        place.finish([VALIDATION, *files], config.train.steps * per_step)


def describe(config: Config) -> dict[str, Any]:
    """What tables and selection group a run by."""
    method, pressure = (choice_name(plug) for plug in (config.method, config.pressure))
    numbers = {
        "k": config.k,
        "beta": config.beta,
        "lr": config.train.lr,
        "replicate": config.replicate,
        "seed": config.seed,
    }
    return {"method": method, "pressure": pressure, **numbers}


def validate(config: Config, folder: Path, steps: list[int]) -> list[dict[str, Any]]:
    """Validation pass@1 and pass@k at the trained k for each kept checkpoint: rows {step, k, n_samples, pass@...}."""
    data, n = cast(Any, config.validation), config.eval.validation_samples
    engine = cast(RolloutEngine, config.rollout)
    problems = data.load(config.replicate)
    found = []
    for step in progress(steps, f"validate {folder.name}"):
        model, tokenizer = load_model(folder / "checkpoints" / folder_name(step), config.runtime.threads)
        engine.load(model, tokenizer, step)
        spec = SamplingSpec(n, config.replicate, "validate")
        samples = sample_problems(engine, data.reward, problems, tokenizer, spec)
        verdicts = samples["verdict"].to_pylist()
        check_failed_share(verdicts, config.eval.max_failed_share, f"validation of {folder.name} at step {step}")
        counts, _ = successes(samples)
        ks = sorted({1, config.k})
        means = curve(counts, n, ks).mean(axis=0)
        scores = {f"pass@{k}": float(mean) for k, mean in zip(ks, means, strict=True)}
        found.append({"step": step, "k": config.k, "n_samples": n, "n_problems": len(problems), **scores})
    return found

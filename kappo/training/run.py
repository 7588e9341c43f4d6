"""A run: train from the base model, by rollouts or from the bank; then validate the kept checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any, cast

import numpy as np

from kappo.config import Config, choice_name
from kappo.data.template import template_of
from kappo.errors import UserError
from kappo.evaluation import curve
from kappo.folders import Place, locked
from kappo.methods.base import Method
from kappo.models import load_model
from kappo.pressure.base import Rows
from kappo.records import write_json
from kappo.reference import prompts_of, rollout
from kappo.rewards.base import check_failed_share, ready
from kappo.rollout.base import RolloutEngine, SamplingSpec
from kappo.tracking import Tracker, progress
from kappo.training.bank import BankSource
from kappo.training.checkpoint import folder_name
from kappo.training.learner import Learner
from kappo.training.loop import Loop, MakeUnits
from kappo.training.policy import PolicySource

VALIDATION = "validation.json"
KL_SAMPLES = 8


def kept_steps(config: Config) -> list[int]:
    """Steps whose checkpoints are validated and kept: every validate_every, and the last."""
    every, steps = config.train.validate_every, config.train.steps
    return sorted({*range(every, steps + 1, every), steps})


def train(config: Config, place: Place, base: Path, bank: Path, rows: Rows) -> None:
    """Train one run from the base model, validate its kept checkpoints; resumes from the latest checkpoint."""
    with locked(place) as work:
        if not work:
            return
        check_data(config)
        model, tokenizer = load_model(base, config.runtime.threads)
        method = cast(Method, config.method)
        engine = cast(RolloutEngine, config.rollout)
        make_units: MakeUnits
        carried: Mapping[str, np.ndarray] = {}
        if method.source == "bank":
            make_units = BankSource(config, bank, tokenizer, rows)
        else:
            reference = copy(engine)
            reference.load(load_model(base, config.runtime.threads)[0], tokenizer, 0)
            make_units = source = PolicySource(config, model, reference, tokenizer, rows)
            carried = source.carried
        learner = Learner(model, config.train, engine.temperature, config.runtime.micro_batch_size)
        keep = kept_steps(config)
        tracker = Tracker.of(config, place.folder, "train", place.slice)
        per_step = config.train.prompts_per_step * method.samples_per_prompt
        loop = Loop(place.folder, config.train.steps, per_step, config.train.checkpoint_every, keep)
        loop.run(learner, tokenizer, method, make_units, tracker, f"train {place.id}", carried)
        del learner, make_units, model
        counts = {
            "rollouts": 0 if method.source == "bank" else config.train.steps * per_step,
            "bank_rollouts": rows.rewards.size if method.uses_bank else 0,
        }
        scores = validate(config, place.folder, base, keep)
        write_json(place.folder / VALIDATION, {**describe(config), **counts, "checkpoints": scores})
        files = [f"checkpoints/{folder_name(step)}/model.safetensors" for step in keep]
        place.finish([VALIDATION, *files], config.train.steps * per_step)


def check_data(config: Config) -> None:
    """Raises UserError where a grader cannot work, a step wants more prompts than there are, or validation prompts are
    trained on.
    """
    data, validation = cast(Any, config.data), cast(Any, config.validation)
    ready(data.reward)
    ready(validation.reward)
    problems = data.load(config.replicate)
    if len(problems) < config.train.prompts_per_step:
        raise UserError(
            f"data {data.task}_{data.split} has {len(problems)} prompts, train.prompts_per_step = "
            f"{config.train.prompts_per_step}: lower it, or use more data"
        )
    trained = {p.prompt for p in problems}
    held_out = validation.load(config.replicate)
    shared = [p.id for p in held_out if p.prompt in trained]
    if shared:
        raise UserError(
            f"{len(shared)} of {len(held_out)} validation prompts are trained on, such as {shared[0]}: checkpoints "
            "would be chosen by what was learnt by heart. Use data that leave them out, such as data=math_train_part "
            "or data=leetcode_train_part, or other validation data"
        )


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
    metric = cast(Any, config.data).metric
    return {"method": method, "pressure": pressure, "metric": metric, **numbers}


def validate(config: Config, folder: Path, base: Path, steps: list[int]) -> list[dict[str, Any]]:
    """The task's metric (pass or max) at 1 and the trained k on the validation split, a row for each kept checkpoint.

    kl: the k1 estimate of KL(policy || reference) in nats a completion, on the first KL_SAMPLES of each problem.
    """
    data, n = cast(Any, config.validation), config.eval.validation_samples
    engine = cast(RolloutEngine, config.rollout)
    reference = copy(engine)
    reference.load(*load_model(base, config.runtime.threads), 0)
    problems = data.load(config.replicate)
    found = []
    for step in progress(steps, f"validate {folder.name}"):
        model, tokenizer = load_model(folder / "checkpoints" / folder_name(step), config.runtime.threads)
        engine.load(model, tokenizer, step)
        spec = SamplingSpec(n, config.replicate, "validate")
        graded = rollout(engine, data, problems, tokenizer, spec)
        verdicts = [grade.verdict for _, grade in graded]
        check_failed_share(verdicts, config.eval.max_failed_share, f"validation of {folder.name} at step {step}")
        ks = sorted({1, config.k})
        rewards = np.array([grade.score for _, grade in graded]).reshape(len(problems), n)
        means = curve(rewards, ks).mean(axis=0)
        scores = {f"{data.metric}@{k}": float(mean) for k, mean in zip(ks, means, strict=True)}
        first = [c for c, _ in graded if c.sample < KL_SAMPLES]
        scored = reference.score(prompts_of(problems, tokenizer, template_of(data)), first)
        kl = np.mean([sum(c.logprobs) - sum(ref) for c, ref in zip(first, scored, strict=True)])
        about = {"step": step, "k": config.k, "n_samples": n, "n_problems": len(problems), "kl": float(kl)}
        found.append({**about, **scores})
    return found

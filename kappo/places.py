"""Where each stage of a run lies, and what it is made of. No torch.

A stage's id is a readable slug and 8 hex digits of the hash of its own slice of the config and the ids upstream.
Tracking, paths and runtime settings lie in no slice: changing them reruns nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from kappo.config import Config, choice_name, plain
from kappo.errors import UserError
from kappo.folders import Place
from kappo.pressure.base import Interface, Pressure
from kappo.records import fingerprint


def _place(results: str, kind: str, folder: str, slug: str, slice: dict[str, Any], upstream: dict[str, str]) -> Place:
    id = f"{slug}-{fingerprint([kind, slice, upstream])[:8]}"
    return Place(kind, id, Path(results) / folder / id, slice, upstream)


def base_place(c: Config) -> Place:
    slice = {"model": plain(c.model), "data": plain(c.data), "replicate": c.replicate}
    return _place(c.paths.results, "base model", "models", f"{c.model.name}-r{c.replicate}", slice, {})


def bank_place(c: Config) -> Place:
    slice = {"bank": plain(c.bank), "rollout": plain(c.rollout)}
    slug = f"{cast(Any, c.data).task}-m{c.bank.samples_per_prompt}-r{c.replicate}"
    return _place(c.paths.results, "bank", "banks", slug, slice, {"base": base_place(c).id})


def calibration_place(results: str, bank: str, pressure: Pressure, interface: Interface) -> Place:
    slice = {"pressure": plain(pressure), "interface": interface}
    k, name = getattr(pressure, "k", 1), choice_name(pressure)
    slug = f"{name}-k{k}-beta{pressure.beta:g}-{interface}"
    return _place(results, "calibration", "calibration", slug, slice, {"bank": bank})


def run_place(c: Config) -> Place:
    method, pressure = cast(Any, c.method), cast(Pressure, c.pressure)
    upstream = {
        "base": base_place(c).id,
        "calibration": calibration_place(c.paths.results, bank_place(c).id, pressure, method.interface).id,
    }
    slice = {
        "method": plain(method),
        "objective": plain(c.objective),
        "train": plain(c.train),
        "seed": c.seed,
        "rollout": plain(c.rollout),
        "validation": {"data": plain(c.validation), "samples": c.eval.validation_samples, "k": c.k},
    }
    task = cast(Any, c.data).task
    slug = f"{task}-{choice_name(method)}-k{c.k}-beta{c.beta:g}-lr{c.train.lr:g}-r{c.replicate}"
    return _place(c.paths.results, "run", "runs", slug, slice, upstream)


def evaluation_place(c: Config, model: str) -> Place:
    """model: the id of a base model, or of a run and its step; c.data is the test set."""
    data = cast(Any, c.data)
    sampled = {"samples_per_problem": c.eval.samples_per_problem, "problems_per_chunk": c.eval.problems_per_chunk}
    slice = {"data": plain(data), "eval": sampled, "rollout": plain(c.rollout), "replicate": c.replicate}
    slug = f"{data.task}-{data.split}-n{c.eval.samples_per_problem}"
    return _place(c.paths.results, "evaluation", "evaluations", slug, slice, {"model": model})


@dataclass(frozen=True)
class Cell:
    """One run of the study: its config, the places of its stages, and the arm that it is set apart as ("": none)."""

    config: Config
    arm: str
    base: Place
    bank: Place
    calibration: Place
    run: Place


def cell(config: Config, arm: str = "") -> Cell:
    """The stages of one run. Raises UserError when data, validation, method and pressure do not go together."""
    data, validation, drawn = cast(Any, config.data), cast(Any, config.validation), config.train.prompts_per_step
    method, pressure = cast(Any, config.method), cast(Pressure, config.pressure)
    if drawn > data.problems:
        raise UserError(
            f"train.prompts_per_step = {drawn} with data.problems = {data.problems}: expected at most {data.problems}; "
            "lower the one or raise the other"
        )
    if validation.task != data.task:
        raise UserError(
            f"data is of task {data.task}, validation of task {validation.task}: "
            f"set data@validation={data.task}_validation, or other data of one task"
        )
    if validation.split == data.split:
        raise UserError(f"data and validation are both the {data.split!r} split: select on another one")
    if data.metric != "pass" and choice_name(pressure) == "binary":
        raise UserError(
            f"pressure = binary with data of task {data.task}: it takes rewards of 0 and 1, these are shares; set "
            "pressure=winrate, or pressure=none at k=1"
        )
    if data.metric != "pass" and method.interface == "regularization":
        raise UserError(
            f"method = {choice_name(method)} on the regularization side with data of task {data.task}: it takes "
            "rewards of 0 and 1, these are shares; choose a method with method.interface=reward, such as apo or rloo"
        )
    if method.source not in ("policy", "bank"):
        raise UserError(f"method = {choice_name(method)}: it learns from {method.source}; kappo train samples its own")
    bank = bank_place(config)
    calibration = calibration_place(config.paths.results, bank.id, pressure, method.interface)
    return Cell(config, arm, base_place(config), bank, calibration, run_place(config))

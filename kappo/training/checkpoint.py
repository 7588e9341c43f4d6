"""Checkpoints: a Hugging Face folder, optimizer state by parameter name, one commit mark each."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kappo.errors import UserError
from kappo.models import WEIGHTS, save_model, save_tensors, tied
from kappo.pressure.base import Floats
from kappo.records import read_json, sha256, write_json

if TYPE_CHECKING:
    from kappo.training.learner import Learner

STATE = "state.json"
OPTIMIZER = "optimizer.safetensors"
CARRIED = "carried/"
"""How carried arrays are named beside the optimizer's state."""


@dataclass(frozen=True)
class State:
    """What a run needs to go on: steps done, the next position in the data, the end of its part of metrics.jsonl."""

    step: int
    cursor: int
    metrics_bytes: int


def folder_name(step: int) -> str:
    return f"step-{step:06d}"


def save(
    run: Path, learner: Learner, tokenizer: Any, state: State, keep: list[int], carried: Mapping[str, Floats]
) -> None:
    """Write a checkpoint, commit it by its state.json, then drop those before it that are not in `keep`.

    carried: arrays, besides weights and optimizer, that a resumed run needs. Kept checkpoints lose their optimizer
    state: a run resumes from its latest one only.
    """
    import torch

    from kappo.training.learner import optimizer_tensors

    folder = run / folder_name(state.step)
    shutil.rmtree(folder, ignore_errors=True)
    save_model(learner.model, tokenizer, folder)
    more = {f"{CARRIED}{name}": torch.from_numpy(values.copy()) for name, values in carried.items()}
    save_tensors({**optimizer_tensors(learner), **more}, folder / OPTIMIZER)
    hashes = {name: sha256(folder / name) for name in (WEIGHTS, OPTIMIZER)}
    write_json(folder / STATE, {**vars(state), "files": hashes})
    for old in sorted(run.glob("step-*")):
        step = int(old.name.split("-")[1])
        if step < state.step and step in keep:
            (old / OPTIMIZER).unlink(missing_ok=True)
        elif step != state.step:
            shutil.rmtree(old)


def latest(run: Path, keep: Sequence[int] = ()) -> State | None:
    """The newest checkpoint that can be resumed, or None: its files are as they were written, and so are those of the
    steps before it that are in `keep`. Damaged ones are passed over; their steps are then trained again.
    """
    for folder in sorted(run.glob("step-*"), reverse=True):
        state = _state(folder, (WEIGHTS, OPTIMIZER))
        if state and all(_state(run / folder_name(step), (WEIGHTS,)) for step in keep if step < state.step):
            return state
    return None


def _state(folder: Path, files: Sequence[str]) -> State | None:
    """The state of a checkpoint whose named files are whole; None for any other folder."""
    try:
        found = read_json(folder / STATE, [*(f.name for f in fields(State)), "files"])
        whole = all(sha256(folder / name) == found["files"][name] for name in files)
        state = State(found["step"], found["cursor"], found["metrics_bytes"])
        return state if whole and folder.name == folder_name(state.step) else None
    except (UserError, OSError, KeyError, TypeError, ValueError):
        return None


def restore(run: Path, learner: Learner, state: State, carried: Mapping[str, Floats]) -> None:
    """Load the state's weights and optimizer into the learner, and the carried arrays in place.

    Raises UserError when a file is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from kappo.training.learner import restore_optimizer

    folder = run / folder_name(state.step)
    try:
        weights, optimizer = load_file(folder / WEIGHTS), load_file(folder / OPTIMIZER)
    except (SafetensorError, OSError) as error:
        raise UserError(f"checkpoint {folder} is damaged ({error}): delete that folder and run again") from None
    missing = set(learner.model.state_dict()) - set(weights) - tied(learner.model)
    if missing:
        raise UserError(f"checkpoint {folder} lacks {sorted(missing)[0]}: delete that folder and run again")
    learner.model.load_state_dict(weights, strict=False)
    restore_optimizer(learner, optimizer)
    for name, values in carried.items():
        values[...] = optimizer[f"{CARRIED}{name}"].numpy()

"""The training loop: resume, make a step's units, step, log, checkpoint. It knows no method and no reward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kappo.methods.base import Method
from kappo.pressure.base import Floats
from kappo.tracking import Tracker, progress
from kappo.training import checkpoint
from kappo.training.learner import Learner, Units

MakeUnits = Callable[[int], tuple[Units, Mapping[str, float]]]
"""Step (from 0) -> what to learn from and what to log about it."""

NOTHING: Mapping[str, Floats] = {}


@dataclass(frozen=True)
class Loop:
    """keep: steps whose weights stay; every: steps between checkpoints that a killed run resumes from."""

    folder: Path
    steps: int
    items_per_step: int
    every: int
    keep: list[int]

    def run(
        self,
        learner: Learner,
        tokenizer: Any,
        method: Method,
        make_units: MakeUnits,
        tracker: Tracker,
        name: str,
        carried: Mapping[str, Floats] = NOTHING,
    ) -> None:
        """Train from the latest checkpoint (or from the start) to the last step. Leaves the last weights in learner.

        carried: arrays that make_units keeps up to date in place; checkpoints hold them.
        """
        checkpoints = self.folder / "checkpoints"
        state = checkpoint.latest(checkpoints, self.keep) or checkpoint.State(0, 0, 0)
        if state.step:
            checkpoint.restore(checkpoints, learner, state, carried)
        with tracker.open(state.metrics_bytes):
            for step in progress(range(state.step, self.steps), name, total=self.steps, initial=state.step):
                learner.model.eval()
                units, about = make_units(step)
                metrics = learner.step(units, method, step)
                done = step + 1
                tracker.log(done, {**about, **metrics})
                if done % self.every == 0 or done in self.keep or done == self.steps:
                    state = checkpoint.State(done, done * self.items_per_step, tracker.flush())
                    checkpoint.save(checkpoints, learner, tokenizer, state, self.keep, carried)

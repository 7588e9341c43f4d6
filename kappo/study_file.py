"""What a study file says, and whether it makes sense by itself. `studies` resolves it into runs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from kappo.config import Bank, within
from kappo.errors import UserError, near_misses

VARIED = ("method", "pressure", "objective", "k", "beta", "lr", "arm", "train")
"""What a grid entry may set, these and settings below them: all else is the same for all runs of a study."""

CHOICES = ("method", "pressure", "objective")
"""Of these, the ones whose value is a file of conf/."""

RESERVED = ("models", "banks", "calibration", "runs", "evaluations", "benchmarks", "cells")
"""Folders of results/ that studies share."""


Figure = Literal[
    "at_k",
    "agreement",
    "agreement_validation",
    "pressure",
    "gain",
    "prediction",
    "training",
    "rollouts",
    "frontier",
    "tuning",
]
NEEDS_VALIDATION = ("agreement_validation",)
NEEDS_TRAIN = ("gain", "prediction")


@dataclass(frozen=True)
class Arm:
    """An arm of a study; method `base` is the base model, without a pressure any is meant."""

    method: str
    k: int = within(0, at_least=0)
    pressure: str = ""
    arm: str = ""

    def names(self, other: Arm) -> bool:
        """Whether the other arm is the one that is meant."""
        same = self.method == other.method and self.k == other.k and self.arm == other.arm
        return same and self.pressure in ("", other.pressure)

    def text(self) -> str:
        """The arm as one writes it in a claim."""
        apart = f', arm: "{self.arm}"' if self.arm else ""
        pressure = f", pressure: {self.pressure}" if self.pressure else ""
        return f"{{method: {self.method}{pressure}, k: {self.k}{apart}}}"


@dataclass(frozen=True)
class Claim:
    """left - right at k_eval on a split, paired within replicates, in points of the task's metric.

    at_least, at_most: the claimed bound of the difference; both: it lies between them (equivalence).
    """

    text: str
    left: Arm
    right: Arm
    split: str
    k_eval: int = within(at_least=1)
    at_least: float | None = None
    at_most: float | None = None

    def __post_init__(self) -> None:
        if self.at_least is None and self.at_most is None:
            raise ValueError(f"claim {self.text!r}: expected at_least or at_most")
        if self.at_least is not None and self.at_most is not None and self.at_least >= self.at_most:
            raise ValueError(f"claim {self.text!r}: at_least = {self.at_least} lies above at_most = {self.at_most}")
        if self.left == self.right:
            raise ValueError(f"claim {self.text!r}: left and right are the same arm")


@dataclass(frozen=True)
class Datasets:
    train: str
    validation: str
    test: list[str]


@dataclass(frozen=True)
class Select:
    metric: Literal["pass@k_train"] = "pass@k_train"
    split: Literal["validation"] = "validation"


@dataclass(frozen=True)
class Theory:
    """What the theory figures are drawn at: k, beta, and M completions a prompt in the bank."""

    k: list[int] = within([1, 2, 4, 8], at_least=1, at_most=1000)
    beta: list[float] = within([0.1, 5e-4], at_least=1e-6, at_most=100)
    samples_per_prompt: int = within(30, at_least=1)

    def __post_init__(self) -> None:
        for name, values in (("k", self.k), ("beta", self.beta)):
            if not 1 <= len(set(values)) == len(values) <= 6:
                raise ValueError(f"{name} = {values}: expected one to six values, each once")
        if max(self.k) == 1:
            raise ValueError(f"k = {self.k}: expected at least one above 1")


@dataclass(frozen=True)
class TheoryStudy:
    """A study file that has `theory`: figures and tables of the papers' mathematics."""

    name: str
    theory: Theory

    figures: ClassVar[tuple[str, ...]] = ("optimum", "finite bank", "sharpening", "fixed points")
    tunes: ClassVar[bool] = False


@dataclass(frozen=True)
class Study:
    """A study file.

    grid: each entry names a method and a pressure and lists k, beta, lr and further settings; lists are multiplied out.
    Runs that differ in method, pressure or k are arms of their own; of the others, selection keeps the best. An entry's
    `arm` sets its runs apart, too: a text in which {beta} stands for the run's beta.
    settings: dotted settings for all runs and tests, such as {train.steps: 1000}.
    claims: see figures/claims.py.
    """

    name: str
    replicates: list[int]
    model: str
    data: Datasets
    grid: list[Any]
    settings: dict[str, Any] = field(default_factory=dict)
    bank: Bank = field(default_factory=Bank)
    select: Select = field(default_factory=Select)
    figures: list[Figure] = field(default_factory=lambda: ["at_k"])
    claims: list[Claim] = field(default_factory=list)

    @property
    def tunes(self) -> bool:
        """Whether it only compares validation scores: figures = [tuning]. It then evaluates no test set."""
        return self.figures == ["tuning"]


def check(study: Study) -> None:
    """Raises UserError for what no study can mean."""
    if not study.replicates or min(study.replicates) < 0 or len(set(study.replicates)) < len(study.replicates):
        bad_replicates(study.replicates)
    if not study.data.test and not study.tunes:
        raise UserError("data.test = []: expected at least one test set, such as [rules_id, rules_hard]")
    if not study.figures:
        raise UserError("figures = []: expected at least one, such as [at_k]")
    if len(set(study.figures)) < len(study.figures) or ("tuning" in study.figures and not study.tunes):
        raise UserError(f"figures = {study.figures}: expected each once, and tuning by itself")
    check_name(study.name)


def check_name(name: str) -> None:
    """Raises UserError unless results/NAME/ can be the study's own."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise UserError(f"name = {name!r}: expected letters, digits, '_', '-' and '.': it names a folder")
    if name in RESERVED:
        raise UserError(f"name = {name!r}: results/{name}/ is shared by all studies; choose another name")


def first_replicates(count: Any) -> list[int]:
    """Replicates 0 .. count - 1. Raises UserError unless count is a whole number >= 1."""
    return list(range(count)) if isinstance(count, int) and count >= 1 else bad_replicates(count)


def arm_text(point: Mapping[str, Any]) -> str:
    """The point's `arm` with {setting} replaced by the point's value. Raises UserError for a setting it lacks."""
    text = point.get("arm", "")
    if not isinstance(text, str):
        raise UserError(f"arm = {text!r}: expected text, such as 'beta {{beta}}'")
    for name in re.findall(r"{([^}]*)}", text):
        if name not in point:
            raise UserError(f"arm = {text!r}: the entry sets no {name!r}; it sets {', '.join(point)}")
        text = text.replace(f"{{{name}}}", f"{point[name]:g}" if isinstance(point[name], float) else str(point[name]))
    return text


def bad_replicates(value: Any) -> Any:
    raise UserError(f"replicates = {value!r}: expected at least one, each a different whole number >= 0")


def points(grid: Sequence[Any]) -> list[dict[str, Any]]:
    """Grid entries with lists -> single settings, in order."""
    if not grid:
        raise UserError("grid = []: expected at least one entry, such as {method: apo, pressure: binary, k: [1, 4]}")
    found = []
    for i, entry in enumerate(grid):
        if not isinstance(entry, Mapping):
            raise UserError(
                f"grid[{i}] = {entry!r}: expected settings, such as {{method: apo, pressure: binary, k: [1]}}"
            )
        odd = [key for key in entry if not isinstance(key, str) or key.split(".")[0] not in VARIED]
        if odd:
            raise UserError(
                f"grid[{i}] sets {odd[0]!r}: {near_misses(str(odd[0]), VARIED)}; runs may differ in these and in "
                "settings below method, pressure, objective and train; what all runs share stands in `settings`"
            )
        empty = [key for key, value in entry.items() if value == []]
        if empty:
            raise UserError(f"grid[{i}].{empty[0]} = []: expected at least one value")
        axes = [[(key, v) for v in (value if isinstance(value, list) else [value])] for key, value in entry.items()]
        found += [dict(point) for point in itertools.product(*axes)]
    return found

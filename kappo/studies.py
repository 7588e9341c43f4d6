"""Study -> cells -> resolved configs. The only bridge from the workflow; no torch."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, cast

from kappo import study_file
from kappo.compose import choices, compose, load_study, parse_value, to_yaml
from kappo.config import Config, build, choice_name, plain
from kappo.errors import UserError, near_misses
from kappo.folders import DONE, MANIFEST, all_there
from kappo.places import Cell, cell, evaluation_place
from kappo.records import canonical, read_json, write_if_changed
from kappo.study_file import NEEDS_TRAIN, NEEDS_VALIDATION, Arm, Study, TheoryStudy

CHANGES_ARMS = {"method", "pressure", "objective", "k", "grid", "data.test"}
"""With one of these overridden, claims about what the study's file has are `not in this run`."""

OWN = {f.name for f in fields(Study)} - {"bank", "model", "data"} | {"data.train", "data.validation", "data.test"}
"""Settings of a study itself; all others are those of its runs."""

TRAIN = "training_problems"
"""How the evaluation of the training problems is named."""


@dataclass(frozen=True)
class Plan:
    """A study, resolved. tests: for each replicate and evaluated set of problems the config whose `data` it is.

    Besides the test sets these are the validation and training problems where a figure of the study needs them.
    """

    study: Study
    results: Path
    cells: list[Cell]
    tests: dict[tuple[int, str], Config]

    @property
    def folder(self) -> Path:
        return self.results / self.study.name

    @property
    def target(self) -> Path:
        """The last file that the workflow makes."""
        return self.folder / ("tables/tuning.csv" if self.study.tunes else "figures/manifest.json")

    def runs(self, replicate: int) -> list[Cell]:
        return [c for c in self.cells if c.config.replicate == replicate]

    def base(self, replicate: int) -> str:
        return next(c.base.id for c in self.cells if c.config.replicate == replicate)

    def test_slice(self, replicate: int, test: str) -> str:
        """What, besides the models, an evaluation's samples depend on."""
        return evaluation_place(self.tests[replicate, test], "").id

    def cell_file(self, id: str) -> Path:
        """The config of a stage, which other studies may share."""
        return self.results / "cells" / f"{id}.yaml"

    def own_file(self, name: str) -> Path:
        return self.folder / "cells" / name

    def test_file(self, replicate: int, test: str) -> Path:
        return self.own_file(f"test-{self.test_slice(replicate, test)}.yaml")

    def made_of(self) -> list[str]:
        """Ids of everything that the study's tables come from: another plan, other tables."""
        slices = [self.test_slice(replicate, test) for replicate, test in self.tests]
        return [*(f"{c.run.id} {c.arm}" for c in self.cells), *(self.base(r) for r in self.study.replicates), *slices]

    def write(self) -> None:
        """Write the resolved configs that the stages read, each only when its bytes change."""
        texts: dict[Path, Config] = {}
        for c in self.cells:
            for place in (c.base, c.bank, c.calibration, c.run):
                texts.setdefault(self.cell_file(place.id), c.config)
        for (replicate, test), config in self.tests.items():
            texts[self.test_file(replicate, test)] = config
        texts[self.own_file("study.yaml")] = self.cells[0].config
        for path, config in texts.items():
            write_if_changed(path, to_yaml(config))
        write_if_changed(self.own_file("claims.json"), canonical(plain(self.study.claims)))

    def drop_stale_marks(self) -> None:
        """Unlink the marks of what is gone, so that the workflow makes it again: index files, tables and figures with
        all that comes from them. A run's folder may go once it is evaluated.
        """
        stale = False
        for place in {p.folder: p for c in self.cells for p in (c.base, c.bank, c.calibration, c.run)}.values():
            if not place.present():
                (place.folder / DONE).unlink(missing_ok=True)
        for replicate, test in self.tests:
            index = self.folder / "evaluations" / f"{test}-r{replicate}.json"
            if index.is_file() and not _evaluated(index):
                index.unlink()
            stale = stale or not index.is_file()
        for made in (self.folder / "tables", self.folder / "figures"):
            stale = stale or not all_there(made, unchanged=True)
            if stale:
                (made / MANIFEST).unlink(missing_ok=True)


@dataclass(frozen=True)
class TheoryPlan:
    """The theory study, resolved: one job that needs no language model."""

    study: TheoryStudy
    results: Path
    cells: tuple[Cell, ...] = ()

    @property
    def folder(self) -> Path:
        return self.results / self.study.name

    @property
    def target(self) -> Path:
        return self.folder / MANIFEST

    def arguments(self) -> str:
        """What `kappo theory` is called with."""
        theory = self.study.theory
        k, beta = ",".join(map(str, theory.k)), ",".join(map(str, theory.beta))
        return f"--k {k} --beta {beta} --samples-per-prompt {theory.samples_per_prompt}"

    def write(self) -> None:
        """Nothing: its job takes its settings as arguments."""

    def drop_stale_marks(self) -> None:
        if not all_there(self.folder, unchanged=True):
            self.target.unlink(missing_ok=True)


def theory_plan(node: dict[str, Any], overrides: Sequence[str]) -> TheoryPlan:
    """overrides: of `theory.*`; those of training are checked, and change nothing but paths.results."""
    rest = []
    for text in overrides:
        if _key(text).split(".")[0] == "theory":
            node["theory"][_key(text).removeprefix("theory.")] = parse_value(text)
        elif _key(text).split(".")[0] not in OWN:
            rest.append(text)
    study: TheoryStudy = build(TheoryStudy, node)
    study_file.check_name(study.name)
    return TheoryPlan(study, Path(compose(rest).paths.results))


def plan(name: str, overrides: Sequence[str] = (), replicates: int | None = None) -> Plan | TheoryPlan:
    """Resolve a study into its cells.

    overrides: Hydra overrides for every cell; those of a study's own settings (`replicates`, `data.test`, ...) change
    the study. replicates: run replicates 0 .. n - 1 instead of the study's list.
    """
    if name not in choices("study"):
        raise UserError(f"study = {name!r}: no file conf/study/{name}.yaml; {near_misses(name, choices('study'))}")
    node = load_study(name)
    if "theory" in node:
        return theory_plan(node, overrides)
    rest = []
    for text in overrides:
        key = _key(text)
        if key in OWN:
            target, parts = node, key.split(".")
            for part in parts[:-1]:
                target = target[part]
            target[parts[-1]] = parse_value(text)
        else:
            rest.append(text)
    if replicates is not None:
        node["replicates"] = study_file.first_replicates(replicates)
    study: Study = build(Study, node)
    study_file.check(study)
    settings = {f"bank.{key}": value for key, value in plain(study.bank).items()} | study.settings
    given = {_key(r) for r in rest}
    for key in given.intersection(("replicate", "study")):
        raise UserError(f"{key} is decided by the study: set replicates=[3,4], or choose another study file")
    settings = {k: v for k, v in settings.items() if k not in given}
    common = [f"model={study.model}", f"data@validation={study.data.validation}"]
    train = [f"data={study.data.train}", *common]
    # What is said of `data` is said of the training data: a test set is what its own file says.
    kept_for_tests = [r for r in rest if not (_key(r) == "data" or _key(r).startswith("data."))]
    for_tests = {k: v for k, v in settings.items() if not k.startswith("data.")}
    cells, tests = [], {}
    for replicate in study.replicates:
        fixed = {"study": study.name, "replicate": replicate}
        for point in study_file.points(study.grid):
            named = [f"{key}={point[key]}" for key in study_file.CHOICES if key in point]
            kept = {k: v for k, v in point.items() if k not in given | {*study_file.CHOICES, "arm"}}
            config = compose([*_unless(given, named + train), *rest], {**settings, **kept, **fixed})
            cells.append(cell(config, study_file.arm_text(point)))
        for test in study.data.test:
            tests[replicate, test] = compose(
                [*_unless(given, common), *kept_for_tests, f"data={test}"], {**for_tests, **fixed}
            )
    _check_tests(cells, [cast(Any, config.data) for (r, _), config in tests.items() if r == study.replicates[0]])
    for replicate in study.replicates:
        first = next(c.config for c in cells if c.config.replicate == replicate)
        if set(study.figures).intersection(NEEDS_VALIDATION):
            enough = replace(first.eval, samples_per_problem=max(first.eval.k))
            tests[replicate, "validation"] = replace(first, data=first.validation, eval=enough)
        if set(study.figures).intersection(NEEDS_TRAIN):
            few = replace(first.eval, samples_per_problem=first.eval.train_samples, k=[1])
            tests[replicate, TRAIN] = replace(first, eval=few)
    _check_claims(study, cells, tests, whole=not CHANGES_ARMS.intersection(map(_key, overrides)))
    unique = {(c.run.id, c.arm): c for c in cells}
    return Plan(study, Path(cells[0].config.paths.results), list(unique.values()), tests)


def plans(names: str, overrides: Sequence[str] = (), replicates: int | None = None) -> dict[str, Plan | TheoryPlan]:
    """The plans of several studies, by name; names: with commas between them. Raises UserError as `plan` does."""
    made = [plan(name, overrides, replicates) for name in names.split(",")]
    found = {p.study.name: p for p in made}
    if len(found) < len(made):
        raise UserError(f"study = {names!r}: two of these studies have the same name; name each once")
    return found


def find(plans: Sequence[Plan | TheoryPlan], kind: Literal["base", "bank", "calibration", "run"], id: str) -> Cell:
    """The first cell of any of the studies that uses this stage."""
    return next(c for p in plans for c in p.cells if getattr(c, kind).id == id)


def _check_tests(cells: Sequence[Cell], sets: Sequence[Any]) -> None:
    tested, task = [data.split for data in sets], cast(Any, cells[0].config.data).task
    for data in sets:
        if data.task != task:
            raise UserError(
                f"data.test: a set of task {data.task}, data.train is of task {task}: name sets of one task"
            )
    if len(set(tested)) < len(tested):
        raise UserError(
            f"data.test: two test sets share a split ({', '.join(tested)}); tables tell them apart by split"
        )
    for c in cells:
        for name in ("data", "validation"):
            split = cast(Any, getattr(c.config, name)).split
            if split in tested:
                raise UserError(
                    f"the test set's split {split!r} is used as {name}, too: a test needs prompts of its own"
                )


def _check_claims(study: Study, cells: Sequence[Cell], tests: Mapping[tuple[int, str], Config], whole: bool) -> None:
    """Raises UserError for a claim that needs more samples than are drawn; whole: or about arms or splits not there."""
    arms = [
        Arm(choice_name(c.config.method), c.config.k, choice_name(c.config.pressure), c.arm)
        for c in cells
        if c.config.replicate == study.replicates[0]
    ]
    samples = {
        cast(Any, config.data).split: config.eval.samples_per_problem
        for (replicate, test), config in tests.items()
        if replicate == study.replicates[0] and test in study.data.test
    }
    for claim in study.claims:
        if whole and claim.split not in samples:
            raise UserError(f"claim {claim.text!r}: split = {claim.split!r}; {near_misses(claim.split, samples)}")
        if claim.k_eval > samples.get(claim.split, claim.k_eval):
            raise UserError(
                f"claim {claim.text!r}: k_eval = {claim.k_eval} with {samples[claim.split]} samples a problem: "
                "unbiased pass@k needs n >= k; lower it or raise eval.samples_per_problem"
            )
        for arm in (claim.left, claim.right):
            if whole and arm.method != "base" and not any(arm.names(other) for other in arms):
                raise UserError(
                    f"claim {claim.text!r}: the grid has no arm {arm.text()}; "
                    f"{near_misses(arm.text(), [other.text() for other in arms])}"
                )


def _evaluated(index: Path) -> bool:
    try:
        return all(all_there(index.parent / entry["folder"]) for entry in read_json(index))
    except (UserError, KeyError, TypeError):
        return False


def split_settings(text: str) -> list[str]:
    """Overrides in one string, quoted as in a shell. Raises UserError for an open quote."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserError(
            f"set = {text!r}: {error}; expected overrides with spaces between, such as 'k=4 lr=1e-3'"
        ) from None


def _key(override: str) -> str:
    return override.lstrip("+").partition("=")[0]


def _unless(given: set[str], choices: list[str]) -> list[str]:
    return [choice for choice in choices if _key(choice) not in given]

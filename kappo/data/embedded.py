"""The embedded tasks: one-shot rule induction over digits.

A prompt such as `4,2=8;3,5=?` shows one example of a hidden rule (here a*b, modulo 10) and asks for another value; a
completion names the rule, applies it and boxes the answer: `a*b:3*5=\\boxed{5}`. Exactly one rule fits the example,
and only that rule gives the gold answer, so that a wrong rule earns nothing by chance. The warm-up corpus computes
well but draws the rule from a skewed prior, independently of the example: the base model guesses its strategy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kappo import streams
from kappo.config import Plug, within
from kappo.records import Demonstration, Problem
from kappo.rewards.boxed import OPEN

RULES: dict[str, Callable[[Any, Any], Any]] = {
    "a+b": lambda a, b: a + b,
    "a-b": lambda a, b: a - b,
    "a*b": lambda a, b: a * b,
    "b-a": lambda a, b: b - a,
    "a+a": lambda a, b: a + a,
    "b*b": lambda a, b: b * b,
    "b+b": lambda a, b: b + b,
    "a*a": lambda a, b: a * a,
}
"""Rule by name; its place is its level, 1 to 8."""

REGIONS = {"id": (0.0, 0.15), "hard": (0.15, 0.30), "validation": (0.30, 0.40), "train": (0.40, 1.0)}
"""Disjoint shares of each level's items: no split shares a prompt with another. The corpus draws from `train`."""


@lru_cache(maxsize=1)
def items() -> list[NDArray[np.int64]]:
    """For each level the rows (a, b, x, y) whose example and answer single out the level's rule."""
    a, b = (grid.ravel() for grid in np.meshgrid(np.arange(10), np.arange(10), indexing="ij"))
    values = np.stack([rule(a, b) % 10 for rule in RULES.values()])
    unique = np.array([[(values[:, i] == values[r, i]).sum() == 1 for i in range(100)] for r in range(len(RULES))])
    found = []
    for r in range(len(RULES)):
        alone = np.flatnonzero(unique[r])
        example, question = (grid.ravel() for grid in np.meshgrid(alone, alone, indexing="ij"))
        differ = example != question
        e, q = example[differ], question[differ]
        found.append(np.stack([a[e], b[e], a[q], b[q]], axis=1))
    return found


@lru_cache(maxsize=256)
def pool(seed: int, level: int, split: str) -> NDArray[np.int64]:
    """The split's items of one level, in the seed's order."""
    rows = items()[level]
    order = streams.permutation(seed, f"rules/items/{level}", len(rows))
    low, high = (int(share * len(rows)) for share in REGIONS[split])
    return rows[order[low:high]]


def counts(mix: list[float], total: int) -> NDArray[np.int64]:
    """Whole numbers in the proportions of `mix` that add up to total (largest remainders)."""
    exact = np.asarray(mix) / np.sum(mix) * total
    floor = np.floor(exact).astype(np.int64)
    order = np.argsort(-(exact - floor), kind="stable")
    floor[order[: total - floor.sum()]] += 1
    return floor


def _prompt(row: NDArray[np.int64], name: str) -> str:
    a, b, x, y = (int(v) for v in row)
    return f"{a},{b}={RULES[name](a, b) % 10};{x},{y}=?"


def _completion(row: NDArray[np.int64], name: str, answer: int) -> str:
    digits = {"a": str(row[2]), "b": str(row[3])}
    return f"{name}:{''.join(digits.get(c, c) for c in name)}={OPEN}{answer}}}"


@dataclass(frozen=True)
class Rules:
    """Rule-induction problems of one split. seed is the replicate: another one gives other prompts and base models."""

    split: Literal["train", "validation", "id", "hard"]
    reward: Plug
    problems: int = within(512, at_least=1)
    level_mix: list[float] = within([1.0] * 8, at_least=0, at_most=1)
    corpus_prior: list[float] = within([1.0] * 8, at_least=0, at_most=1)
    corpus_noise: float = within(0.02, at_least=0, at_most=1)

    task = "rules"
    metric = "pass"

    def __post_init__(self) -> None:
        for name in ("level_mix", "corpus_prior"):
            weights = getattr(self, name)
            if len(weights) != len(RULES) or sum(weights) <= 0:
                raise ValueError(f"{name} = {weights}: expected {len(RULES)} shares, one a rule, not all 0")
        for level, count in enumerate(counts(self.level_mix, self.problems)):
            held = len(pool(0, level, self.split))
            if count > held:
                raise ValueError(
                    f"problems = {self.problems} would need {count} of level {level + 1}, the {self.split} split holds "
                    f"{held}; lower problems or this level's share in level_mix"
                )

    @staticmethod
    def vocabulary() -> list[str]:
        """Every token of prompts and completions."""
        return [*"0123456789", "a", "b", *"+-*", *",=;?:", OPEN, "}"]

    def load(self, seed: int) -> list[Problem]:
        """The split's problems, the same number of each level for every seed."""
        names = list(RULES)
        made: list[Problem] = []
        for level, count in enumerate(counts(self.level_mix, self.problems)):
            rows = pool(seed, level, self.split)
            for row in rows[:count]:
                answer = RULES[names[level]](int(row[2]), int(row[3])) % 10
                prompt = _prompt(row, names[level])
                made.append(Problem(f"rules/{self.split}/{len(made):04d}", prompt, str(answer), level + 1))
        return made

    def demonstrations(self, seed: int, step: int, count: int) -> list[Demonstration]:
        """One warm-up batch: prompts in the level mix, completions whose rule ignores the prompt."""
        names = list(RULES)
        draw = streams.uniform(
            seed, "rules/corpus", np.arange(step * count, (step + 1) * count)[:, None], 0, np.arange(5)
        )
        levels = inverse(self.level_mix, draw[:, 0])
        strategies = inverse(self.corpus_prior, draw[:, 2])
        made = []
        for i in range(count):
            rows = pool(seed, int(levels[i]), "train")
            row, name = rows[int(draw[i, 1] * len(rows))], names[int(strategies[i])]
            answer = RULES[name](int(row[2]), int(row[3])) % 10
            if draw[i, 3] < self.corpus_noise:
                answer = int(draw[i, 4] * 10)
            made.append(Demonstration(_prompt(row, names[int(levels[i])]), _completion(row, name, answer)))
        return made


def inverse(weights: list[float], u: NDArray[np.float64]) -> NDArray[np.int64]:
    edges = np.cumsum(weights) / np.sum(weights)
    return np.minimum(np.searchsorted(edges, u, side="right"), len(weights) - 1)

"""The embedded programs: rule induction with two branches and a continuous reward.

A prompt such as `3,7=0;8,2=6;` shows one example of a hidden function for each of its branches, a < b and a >= b,
modulo 10; a completion is a program, one expression a branch (here `a+b;a-b`), graded by the share of 16 hidden tests
that it passes. Each example singles out its branch's rule. The warm-up corpus writes well-formed programs
whose rules are drawn from a skewed prior, independently of the examples: the base model guesses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kappo import streams
from kappo.config import Plug, within
from kappo.data.embedded import REGIONS, RULES, counts, inverse
from kappo.records import Demonstration, Problem

NAMES = list(RULES)
TESTS = 16


@lru_cache(maxsize=1)
def examples() -> list[list[NDArray[np.int64]]]:
    """For each branch and rule the rows (a, b) of the branch that single out the rule."""
    a, b = (grid.ravel() for grid in np.meshgrid(np.arange(10), np.arange(10), indexing="ij"))
    values = np.stack([rule(a, b) % 10 for rule in RULES.values()])
    alone = [(values == values[r]).sum(axis=0) == 1 for r in range(len(NAMES))]
    return [[np.stack([a, b], axis=1)[only & branch] for only in alone] for branch in (a < b, a >= b)]


@lru_cache(maxsize=1024)
def pool(seed: int, first: int, second: int, split: str) -> NDArray[np.int64]:
    """The split's example pairs (a, b, a', b') of one pair of rules, in the seed's order."""
    upper, lower = examples()[0][first], examples()[1][second]
    i, j = (grid.ravel() for grid in np.meshgrid(np.arange(len(upper)), np.arange(len(lower)), indexing="ij"))
    rows = np.concatenate([upper[i], lower[j]], axis=1)
    order = streams.permutation(seed, f"programs/items/{first}/{second}", len(rows))
    low, high = (int(share * len(rows)) for share in REGIONS[split])
    return rows[order[low:high]]


def _prompt(row: NDArray[np.int64], first: str, second: str) -> str:
    a, b, x, y = (int(v) for v in row)
    return f"{a},{b}={RULES[first](a, b) % 10};{x},{y}={RULES[second](x, y) % 10};"


@dataclass(frozen=True)
class Programs:
    """Two-branch programs of one split. seed is the replicate: another one gives other prompts and base models.

    level_mix: shares of the rules, the same for both branches. A problem's level is the harder of its two rules'.
    """

    split: Literal["train", "validation", "id", "hard"]
    reward: Plug
    problems: int = within(512, at_least=1)
    level_mix: list[float] = within([1.0] * 8, at_least=0, at_most=1)
    corpus_prior: list[float] = within([1.0] * 8, at_least=0, at_most=1)

    task = "programs"
    metric = "max"

    def __post_init__(self) -> None:
        for name in ("level_mix", "corpus_prior"):
            weights = getattr(self, name)
            if len(weights) != len(RULES) or sum(weights) <= 0:
                raise ValueError(f"{name} = {weights}: expected {len(RULES)} shares, one a rule, not all 0")
        for pair, count in enumerate(self._counts()):
            held = len(pool(0, *divmod(pair, len(NAMES)), self.split))
            if count > held:
                raise ValueError(
                    f"problems = {self.problems} would need {count} of one pair of rules, the {self.split} split holds "
                    f"{held}; lower problems or spread level_mix"
                )

    def _counts(self) -> NDArray[np.int64]:
        return counts(list(np.outer(self.level_mix, self.level_mix).ravel()), self.problems)

    @staticmethod
    def vocabulary() -> list[str]:
        """Every token of prompts and completions."""
        return [*"0123456789", "a", "b", *"+-*", *",=;"]

    def load(self, seed: int) -> list[Problem]:
        """The split's problems, the same number of each pair of rules for every seed."""
        made: list[Problem] = []
        for pair, count in enumerate(self._counts()):
            i, j = divmod(pair, len(NAMES))
            for row in pool(seed, i, j, self.split)[:count]:
                id = f"programs/{self.split}/{len(made):04d}"
                prompt = _prompt(row, NAMES[i], NAMES[j])
                made.append(Problem(id, prompt, self._tests(seed, id, row, i, j), max(i, j) + 1))
        return made

    @staticmethod
    def _tests(seed: int, id: str, row: NDArray[np.int64], first: int, second: int) -> str:
        """TESTS / 2 random inputs of each branch, other than the shown ones, with their outputs."""
        a, b = (grid.ravel() for grid in np.meshgrid(np.arange(10), np.arange(10), indexing="ij"))
        draw = np.argsort(streams.uniform(seed, "programs/tests", np.array([id]), np.arange(100)))
        found = []
        for branch, rule, shown in ((a < b, first, row[:2]), (a >= b, second, row[2:])):
            open_ = branch & ~((a == shown[0]) & (b == shown[1]))
            for x, y in [(int(a[i]), int(b[i])) for i in draw if open_[i]][: TESTS // 2]:
                found.append(f"{x},{y}={RULES[NAMES[rule]](x, y) % 10}")
        return " ".join(found)

    def demonstrations(self, seed: int, step: int, count: int) -> list[Demonstration]:
        """One warm-up batch: prompts in the level mix, programs whose rules ignore the prompt."""
        items = np.arange(step * count, (step + 1) * count)[:, None]
        draw = streams.uniform(seed, "programs/corpus", items, 0, np.arange(5))
        rules = [inverse(weights, draw[:, i]) for i, weights in enumerate((self.level_mix, self.level_mix))]
        guesses = [inverse(self.corpus_prior, draw[:, i]) for i in (2, 3)]
        made = []
        for n in range(count):
            i, j = int(rules[0][n]), int(rules[1][n])
            rows = pool(seed, i, j, "train")
            row = rows[int(draw[n, 4] * len(rows))]
            made.append(
                Demonstration(_prompt(row, NAMES[i], NAMES[j]), f"{NAMES[guesses[0][n]]};{NAMES[guesses[1][n]]}")
            )
        return made

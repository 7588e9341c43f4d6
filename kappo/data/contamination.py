"""Do test problems stand in the training data? Runs of n words that both have, case and punctuation aside."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WHOLE = 6
"""Texts of fewer words than this say too little to be looked for inside others: only an equal text counts."""


@dataclass(frozen=True)
class Overlap:
    """A test problem and the training problem that has most of its runs.

    share: of the test problem's runs, those found anywhere in the training data, in [0, 1]; shared: those in this
    one training problem; same: its whole text is the same but for case and white space.
    """

    test_id: str
    train_id: str
    share: float
    shared: int
    runs: int
    same: bool


def words(text: str) -> list[str]:
    """Lower-case words and numbers; punctuation, LaTeX's backslashes and braces only separate.

    A text without any, such as "?!", is what stands between its white space.
    """
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text).lower().replace("_", " ")) or text.split()


def plain(text: str) -> str:
    """The text without regard to case and white space: " ".join of its lower-case parts."""
    return " ".join(text.lower().split())


def runs(text: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    return (tuple(text[i : i + n]) for i in range(len(text) - n + 1))


def overlaps(test: Sequence[tuple[str, str]], train: Sequence[tuple[str, str]], n: int = 13) -> list[Overlap]:
    """The test problems (id, text) that share a run of n words with training problems, the worst first.

    A text of fewer than n words is one run of its own length; of fewer than WHOLE words, it is compared as a whole.
    """
    asked = [words(text) for _, text in test]
    wanted = [plain(text) for _, text in test]
    owners: dict[tuple[str, ...], list[int]] = {}
    for i, text in enumerate(asked):
        for run in set(runs(text, min(n, len(text)))) if text else ():
            owners.setdefault(run, []).append(i)
    lengths = sorted({len(run) for run in owners})
    found: list[set[tuple[str, ...]]] = [set() for _ in test]
    best: dict[int, tuple[int, bool, int]] = {}
    for j, (_, written) in enumerate(train):
        other, whole = words(written), plain(written)
        met = {
            run for k in lengths for run in runs(other, k) if run in owners and (k >= min(n, WHOLE) or k == len(other))
        }
        counts = Counter(i for run in met for i in owners[run])
        for run in met:
            for i in owners[run]:
                found[i].add(run)
        for i, count in counts.items():
            best[i] = max(best.get(i, (0, False, 0)), (count, whole == wanted[i], -j))
    rows = []
    for i, (count, same, place) in best.items():
        size = len(set(runs(asked[i], min(n, len(asked[i])))))
        rows.append(Overlap(test[i][0], train[-place][0], len(found[i]) / size, count, size, same))
    return sorted(rows, key=lambda row: (-row.share, -row.shared, row.test_id))

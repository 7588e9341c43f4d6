"""What a grader is, and when failed gradings stop a stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from kappo.errors import UserError
from kappo.records import Grade, Problem


class Reward(Protocol):
    def grade(self, problem: Problem, text: str) -> Grade: ...


def failed_share(verdicts: Sequence[str]) -> float:
    """Share of gradings that say nothing about the answer: unparsable, timeout or crash. 0 for no verdicts."""
    counts = Counter(verdicts)
    return sum(counts[v] for v in ("unparsable", "timeout", "crash")) / max(len(verdicts), 1)


def check_failed_share(verdicts: Sequence[str], limit: float, where: str) -> None:
    """Raises UserError when `failed_share` passes the limit: no silent zeros."""
    share = failed_share(verdicts)
    if share > limit:
        counts = ", ".join(f"{verdict} {n}" for verdict, n in Counter(verdicts).most_common())
        raise UserError(
            f"{where}: {share:.0%} of {len(verdicts)} gradings failed ({counts}), above the limit "
            f"eval.max_failed_share = {limit:g}. Look at the completions; raise rollout.max_new_tokens if they are cut "
            "off, or the limit."
        )

"""What a grader is, and when failed gradings stop a stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol, cast

from kappo.errors import UserError
from kappo.records import Grade, Problem


class Reward(Protocol):
    """A grader of many completions at a time may also have `grade_many(pairs) -> list[Grade]`, and `ready()`, which
    raises UserError where it cannot work on this machine.
    """

    def grade(self, problem: Problem, text: str) -> Grade: ...


def grade_all(reward: Any, pairs: Sequence[tuple[Problem, str]]) -> list[Grade]:
    """Grades of (problem, completion) pairs, in their order. A grader's own fault is a verdict: crash."""
    if hasattr(reward, "grade_many"):
        return cast(list[Grade], reward.grade_many(pairs))
    return [_grade(reward, problem, text) for problem, text in pairs]


def _grade(reward: Reward, problem: Problem, text: str) -> Grade:
    try:
        return reward.grade(problem, text)
    except Exception:  # counted and limited like the other verdicts
        return Grade(0.0, "crash")


def ready(reward: Any) -> None:
    """Refuse to start where the grader cannot work. Raises UserError with what to install."""
    if hasattr(reward, "ready"):
        reward.ready()


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

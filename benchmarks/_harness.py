"""Ratios against a named peer: both sides run in turn in one process, medians and spread, a table and a JSON file."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from kappo.records import write_json

RESULTS = Path("results") / "benchmarks"


@dataclass(frozen=True)
class Measured:
    """ours, peer: medians in `unit`; ratio > 1: kappo is faster; spread: the lowest and highest ratio."""

    metric: str
    ours: float
    peer: float
    ratio: float
    goal: float
    unit: str
    n: int
    peer_name: str
    spread: tuple[float, float]


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def side_by_side(
    metric: str,
    ours: Callable[[], object],
    peer: Callable[[], object],
    peer_name: str,
    goal: float,
    n: int = 7,
    amount: float = 0.0,
    unit: str = "s",
) -> Measured:
    """Time ours and the peer in turn, n times after a warm-up. With `amount` the figures are amount a second."""
    ours()
    peer()
    pairs = [(seconds(ours), seconds(peer)) for _ in range(n)]
    ratios = [theirs / mine for mine, theirs in pairs]
    mine, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    shown = (amount / mine, amount / theirs) if amount else (mine, theirs)
    spread = (min(ratios), max(ratios))
    return Measured(metric, *shown, statistics.median(ratios), goal, unit, n, peer_name, spread)


def report(name: str, rows: list[Measured]) -> None:
    """Print the table and write results/benchmarks/NAME.json."""
    print(
        f"{'metric':<34}{'kappo':>12}{'peer':>12}  {'unit':<9}{'ratio':>7}{'  lowest-highest':<18}{'goal':>6}   n  peer"
    )
    for row in rows:
        print(
            f"{row.metric:<34}{row.ours:>12,.4g}{row.peer:>12,.4g}  {row.unit:<9}{row.ratio:>7.2f}"
            f"  {row.spread[0]:.2f} - {row.spread[1]:.2f}".ljust(92)
            + f"{row.goal:>6g} {row.n:>3}  {row.peer_name}"
        )
    path = RESULTS / f"{name}.json"
    write_json(path, [asdict(row) for row in rows])
    print(path)

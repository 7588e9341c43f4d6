"""n samples a problem -> rewards -> pass@k curves with intervals; selection on the validation split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import stdtrit

from kappo import streams
from kappo.config import Config
from kappo.errors import UserError
from kappo.folders import Place, locked
from kappo.models import load_model
from kappo.records import SAMPLES, Problem, read_json, read_table, table, write_table
from kappo.reference import problem_fingerprint, rollout
from kappo.rewards.base import check_failed_share, ready
from kappo.rollout.base import RolloutEngine, SamplingSpec
from kappo.theory.estimators import max_at_k, pass_at_k
from kappo.tracking import Tracker, progress

FILE = "samples.parquet"
LEVEL = 0.95
ARM = ("method", "pressure", "k", "arm", "replicate", "seed")

Floats = NDArray[np.float64]


def sample_problems(
    engine: RolloutEngine, data: Any, problems: list[Problem], tokenizer: Any, spec: SamplingSpec
) -> pa.Table:
    """spec.n graded samples of each problem as a SAMPLES table."""
    graded = rollout(engine, data, problems, tokenizer, spec)
    levels = {p.id: p.level for p in problems}
    columns = {
        "prompt_id": [c.prompt_id for c, _ in graded],
        "level": [levels[c.prompt_id] for c, _ in graded],
        "sample": [c.sample for c, _ in graded],
        "reward": [g.score for _, g in graded],
        "verdict": [g.verdict for _, g in graded],
        "length": [len(c.token_ids) for c, _ in graded],
    }
    return table(columns, SAMPLES)


def evaluate(config: Config, place: Place, model_folder: Path) -> None:
    """Sample every problem of config.data with one model; finished chunks of an interrupted run are kept."""
    with locked(place) as work:
        if not work:
            return
        data, settings = cast(Any, config.data), config.eval
        ready(data.reward)
        problems = data.load(config.replicate)
        model, tokenizer = load_model(model_folder, config.runtime.threads)
        engine = cast(RolloutEngine, config.rollout)
        engine.load(model, tokenizer, 0)
        spec = SamplingSpec(settings.samples_per_problem, config.replicate, "evaluate")
        size = settings.problems_per_chunk
        chunks = [problems[low : low + size] for low in range(0, len(problems), size)]
        parts = []
        tracker = Tracker.of(config, place.folder, "evaluate", place.slice)
        with tracker.open():
            for i, chunk in enumerate(progress(chunks, f"test {data.task}_{data.split}: {place.upstream['model']}")):
                path = place.folder / "chunks" / f"{i:05d}.parquet"
                part = _read_chunk(path, [p.id for p in chunk for _ in range(spec.n)])
                if part is None:
                    part = sample_problems(engine, data, chunk, tokenizer, spec)
                    write_table(path, part)
                parts.append(part)
                tracker.log(i, {"reward": float(np.asarray(part["reward"]).mean())})
        rows = pa.concat_tables(parts).combine_chunks()
        check_failed_share(rows["verdict"].to_pylist(), settings.max_failed_share, f"evaluation {place.id}")
        write_table(place.folder / FILE, rows)
        place.finish([FILE], len(rows), problem_fingerprint(problems))


def _read_chunk(path: Path, ids: list[str]) -> pa.Table | None:
    """A finished chunk of exactly these problems, or None."""
    try:
        rows = read_table(path, SAMPLES)
    except UserError:
        return None
    return rows if rows["prompt_id"].to_pylist() == ids else None


def curve(rewards: Floats, ks: Sequence[int]) -> Floats:
    """Unbiased max@k of every problem, (problems, ks); rewards: (problems, n). For rewards in {0, 1} it is pass@k."""
    if np.isin(rewards, (0.0, 1.0)).all():
        right, n = rewards.sum(axis=1), rewards.shape[1]
        return np.stack([pass_at_k(right, n, k) for k in ks], axis=1)
    return np.stack([max_at_k(rewards, k) for k in ks], axis=1)


def interval(
    replicates: Sequence[Floats], resamples: int, seed: int = 0, bounds: tuple[float, float] = (0.0, 1.0)
) -> tuple[Floats, Floats, Floats]:
    """Mean over replicates and problems with a 95 % interval: three arrays (ks,).

    replicates: one (problems, ks) array each; each weighs the same. One replicate: percentile bootstrap over its
    problems, the draws a function of the seed. Several: Student's t over the replicates' means, cut to the
    `bounds` of the values; it covers problems and replicates, since each replicate has problems of its own.
    """
    means = np.stack([values.mean(axis=0) for values in replicates])
    if len(replicates) > 1:
        error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
        reach = stdtrit(len(means) - 1, 1 - (1 - LEVEL) / 2) * error
        middle = means.mean(axis=0)
        return middle, np.maximum(middle - reach, bounds[0]), np.minimum(middle + reach, bounds[1])
    values, size = replicates[0], len(replicates[0])
    u = streams.uniform(seed, "bootstrap/problems/0", np.arange(resamples)[:, None], 0, np.arange(size))
    weights = np.zeros((resamples, size))
    np.add.at(weights, (np.arange(resamples)[:, None], (u * size).astype(np.int64)), 1.0 / size)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(weights @ values, [tail, 1 - tail], axis=0)
    return means[0], low, high


CONFIGURATION = ("method", "pressure", "k", "beta", "lr")


def compare(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """Configurations of each arm by the mean over replicates of their best checkpoint's validation score.

    Rows: method, pressure, k, beta, lr, score (a fraction), replicates, step (mean of the best), chosen (1 for the
    arm's best configuration, the earlier in the order of `runs` at a tie, else 0). Raises UserError when the
    configurations of an arm were tried on different replicates, or two runs differ in nothing that the rows show.
    """
    found: dict[tuple[Any, ...], dict[int, tuple[float, int]]] = {}
    for row in (row for folder in runs for row in choose([folder])):
        scores = found.setdefault(tuple(row[name] for name in CONFIGURATION), {})
        if row["replicate"] in scores:
            raise UserError(f"{row['run']}: another run has the same {', '.join(CONFIGURATION)} and replicate")
        scores[row["replicate"]] = (row["score"], row["step"])
    best: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for key, scores in found.items():
        leader = best.setdefault(key[:3], key)
        if set(scores) != set(found[leader]):
            raise UserError(f"{key} and {leader} were tried on different replicates: finish the missing runs")
        if _mean(scores) > _mean(found[leader]):
            best[key[:3]] = key
    return [
        {
            **dict(zip(CONFIGURATION, key, strict=True)),
            "score": _mean(scores),
            "replicates": len(scores),
            "step": float(np.mean([step for _, step in scores.values()])),
            "chosen": int(best[key[:3]] == key),
        }
        for key, scores in found.items()
    ]


def _mean(scores: dict[int, tuple[float, int]]) -> float:
    return float(np.mean([score for score, _ in scores.values()]))


def choose(runs: Sequence[Path], arms: Sequence[str] = ()) -> list[dict[str, Any]]:
    """For each arm (method, pressure, k, arm, replicate, seed) the run and checkpoint with the best validation score.

    runs: finished run folders; arms: the arm that each is set apart as (default: none is). The score is the task's
    metric at the trained k. Ties go to the earlier step, then to the first run by name. Rows hold what describes the
    run, its id, step, score (a fraction), model folder, and the number of candidates.
    """
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for folder, arm in zip(runs, arms or [""] * len(runs), strict=True):
        about = read_json(folder / "validation.json", ("method", "pressure", "k", "replicate", "metric", "checkpoints"))
        run = {**{k: v for k, v in about.items() if k != "checkpoints"}, "arm": arm, "run": folder.name}
        for row in about["checkpoints"]:
            model = folder / "checkpoints" / f"step-{row['step']:06d}"
            score = row[f"{run['metric']}@{run['k']}"]
            candidate = {**run, "step": row["step"], "score": score, "kl": row["kl"], "model": str(model)}
            found.setdefault(tuple(run[name] for name in ARM), []).append(candidate)
    return [
        {**min(rows, key=lambda c: (-c["score"], c["step"], c["run"])), "candidates": len(rows)}
        for rows in found.values()
    ]

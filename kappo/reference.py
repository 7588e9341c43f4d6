"""The reference bank: M graded completions of every training prompt, in chunks that survive a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from kappo import streams
from kappo.config import Config
from kappo.data.template import Template, template_of
from kappo.errors import UserError
from kappo.folders import Place, locked
from kappo.models import load_model
from kappo.records import (
    BANK,
    TEXT,
    Completion,
    Grade,
    Problem,
    fingerprint,
    read_table,
    table,
    write_table,
)
from kappo.rewards.base import check_failed_share, grade_all, ready
from kappo.rollout.base import Prompt, RolloutEngine, SamplingSpec
from kappo.tracking import Tracker, progress

STREAM = "bank"
FILES = ["bank.parquet", "text.parquet"]


def prompts_of(problems: list[Problem], tokenizer: Any, template: Template | None = None) -> list[Prompt]:
    """Each problem's prompt as token ids, by the data's template where it has one, with the tokens that end an answer.

    Raises UserError when the model's vocabulary cannot write a prompt.
    """
    ids = [
        template.token_ids(tokenizer, p.prompt)
        if template
        else tokenizer(p.prompt, add_special_tokens=False)["input_ids"]
        for p in problems
    ]
    stop = tuple(template.ends(tokenizer)) if template else ()
    prompts = [Prompt(p.id, tokens, stop) for p, tokens in zip(problems, ids, strict=True)]
    unknown = tokenizer.unk_token_id
    if unknown in (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id):
        unknown = None  # it stands for something else, too, as in GPT-2
    for problem, prompt in zip(problems, prompts, strict=True):
        if unknown is not None and unknown in prompt.token_ids:
            raise UserError(
                f"prompt {problem.id} = {problem.prompt!r} holds characters that the model's vocabulary lacks: "
                "the model was made for other data; name a model of this data's task, or this model's data"
            )
    return prompts


def rollout(
    engine: RolloutEngine, data: Any, problems: list[Problem], tokenizer: Any, spec: SamplingSpec
) -> list[tuple[Completion, Grade]]:
    """spec.n completions of each problem, problem by problem, by the data's template and graded by its reward."""
    by_id = {p.id: p for p in problems}
    completions = engine.generate(prompts_of(problems, tokenizer, template_of(data)), spec)
    grades = grade_all(data.reward, [(by_id[c.prompt_id], c.text) for c in completions])
    return list(zip(completions, grades, strict=True))


def problem_fingerprint(problems: list[Problem]) -> str:
    return fingerprint([vars(p) for p in problems])


def make_bank(config: Config, place: Place, base: Path) -> None:
    """Sample, grade and store the bank; finished chunks of an interrupted run are kept."""
    with locked(place) as work:
        if not work:
            return
        data = cast(Any, config.data)
        ready(data.reward)
        problems = data.load(config.replicate)
        size = config.bank.prompts_per_chunk
        chunks = [problems[low : low + size] for low in range(0, len(problems), size)]
        model, tokenizer = load_model(base, config.runtime.threads)
        engine = cast(RolloutEngine, config.rollout)
        engine.load(model, tokenizer, 0)
        spec = SamplingSpec(config.bank.samples_per_prompt, config.replicate, STREAM)
        tracker = Tracker.of(config, place.folder, "bank", place.slice)
        with tracker.open():
            for i, chunk in enumerate(progress(chunks, f"bank {place.id}")):
                path = place.folder / "chunks" / f"{i:05d}.parquet"
                rows = _read_chunk(path, [p.id for p in chunk for _ in range(spec.n)])
                if rows is None:
                    graded = rollout(engine, data, chunk, tokenizer, spec)
                    rows = _table(graded, config.replicate)
                    write_table(path.with_name(f"{i:05d}.text.parquet"), _texts(graded))
                    write_table(path, rows)
                rewards = np.asarray(rows["reward"])
                tracker.log(i, {"reward": float(rewards.mean()), "completions": float(len(rows))})
        _merge(place, len(chunks), config.eval.max_failed_share)
        place.finish(FILES, len(problems) * spec.n, problem_fingerprint(problems))


def _read_chunk(path: Path, ids: list[str]) -> pa.Table | None:
    """A finished chunk of exactly these prompts, or None."""
    try:
        rows, texts = read_table(path, BANK), read_table(path.with_name(f"{path.stem}.text.parquet"), TEXT)
    except UserError:
        return None
    return rows if rows["prompt_id"].to_pylist() == texts["prompt_id"].to_pylist() == ids else None


def _merge(place: Place, chunks: int, limit: float) -> None:
    folder = place.folder / "chunks"
    bank = pa.concat_tables(read_table(folder / f"{i:05d}.parquet", BANK) for i in range(chunks))
    check_failed_share(bank["verdict"].to_pylist(), limit, f"bank {place.id}")
    write_table(place.folder / "bank.parquet", bank.combine_chunks())
    texts = pa.concat_tables(read_table(folder / f"{i:05d}.text.parquet", TEXT) for i in range(chunks))
    write_table(place.folder / "text.parquet", texts.combine_chunks())


def _table(graded: list[tuple[Completion, Grade]], seed: int) -> pa.Table:
    ids = [c.prompt_id for c, _ in graded]
    keys = {id: streams.digest(seed, STREAM, id) for id in ids}
    columns = {
        "prompt_id": ids,
        "sample": [c.sample for c, _ in graded],
        "token_ids": [c.token_ids for c, _ in graded],
        "logprobs": [c.logprobs for c, _ in graded],
        "ref_logprob_sum": [float(np.sum(c.logprobs)) for c, _ in graded],
        "finish_reason": [c.finish_reason for c, _ in graded],
        "reward": [g.score for _, g in graded],
        "verdict": [g.verdict for _, g in graded],
        "seed_key": [keys[id] for id in ids],
    }
    return table(columns, BANK)


def _texts(graded: list[tuple[Completion, Grade]]) -> pa.Table:
    columns = {
        "prompt_id": [c.prompt_id for c, _ in graded],
        "sample": [c.sample for c, _ in graded],
        "text": [c.text for c, _ in graded],
    }
    return table(columns, TEXT)

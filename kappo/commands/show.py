"""`kappo show`: problems of a data set exactly as a model sees them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kappo import streams
from kappo.commands.parsing import command
from kappo.config import Config
from kappo.errors import UserError
from kappo.records import Problem

ABOUT = """Problems of a data set exactly as a model sees them, with their gold answers and counts of tokens.

  kappo show data=math500 n=3 tokenizer=Qwen/Qwen3-4B-Base
  kappo show data=math500 data.path=rows/math500 data.template.kind=base tokenizer=FOLDER
  kappo show data=jsonl data.path=my.jsonl

n=: how many problems (3), drawn by seed=. tokenizer=: a folder or an id of the hub; without one the prompt is the text
that the user turn holds. Embedded data have a tokenizer of their own. All other overrides are those of a run."""

UNSTATED = 10**9
"""Tokenizers that state no limit have a greater one."""


def show(arguments: list[str]) -> None:
    from kappo import compose

    parser = command("show", ABOUT)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="data=, data.*, n=, tokenizer=, seed=, ...")
    own, overrides = _own(parser.parse_args(arguments).overrides)
    wanted = _whole(own["n"])
    config = compose.compose(overrides)
    data: Any = config.data
    tokenizer = _tokenizer(own["tokenizer"], config)
    stops = _stops(tokenizer, data, own["tokenizer"]) if tokenizer else ""
    if hasattr(data, "select"):
        selection = data.select()
        problems, report = selection.problems, selection.report()
    else:
        problems = data.load(config.replicate)
        report = f"{len(problems)} problems"
    print(f"{data.task}, split {data.split}, metric {data.metric}: {report}")
    tokens = _tokens(problems, tokenizer, data)
    count = min(wanted, len(problems))
    for i in sorted(streams.permutation(config.seed, "show", len(problems))[:count]):
        _print(problems[i], tokens[i] if tokens else None, tokenizer)
    if tokens:
        print(f"\n{_summary(problems, tokens, tokenizer, config)}\n{stops}")


def _own(overrides: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """What is show's alone, and the overrides of a run."""
    given = {key: value for key, _, value in (o.partition("=") for o in overrides) if key in ("n", "tokenizer")}
    return {"n": "3", "tokenizer": "", **given}, [o for o in overrides if o.partition("=")[0] not in given]


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise UserError(f"n = {text!r}: expected a whole number of problems, such as n=3")
    return int(text)


def _tokenizer(name: str, config: Config) -> Any:
    """The named tokenizer, embedded data's own, or None. Raises UserError when it cannot be loaded."""
    if not name:
        data: Any = config.data
        if not hasattr(data, "vocabulary"):
            return None
        from kappo.models import fresh_tokenizer

        return fresh_tokenizer(data.vocabulary(), config.model.max_positions)
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name)
    except Exception as error:  # transformers and huggingface_hub raise a dozen kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"tokenizer = {name!r} cannot be loaded ({reason}): expected a folder with tokenizer.json, or an id of the "
            "hub where there is a network; a gated model needs HF_TOKEN"
        ) from None


def _tokens(problems: list[Problem], tokenizer: Any, data: Any) -> list[list[int]]:
    if tokenizer is None:
        return []
    from kappo.data.template import template_of
    from kappo.reference import prompts_of

    return [p.token_ids for p in prompts_of(problems, tokenizer, template_of(data))]


def _print(problem: Problem, ids: list[int] | None, tokenizer: Any) -> None:
    from kappo.data.coding import described

    print(f"\n=== {problem.id}, level {problem.level}")
    print(f"gold: {described(problem.answer)}")
    if ids is None:
        print(f"prompt, the text of the user turn (tokenizer= shows it as a model sees it):\n{problem.prompt}")
    else:
        print(f"prompt, {len(ids)} tokens:\n{tokenizer.decode(ids, clean_up_tokenization_spaces=False)}")


def _summary(problems: list[Problem], tokens: list[list[int]], tokenizer: Any, config: Config) -> str:
    sizes = np.array([len(ids) for ids in tokens])
    longest = problems[int(sizes.argmax())].id
    text = f"tokens a prompt: mean {sizes.mean():.1f}, max {sizes.max()} ({longest})"
    new, limit = getattr(config.rollout, "max_new_tokens", 0), tokenizer.model_max_length
    over = int((sizes + new > limit).sum())
    if limit < UNSTATED and over:
        text += f"\n{over} prompts leave no room for rollout.max_new_tokens = {new} in the tokenizer's {limit} tokens"
    return text


def _stops(tokenizer: Any, data: Any, name: str) -> str:
    """What ends a completion. Raises UserError for a tokenizer that does not fit the data's template."""
    from kappo.data.template import stop_token_ids, template_of

    ids = stop_token_ids(tokenizer, template_of(data), _generation(name))
    return "stop tokens: " + ", ".join(f"{id} {tokenizer.convert_ids_to_tokens(id)}" for id in ids)


def _generation(name: str) -> Any:
    """The generation_config beside a named tokenizer; None where there is none."""
    if not name or (Path(name).is_dir() and not (Path(name) / "generation_config.json").is_file()):
        return None
    from transformers import GenerationConfig

    try:
        return GenerationConfig.from_pretrained(name)
    except OSError:
        return None

"""The base model of an embedded study: a fresh tiny model, warmed up on demonstrations by the ordinary learner."""

from __future__ import annotations

from typing import Any, cast

from kappo.config import Config, Train
from kappo.errors import UserError
from kappo.folders import Place, locked
from kappo.logprobs import pack
from kappo.methods.sft import SFT
from kappo.models import fresh_model, fresh_tokenizer, save_model
from kappo.records import Demonstration
from kappo.tracking import Tracker
from kappo.training.learner import Learner, Units
from kappo.training.loop import Loop


def encode(demonstrations: list[Demonstration], tokenizer: Any) -> Units:
    """Demonstrations as loss units: prompt tokens, completion tokens with the end-of-sequence token."""
    texts = [text for d in demonstrations for text in (d.prompt, d.completion)]
    ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
    prompts, completions = ids[::2], [[*c, tokenizer.eos_token_id] for c in ids[1::2]]
    return Units(pack(prompts, completions, tokenizer.pad_token_id), {})


def make_base(config: Config, place: Place) -> None:
    """Train and save the base model; resumes from its checkpoints. Raises UserError for data without a corpus."""
    import torch

    if not hasattr(config.data, "vocabulary"):
        data = cast(Any, config.data)
        raise UserError(
            f"model = {config.model.name} is warmed up on the corpus of an embedded data set, and data "
            f"{data.task}_{data.split} has none: expected one such as data=rules. Problems in natural language need a "
            "pretrained model, which this version does not train; `kappo show`, `kappo contamination` and `kappo "
            "grade` work with them"
        )
    with locked(place) as work:
        if not work:
            return
        torch.set_num_threads(config.runtime.threads)
        warmup, data = config.model.warmup, cast(Any, config.data)
        tokenizer = fresh_tokenizer(data.vocabulary(), config.model.max_positions)
        model = fresh_model(config.model, tokenizer, config.replicate)
        settings = Train(steps=warmup.steps, prompts_per_step=warmup.batch_size, lr=warmup.lr)
        learner = Learner(model, settings, 1.0, config.runtime.micro_batch_size)

        def make_units(step: int) -> tuple[Units, dict[str, float]]:
            shown = data.demonstrations(config.replicate, step, warmup.batch_size)
            return encode(shown, tokenizer), {}

        tracker = Tracker.of(config, place.folder, "base", place.slice)
        loop = Loop(place.folder, warmup.steps, warmup.batch_size, 50, [])
        loop.run(learner, tokenizer, SFT(), make_units, tracker, f"base r{config.replicate}")
        save_model(learner.model.eval(), tokenizer, place.folder)
        place.finish(["config.json", "model.safetensors", "tokenizer.json"], warmup.steps * warmup.batch_size)

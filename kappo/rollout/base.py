"""What an engine is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kappo.records import Completion


@dataclass(frozen=True)
class Prompt:
    """A prompt for an engine: its id names its random numbers.

    stop: tokens that end a completion besides the model's own; the same for all prompts of a call.
    """

    id: str
    token_ids: list[int]
    stop: tuple[int, ...] = ()


@dataclass(frozen=True)
class SamplingSpec:
    """n completions a prompt, numbered from first_sample; seed and stream name the noise.

    fixed_length: sampling goes on past the end of sequence to max_new_tokens; the text still ends there.
    """

    n: int
    seed: int
    stream: str
    first_sample: int = 0
    fixed_length: bool = False


class RolloutEngine(Protocol):
    temperature: float
    max_new_tokens: int
    batch_size: int

    def load(self, model: Any, tokenizer: Any, version: int) -> None:
        """Take over weights; completions carry the version from now on."""

    def generate(self, prompts: Sequence[Prompt], spec: SamplingSpec) -> list[Completion]:
        """spec.n completions of each prompt, prompt by prompt, samples in order."""

    def score(self, prompts: Sequence[Prompt], completions: Sequence[Completion]) -> list[list[float]]:
        """Log-probs of given completions' tokens, at the engine's temperature."""

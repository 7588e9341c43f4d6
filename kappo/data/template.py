"""Prompt templates: from a problem's text to the token ids that a model sees, and the tokens that end its answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kappo.errors import UserError, near_misses

RESERVED = {"tokenize", "return_dict", "add_generation_prompt", "continue_final_message", "chat_template"}
MARK = "kappo marks the end of a turn"


@dataclass(frozen=True)
class Template:
    r"""user holds fields such as {problem}, put in as they are; other braces, as in \boxed{}, stand for themselves.

    kind: chat wraps it into the tokenizer's own chat template, after a system turn where `system` is not empty; base is
    the text as it is, `system` and an empty line before it. stop: tokens, besides the end of sequence and of the turn,
    that end a completion. chat_arguments go to the chat template by name, such as enable_thinking; null: left out.
    """

    kind: Literal["chat", "base"]
    user: str
    system: str = ""
    stop: list[str] = field(default_factory=list)
    chat_arguments: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if "{problem}" not in self.user:
            written = re.findall(r"\{(\w+)\}", self.user)
            hint = f"; {written[0]!r}: did you mean 'problem'?" if written else ""
            raise ValueError(f"user = {self.user!r}: expected a text with {{problem}} where the problem goes{hint}")
        if taken := RESERVED & set(self.chat_arguments):
            raise ValueError(f"chat_arguments.{min(taken)} is kappo's own to set: leave it out")

    def text(self, fields: Mapping[str, str]) -> str:
        """What the user says. Fields are put in at once: what a field holds is never taken for another field."""
        return re.sub(r"\{(" + "|".join(fields) + r")\}", lambda match: fields[match[1]], self.user)

    def token_ids(self, tokenizer: Any, text: str) -> list[int]:
        """The prompt's tokens, ready for an answer. Raises UserError where the tokenizer has no chat template."""
        if self.kind == "base":
            return list(tokenizer(f"{self.system}\n\n{text}" if self.system else text)["input_ids"])
        return list(self._rendered(tokenizer, self._turns(text), tokenize=True, add_generation_prompt=True))

    def _turns(self, text: str) -> list[dict[str, str]]:
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": text}]

    def _rendered(self, tokenizer: Any, turns: list[dict[str, str]], **settings: Any) -> Any:
        from jinja2 import TemplateError

        if not tokenizer.chat_template:
            raise UserError(
                "data.template.kind = chat, but the tokenizer has no chat template: set data.template.kind=base for a "
                "base model, or name an instruct model's tokenizer"
            )
        given = {name: value for name, value in self.chat_arguments.items() if value is not None}
        try:
            return tokenizer.apply_chat_template(turns, return_dict=False, **settings, **given)
        except TemplateError as error:
            raise UserError(
                f"the tokenizer's chat template refuses the prompt: {error}. Change data.template.system or "
                "data.template.chat_arguments, or set data.template.kind=base"
            ) from None

    def ends(self, tokenizer: Any) -> list[int]:
        """Token ids that end a completion by this template: `stop`, and for chat what closes an assistant's turn."""
        found = [_single(tokenizer, text) for text in self.stop]
        return found if self.kind == "base" else found + self._turn_end(tokenizer)

    def _turn_end(self, tokenizer: Any) -> list[int]:
        """The special token right behind an assistant's words; [] where the chat template writes none."""
        turns = [*self._turns("?"), {"role": "assistant", "content": MARK}]
        written = self._rendered(tokenizer, turns, tokenize=False)
        ids = tokenizer(written.rpartition(MARK)[2], add_special_tokens=False)["input_ids"]
        return [ids[0]] if ids and ids[0] in _special(tokenizer) else []


def _special(tokenizer: Any) -> set[int]:
    return {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}


def _single(tokenizer: Any, text: str) -> int:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    unknown = tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids and text != tokenizer.unk_token
    if len(ids) != 1 or unknown:
        special = [str(token) for token in tokenizer.added_tokens_encoder]
        raise UserError(
            f"data.template.stop holds {text!r}, which is {'no token' if unknown else f'{len(ids)} tokens'} of this "
            f"tokenizer: expected single tokens; {near_misses(text, special)}"
        )
    return int(ids[0])


def template_of(data: Any) -> Template | None:
    """The template of a data set; None for one whose prompts a model sees as they are."""
    return getattr(data, "template", None)


def stop_token_ids(tokenizer: Any, template: Template | None = None, generation_config: Any = None) -> list[int]:
    """All token ids that end a completion, ascending: the tokenizer's, the model's and the template's."""
    return sorted({*model_stops(tokenizer, generation_config), *(template.ends(tokenizer) if template else [])})


def model_stops(tokenizer: Any, generation_config: Any = None) -> list[int]:
    """The tokenizer's end of sequence and those that the model's generation_config names (one or a list), ascending."""
    named = getattr(generation_config, "eos_token_id", None)
    several: Sequence[Any] = named if isinstance(named, list | tuple) else [named]
    return sorted({int(id) for id in (tokenizer.eos_token_id, *several) if id is not None})

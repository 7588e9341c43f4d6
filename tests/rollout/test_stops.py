"""What ends a completion: the tokenizer's end of sequence, the model's others, and the prompt template's."""

from types import SimpleNamespace

import pytest

from kappo.data.template import Template
from kappo.errors import UserError
from kappo.records import Problem
from kappo.reference import prompts_of, rollout
from kappo.rollout.base import Prompt, SamplingSpec
from kappo.rollout.hf import HFEngine
from tests.conftest import TINY
from tests.data.made import Stub
from tests.data.test_template import CHATML, SPECIAL, tokenizer

SPEC = SamplingSpec(60, 0, "s")


@pytest.fixture(scope="module")
def chat():
    return tokenizer(CHATML)


@pytest.fixture
def engine(chat):
    import torch

    from kappo.models import fresh_model

    torch.set_num_threads(1)
    model = fresh_model(TINY, chat, seed=0)
    made = HFEngine(max_new_tokens=40)
    made.load(model, chat, 0)
    return made


def test_a_prompts_stops_end_its_completions_earlier_and_no_token_before_changes(engine, chat):
    ids, stop = [10, 11, 12], SPECIAL.index("<|im_end|>")
    free = engine.generate([Prompt("p", ids)], SPEC)
    held = engine.generate([Prompt("p", ids, (stop,))], SPEC)
    assert any(stop in c.token_ids for c in free)
    assert not all(stop in c.token_ids for c in free)
    for one, other in zip(free, held, strict=True):
        end = one.token_ids.index(stop) + 1 if stop in one.token_ids else len(one.token_ids)
        assert other.token_ids == one.token_ids[:end]
        assert other.finish_reason == ("stop" if stop in one.token_ids else one.finish_reason)
        assert "<|im_end|>" not in other.text


def test_a_stop_that_is_an_ordinary_token_is_no_part_of_the_text(engine, chat):
    (hash,) = chat("#")["input_ids"]
    ended = [c for c in engine.generate([Prompt("p", [10], (hash,))], SPEC) if c.token_ids[-1] == hash]
    assert ended
    assert all(c.finish_reason == "stop" and "#" not in c.text for c in ended)


def test_the_models_generation_config_ends_completions_too(engine):
    model = engine._loaded[0]
    model.generation_config.eos_token_id = [0, 4]
    ends = {c.token_ids[-1] for c in engine.generate([Prompt("p", [10])], SPEC) if c.finish_reason == "stop"}
    assert ends == {0, 4}


def test_a_rollout_of_templated_problems(engine, chat):
    template = Template("chat", "{problem}")
    problems = [Problem("p", "hi", "1")]
    graded = rollout(engine, SimpleNamespace(reward=Stub(), template=template), problems, chat, SPEC)
    same = engine.generate(prompts_of(problems, chat, template), SPEC)
    assert [c for c, _ in graded] == same
    assert {c.token_ids[-1] for c, _ in graded if c.finish_reason == "stop"} == {0, 2}


def test_prompts_that_do_not_fit_are_counted_and_the_longest_is_named(engine):
    prompts = [Prompt("a", [10] * 24), Prompt("b", [10] * 25), Prompt("c", [10] * 30), Prompt("d", [10])]
    with pytest.raises(UserError, match=r"prompt c has 30 tokens: expected 1 to 24.*2 of 4 prompts.*max_new_tokens"):
        engine.generate(prompts, SPEC)

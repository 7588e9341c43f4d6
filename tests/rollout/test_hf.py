import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from kappo.errors import UserError
from kappo.rollout import hf
from kappo.rollout.base import Prompt, SamplingSpec
from kappo.rollout.hf import HFEngine

PROMPTS = [
    Prompt("a", [3, 4, 5]),
    Prompt("b", [6]),
    Prompt("c", [7, 8, 9, 10, 11, 12]),
    Prompt("d", [13, 14, 15]),
    Prompt("e", [20, 21]),
]


@pytest.fixture
def engine(model, tokenizer):
    def make(**settings):
        made = HFEngine(**{"max_new_tokens": 8, **settings})
        made.load(model, tokenizer, 7)
        return made

    return make


def spec(n=6, first_sample=0, seed=0, stream="s"):
    return SamplingSpec(n, seed, stream, first_sample)


def tokens(completions):
    return {(c.prompt_id, c.sample): c.token_ids for c in completions}


def plain(model, prompt, completion, temperature=1.0):
    with torch.no_grad():
        logits = model(torch.tensor([prompt + completion])).logits[0].double() / temperature
    rows = torch.log_softmax(logits, -1)[len(prompt) - 1 : -1]
    return rows[torch.arange(len(completion)), torch.tensor(completion)].numpy()


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_logprobs_are_those_of_a_plain_forward_pass(engine, model, temperature):
    made = engine(temperature=temperature)
    completions = made.generate(PROMPTS, spec())
    scores = made.score(PROMPTS, completions)
    ids = {p.id: p.token_ids for p in PROMPTS}
    for completion, score in zip(completions, scores, strict=True):
        want = plain(model, ids[completion.prompt_id], completion.token_ids, temperature)
        np.testing.assert_allclose(completion.logprobs, want, atol=1e-5)
        np.testing.assert_allclose(score, want, atol=1e-5)


def test_order_and_labels(engine):
    completions = engine().generate(PROMPTS, spec(n=3, first_sample=4))
    assert [(c.prompt_id, c.sample) for c in completions] == [(p.id, s) for p in PROMPTS for s in (4, 5, 6)]
    assert {c.weight_version for c in completions} == {7}


def test_fixed_length_goes_on_past_the_end_and_reads_up_to_it(engine, model, tokenizer):
    """Up to the end of sequence the tokens are those of ordinary sampling: the noise is a function of position."""
    short = engine().generate(PROMPTS, spec(n=40))
    long = engine().generate(PROMPTS, SamplingSpec(40, 0, "s", fixed_length=True))
    eos, ids = tokenizer.eos_token_id, {p.id: p.token_ids for p in PROMPTS}
    assert {c.finish_reason for c in short} == {"stop", "length"}
    for one, other in zip(short, long, strict=True):
        assert len(other.token_ids) == len(other.logprobs) == 8
        assert other.token_ids[: len(one.token_ids)] == one.token_ids
        assert (other.text, other.finish_reason) == (one.text, one.finish_reason)
        np.testing.assert_allclose(other.logprobs, plain(model, ids[other.prompt_id], other.token_ids), atol=1e-5)
    assert any(eos in c.token_ids[:-1] for c in long)


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_completions_do_not_depend_on_the_batch(engine, batch_size):
    want = engine().generate(PROMPTS, spec())
    got = engine(batch_size=batch_size).generate(PROMPTS, spec())
    assert tokens(got) == tokens(want)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-5)
        assert (one.text, one.finish_reason) == (other.text, other.finish_reason)


def test_completions_do_not_depend_on_the_order_of_prompts(engine):
    got = engine(batch_size=12).generate(PROMPTS[::-1], spec())
    assert tokens(got) == tokens(engine(batch_size=12).generate(PROMPTS, spec()))
    assert [c.prompt_id for c in got[::6]] == ["e", "d", "c", "b", "a"]


def test_samples_can_be_drawn_in_parts(engine):
    whole = tokens(engine().generate(PROMPTS, spec(n=6)))
    parts = [tokens(engine().generate(PROMPTS, spec(n=n, first_sample=first))) for n, first in ((2, 0), (4, 2))]
    assert {**parts[0], **parts[1]} == whole


def test_left_padding_changes_nothing(engine):
    together = tokens(engine().generate(PROMPTS, spec()))
    alone = [tokens(engine().generate([prompt], spec())) for prompt in PROMPTS]
    assert {key: ids for part in alone for key, ids in part.items()} == together


@pytest.mark.parametrize("prompts", [PROMPTS, [PROMPTS[0], PROMPTS[3]]], ids=["padded", "level"])
def test_dropping_finished_rows_changes_nothing(engine, model, monkeypatch, prompts):
    found = []
    for share in (0.0, 1.0):
        monkeypatch.setattr(hf, "KEEP_SHARE", share)
        found.append(engine(max_new_tokens=40).generate(prompts, spec(n=20)))
    assert tokens(found[0]) == tokens(found[1])
    assert sum(c.finish_reason == "stop" for c in found[1]) > 10
    ids = {p.id: p.token_ids for p in prompts}
    for c in found[1]:
        np.testing.assert_allclose(c.logprobs, plain(model, ids[c.prompt_id], c.token_ids), atol=2e-5)


@pytest.mark.parametrize("other", [{"seed": 1}, {"stream": "t"}])
def test_seed_and_stream_change_completions(engine, other):
    assert tokens(engine().generate(PROMPTS, spec(**other))) != tokens(engine().generate(PROMPTS, spec()))


def test_samples_and_prompts_have_noise_of_their_own(engine):
    twins = [Prompt("x", [3, 4]), Prompt("y", [3, 4])]
    drawn = tokens(engine().generate(twins, spec(n=20)))
    assert drawn != {("x" if name == "y" else "y", sample): ids for (name, sample), ids in drawn.items()}
    assert len({tuple(ids) for ids in drawn.values()}) > 20


def test_rows_end_with_eos_or_at_the_limit(engine, tokenizer):
    completions = engine().generate(PROMPTS, spec(n=40))
    eos = tokenizer.eos_token_id
    for c in completions:
        assert eos not in c.token_ids[:-1]
        assert len(c.logprobs) == len(c.token_ids) <= 8
        assert (c.finish_reason == "stop") == (c.token_ids[-1] == eos)
        assert c.finish_reason == "stop" or len(c.token_ids) == 8
        assert c.text == tokenizer.decode(c.token_ids, skip_special_tokens=True)
    lengths = {len(c.token_ids) for c in completions}
    assert {c.finish_reason for c in completions} == {"stop", "length"}
    assert len(lengths) > 4


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_first_tokens_follow_the_distribution(engine, model, temperature):
    n, prompt = 4000, PROMPTS[2]
    completions = engine(temperature=temperature, max_new_tokens=1).generate([prompt], spec(n=n))
    with torch.no_grad():
        logits = model(torch.tensor([prompt.token_ids])).logits[0, -1].double()
    expected = n * torch.softmax(logits / temperature, -1).numpy()
    observed = np.bincount([c.token_ids[0] for c in completions], minlength=len(expected))
    rare = expected < 5
    observed, expected = (np.append(v[~rare], v[rare].sum()) for v in (observed, expected))
    kept = expected > 0
    assert kept.sum() >= 3
    assert chisquare(observed[kept], expected[kept]).pvalue > 1e-3


def test_too_long_prompt_names_the_room(engine):
    room = 64 - 8
    assert engine().generate([Prompt("fits", [3] * room)], spec(n=1))
    with pytest.raises(UserError, match=rf"prompt long has {room + 1} tokens: expected 1 to {room}.*= 8"):
        engine().generate([Prompt("long", [3] * (room + 1))], spec(n=1))


def test_empty_prompt_is_refused(engine):
    with pytest.raises(UserError, match="prompt none has 0 tokens"):
        engine().generate([Prompt("none", [])], spec(n=1))

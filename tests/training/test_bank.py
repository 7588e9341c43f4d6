import numpy as np
import pytest

from kappo import compose
from kappo.errors import UserError
from kappo.records import BANK, table, write_table
from kappo.reference import prompts_of
from kappo.training.bank import BankSource

REWARDS = np.array(
    [
        [1.0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
        [0, 1, 1, 0, 1],
        [1, 1, 1, 1, 1],
        [0, 0, 1, 1, 0],
        [0, 0, 0, 0, 1],
        [1, 1, 1, 1, 0],
        [0, 1, 0, 1, 0],
    ]
)
USABLE = {0, 2, 4, 5, 6, 7}
SAMPLES = REWARDS.shape[1]


def configured(*overrides):
    chosen = ["method=dpo", "k=2", "beta=0.5", "data.problems=8", "train.prompts_per_step=3"]
    return compose.compose([*chosen, "data.level_mix=[1,1,1,1,1,1,1,1]", *overrides])


def tokens(prompt, sample):
    return [3 + prompt, 11 + sample, *[9] * ((prompt + sample) % 3), 2]


def logprobs(prompt, sample):
    return [-0.01 * (100 * prompt + 10 * sample + t) for t in range(len(tokens(prompt, sample)))]


def source(folder, tokenizer, *overrides, rewards=REWARDS):
    """The bank lists prompts in another order than the data set does."""
    config = configured(*overrides)
    ids = [problem.id for problem in config.data.load(config.replicate)]
    cells = [(p, s) for p in reversed(range(len(ids))) for s in range(SAMPLES)]
    columns = {
        "prompt_id": [ids[p] for p, _ in cells],
        "sample": [s for _, s in cells],
        "token_ids": [tokens(p, s) for p, s in cells],
        "logprobs": [logprobs(p, s) for p, s in cells],
        "ref_logprob_sum": [sum(logprobs(p, s)) for p, s in cells],
        "finish_reason": ["stop"] * len(cells),
        "reward": [rewards[p, s] for p, s in cells],
        "verdict": ["right" if rewards[p, s] else "wrong" for p, s in cells],
        "seed_key": [0] * len(cells),
    }
    write_table(folder / "bank.parquet", table(columns, BANK))
    return BankSource(config, folder, tokenizer, config.pressure.fit(rewards, "regularization"))


def completions(units):
    """(prompt, sample) of every row, read off its tokens."""
    found = []
    for row, start, length in zip(
        units.sequences.ids.tolist(), units.sequences.starts, units.sequences.lengths, strict=True
    ):
        prompt, sample = row[start] - 3, row[start + 1] - 11
        assert row[start : start + length] == tokens(prompt, sample)
        found.append((prompt, sample))
    return found


def same(one, other):
    return completions(one) == completions(other) and all(
        np.array_equal(value, other.signal[name]) for name, value in one.signal.items()
    )


def test_pairs_of_one_prompt_with_the_right_one_first(tmp_path, tokenizer):
    made = source(tmp_path, tokenizer)
    prompts = prompts_of(made.config.data.load(0), tokenizer)
    for step in range(6):
        units, about = made(step)
        found = completions(units)
        assert len(found) == 6
        for (prompt, right), (also, wrong) in zip(found[::2], found[1::2], strict=True):
            assert prompt == also
            assert (REWARDS[prompt, right], REWARDS[prompt, wrong]) == (1, 0)
        for row, start, (prompt, _) in zip(units.sequences.ids.tolist(), units.sequences.starts, found, strict=True):
            assert row[:start] == prompts[prompt].token_ids
        assert about["usable_prompts"] == 6
        assert about["length"] == np.mean([len(tokens(*cell)) for cell in found])


def test_signal_holds_the_stored_log_probs_and_the_prompts_beta(tmp_path, tokenizer):
    made = source(tmp_path, tokenizer)
    units, about = made(1)
    found = completions(units)
    want = [[sum(logprobs(*cell)) for cell in found[i : i + 2]] for i in (0, 2, 4)]
    np.testing.assert_allclose(units.signal["ref_logprob"], want, rtol=1e-6)
    np.testing.assert_array_equal(units.signal["beta"], made.rows.beta_eff[[prompt for prompt, _ in found[::2]]])
    assert about["beta_eff"] == pytest.approx(units.signal["beta"].mean())


def test_bins_follow_the_prompts(tmp_path, tokenizer):
    made = source(tmp_path, tokenizer)
    units, _ = made(0)
    q = made.rows.q[[prompt for prompt, _ in completions(units)]]
    np.testing.assert_array_equal(units.bins["often"], q > 0.3)
    np.testing.assert_array_equal(units.bins["some"], (q > 0.1) & (q <= 0.3))
    assert sum(units.bins.values()).tolist() == [1] * 6


def test_every_usable_prompt_is_drawn_once_an_epoch(tmp_path, tokenizer):
    made = source(tmp_path, tokenizer)
    for epoch in range(3):
        drawn = [prompt for step in (2 * epoch, 2 * epoch + 1) for prompt, _ in completions(made(step)[0])[::2]]
        assert sorted(drawn) == sorted(USABLE)


def test_units_are_a_function_of_seed_and_step(tmp_path, tokenizer):
    made, fresh = source(tmp_path, tokenizer), source(tmp_path, tokenizer)
    straight = [made(step)[0] for step in range(6)]
    assert same(fresh(4)[0], straight[4])
    assert same(fresh(1)[0], straight[1])
    assert not same(straight[0], straight[2])
    other = source(tmp_path, tokenizer, "seed=1")
    assert not all(same(other(step)[0], straight[step]) for step in range(6))


@pytest.mark.parametrize("flat", [0.0, 1.0])
def test_too_few_usable_prompts_are_an_error(tmp_path, tokenizer, flat):
    rewards = np.where(np.arange(8)[:, None] < 6, flat, REWARDS)
    with pytest.raises(UserError, match=r"method = dpo can use 2 of 8 prompts .*train\.prompts_per_step = 3: lower it"):
        source(tmp_path, tokenizer, rewards=rewards)
    assert len(source(tmp_path, tokenizer, "train.prompts_per_step=2", rewards=rewards)(0)[0].sequences.ids) == 4

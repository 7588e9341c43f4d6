import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

from kappo.data.embedded import RULES, Rules, counts, items, pool
from kappo.rewards.boxed import BoxedAnswer

SPLITS = ("train", "validation", "id", "hard")
PRIOR = [0.45, 0.28, 0.14, 0.07, 0.03, 0.015, 0.009, 0.006]
MIX = [0.30, 0.22, 0.15, 0.11, 0.08, 0.06, 0.05, 0.03]


def apply(name, a, b):
    return eval(name, {"a": a, "b": b}) % 10


def rules(split="train", problems=64, **settings):
    return Rules(split=split, reward=BoxedAnswer(), problems=problems, **settings)


def parse(prompt):
    return tuple(map(int, re.fullmatch(r"(\d),(\d)=(\d);(\d),(\d)=\?", prompt).groups()))


def fitting(prompt, answer):
    """Rules that fit the example, and rules that give the answer."""
    a, b, value, x, y = parse(prompt)
    return [r for r in RULES if apply(r, a, b) == value], [r for r in RULES if apply(r, x, y) == answer]


def test_every_item_singles_out_its_rule():
    grid = {name: np.array([[apply(name, a, b) for b in range(10)] for a in range(10)]) for name in RULES}
    for name, rows in zip(RULES, items(), strict=True):
        a, b, x, y = rows.T
        assert len(rows) > 500
        assert ((a != x) | (b != y)).all()
        for first, second in ((a, b), (x, y)):
            agreeing = sum(grid[other][first, second] == grid[name][first, second] for other in RULES)
            np.testing.assert_array_equal(agreeing, 1)


@pytest.mark.parametrize("split", SPLITS)
def test_problems_are_solved_by_their_rule_only(split):
    names = list(RULES)
    for problem in rules(split).load(seed=3):
        example, question = fitting(problem.prompt, int(problem.answer))
        assert example == question == [names[problem.level - 1]]


@pytest.mark.parametrize("seed", range(4))
def test_splits_share_no_prompt(seed):
    prompts = [p.prompt for split in SPLITS for p in rules(split, 160).load(seed)]
    assert len(set(prompts)) == len(prompts)


@pytest.mark.parametrize("seed", range(2))
def test_splits_divide_all_items_of_a_level(seed):
    for level, rows in enumerate(items()):
        parts = [set(map(tuple, pool(seed, level, split).tolist())) for split in SPLITS]
        assert set.union(*parts) == set(map(tuple, rows.tolist()))
        assert sum(map(len, parts)) == len(rows)


def test_ids_are_unique_over_splits():
    ids = [p.id for split in SPLITS for p in rules(split).load(0)]
    assert len(set(ids)) == len(ids) == 4 * 64


@pytest.mark.parametrize("seed", range(3))
def test_corpus_prompts_are_in_no_held_out_split(seed):
    data = rules(level_mix=MIX, corpus_prior=PRIOR)
    shown = {d.prompt for step in range(10) for d in data.demonstrations(seed, step, 128)}
    held_out = {p.prompt for split in SPLITS[1:] for p in rules(split, 400).load(seed)}
    assert len(shown) > 1000
    assert not shown & held_out


def test_level_counts():
    data = rules(problems=200, level_mix=MIX)
    found = Counter(p.level for p in data.load(5))
    assert [found[i + 1] for i in range(8)] == [60, 44, 30, 22, 16, 12, 10, 6]
    hard = Counter(p.level for p in rules("hard", 96, level_mix=[0, 0, 0, 0, 0.25, 0.25, 0.25, 0.25]).load(0))
    assert hard == {5: 24, 6: 24, 7: 24, 8: 24}


@given(st.lists(st.floats(0, 1), min_size=8, max_size=8).filter(lambda m: sum(m) > 0.01), st.integers(0, 1000))
def test_counts_are_the_nearest_whole_numbers(mix, total):
    got = counts(mix, total)
    assert got.sum() == total
    assert (np.abs(got - np.array(mix) / sum(mix) * total) < 1 + 1e-9).all()


def test_same_seed_same_problems():
    assert rules().load(1) == rules().load(1)
    assert {p.prompt for p in rules().load(1)} != {p.prompt for p in rules().load(2)}
    assert rules().demonstrations(1, 4, 32) == rules().demonstrations(1, 4, 32)
    assert rules().demonstrations(1, 4, 32) != rules().demonstrations(1, 5, 32)
    assert rules().demonstrations(1, 4, 32) != rules().demonstrations(2, 4, 32)


def test_fewer_problems_are_the_first_of_more_within_a_level():
    few, many = ({p.prompt for p in rules(problems=n).load(0)} for n in (16, 64))
    assert few < many


@pytest.fixture(scope="module")
def corpus():
    """(level of the prompt, strategy, whether the answer is that of the strategy), 6400 demonstrations."""
    data = rules(level_mix=MIX, corpus_prior=PRIOR, corpus_noise=0.1)
    found = []
    for step in range(50):
        for d in data.demonstrations(0, step, 128):
            a, b, value, x, y = parse(d.prompt)
            (level,) = (i for i, r in enumerate(RULES) if apply(r, a, b) == value)
            name, worked, answer = re.fullmatch(r"([^:]+):(.+)=\\boxed\{(\d)\}", d.completion).groups()
            assert worked == name.replace("a", str(x)).replace("b", str(y))
            found.append((level, list(RULES).index(name), int(answer) == apply(name, x, y)))
    return np.array(found)


def test_corpus_follows_prior_and_mix(corpus):
    size = len(corpus)
    for column, weights in ((1, PRIOR), (0, MIX)):
        expected = np.array(weights) / sum(weights) * size
        assert chisquare(np.bincount(corpus[:, column], minlength=8), expected).pvalue > 1e-3


def test_corpus_strategy_ignores_the_example(corpus):
    table = np.zeros((8, 5))
    np.add.at(table, (corpus[:, 0], np.minimum(corpus[:, 1], 4)), 1)
    assert chi2_contingency(table).pvalue > 1e-3


def test_corpus_noise(corpus):
    wrong, share = 1 - corpus[:, 2].mean(), 0.1 * 0.9
    assert abs(wrong - share) < 4 * np.sqrt(share * (1 - share) / len(corpus))


def test_without_noise_every_demonstration_computes_well():
    for d in rules(corpus_noise=0.0).demonstrations(0, 0, 200):
        _, _, _, x, y = parse(d.prompt)
        name, answer = d.completion.split(":")[0], int(d.completion[-2])
        assert answer == apply(name, x, y)


def test_tokenizer_round_trip(tokenizer):
    texts = [p.prompt for p in rules().load(0)]
    texts += [text for d in rules(corpus_noise=0.5).demonstrations(0, 0, 100) for text in (d.prompt, d.completion)]
    for text in texts:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids) == text
    ids = tokenizer("a*b:3*5=\\boxed{5}", add_special_tokens=False)["input_ids"]
    assert len(ids) == 11


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": "hard", "problems": 100_000}, "hard split holds"),
        ({"level_mix": [1.0] * 7}, "level_mix = .*expected 8 shares"),
        ({"corpus_prior": [0.0] * 8}, "corpus_prior = .*not all 0"),
    ],
)
def test_impossible_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        rules(**settings)

import re
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from kappo.data.embedded import RULES
from kappo.data.programs import Programs, examples, pool
from kappo.models import fresh_tokenizer
from kappo.rewards.pass_rate import PassRate

SPLITS = ("train", "validation", "id", "hard")
NAMES = list(RULES)
PRIOR = [0.45, 0.28, 0.14, 0.07, 0.03, 0.015, 0.009, 0.006]
MIX = [0.30, 0.22, 0.15, 0.11, 0.08, 0.06, 0.05, 0.03]


def apply(name, a, b):
    return eval(name, {"a": a, "b": b}) % 10


def programs(split="train", problems=128, **settings):
    return Programs(split=split, reward=PassRate(), problems=problems, **settings)


def parse(prompt):
    """(a, b, value) of the example of each branch."""
    numbers = re.fullmatch(r"(\d),(\d)=(\d);(\d),(\d)=(\d);", prompt).groups()
    return tuple(map(int, numbers[:3])), tuple(map(int, numbers[3:]))


def fitting(example):
    a, b, value = example
    return [name for name in NAMES if apply(name, a, b) == value]


def hidden(problem):
    found = [re.fullmatch(r"(\d),(\d)=(\d)", t).groups() for t in problem.answer.split(" ")]
    return [tuple(map(int, t)) for t in found]


@pytest.mark.parametrize("split", SPLITS)
def test_each_example_singles_out_the_rule_of_its_branch(split):
    for problem in programs(split).load(seed=3):
        upper, lower = parse(problem.prompt)
        assert upper[0] < upper[1]
        assert lower[0] >= lower[1]
        (first,), (second,) = fitting(upper), fitting(lower)
        assert problem.level == max(NAMES.index(first), NAMES.index(second)) + 1


def test_examples_are_all_that_single_out_a_rule():
    for branch, inside in enumerate((lambda a, b: a < b, lambda a, b: a >= b)):
        for name, rows in zip(NAMES, examples()[branch], strict=True):
            grid = [(a, b) for a in range(10) for b in range(10) if inside(a, b)]
            want = {(a, b) for a, b in grid if fitting((a, b, apply(name, a, b))) == [name]}
            assert set(map(tuple, rows.tolist())) == want
            assert len(want) == len(rows) > 5


@pytest.mark.parametrize("split", SPLITS)
def test_hidden_tests_are_new_inputs_half_of_each_branch(split):
    for problem in programs(split).load(seed=1):
        upper, lower = parse(problem.prompt)
        (first,), (second,) = fitting(upper), fitting(lower)
        found = hidden(problem)
        inputs = {t[:2] for t in found}
        assert len(inputs) == len(found) == 16
        assert sum(a < b for a, b in inputs) == 8
        assert not inputs & {upper[:2], lower[:2]}
        assert all(value == apply(first if a < b else second, a, b) for a, b, value in found)


@pytest.mark.parametrize("split", SPLITS)
def test_reference_program_passes_all_tests_and_hardly_any_other_does(split):
    grader, fooled = PassRate(), []
    for problem in programs(split, 96).load(seed=2):
        (first,), (second,) = (fitting(example) for example in parse(problem.prompt))
        grade = grader.grade(problem, f"{first};{second}")
        assert (grade.score, grade.verdict) == (1.0, "right")
        wrong = [f"{other};{second}" for other in NAMES if other != first]
        wrong += [f"{first};{other}" for other in NAMES if other != second]
        scores = [grader.grade(problem, text).score for text in wrong]
        assert min(scores) >= 0.5
        fooled.append(max(scores) == 1)
    assert np.mean(fooled) < 0.02


@pytest.mark.parametrize("seed", range(3))
def test_splits_share_no_prompt(seed):
    prompts = [p.prompt for split in SPLITS for p in programs(split, 256).load(seed)]
    assert len(set(prompts)) == len(prompts) == 4 * 256


@pytest.mark.parametrize("seed", range(2))
def test_splits_divide_all_pairs_of_examples(seed):
    for first, second in ((0, 0), (2, 5), (7, 1)):
        parts = [set(map(tuple, pool(seed, first, second, split).tolist())) for split in SPLITS]
        upper, lower = examples()[0][first].tolist(), examples()[1][second].tolist()
        assert set.union(*parts) == {(*u, *v) for u in upper for v in lower}
        assert sum(map(len, parts)) == len(upper) * len(lower)


@pytest.mark.parametrize("seed", range(2))
def test_corpus_prompts_are_in_no_held_out_split(seed):
    data = programs(level_mix=MIX, corpus_prior=PRIOR)
    shown = {d.prompt for step in range(10) for d in data.demonstrations(seed, step, 128)}
    held_out = {p.prompt for split in SPLITS[1:] for p in programs(split, 160, level_mix=MIX).load(seed)}
    assert len(shown) > 1000
    assert not shown & held_out


def test_ids_are_unique_over_splits():
    ids = [p.id for split in SPLITS for p in programs(split).load(0)]
    assert len(set(ids)) == len(ids) == 4 * 128


def test_same_seed_same_problems():
    assert programs().load(1) == programs().load(1)
    one, other = ({p.prompt for p in programs().load(seed)} for seed in (1, 2))
    assert len(one & other) < 64
    assert programs().demonstrations(1, 4, 32) == programs().demonstrations(1, 4, 32)
    assert programs().demonstrations(1, 4, 32) != programs().demonstrations(1, 5, 32)
    assert programs().demonstrations(1, 4, 32) != programs().demonstrations(2, 4, 32)


def test_hidden_tests_differ_between_problems_and_seeds():
    inputs = [tuple(sorted(t[:2] for t in hidden(p))) for seed in (0, 1) for p in programs().load(seed)]
    assert len(set(inputs)) == len(inputs)


def test_level_counts():
    rules = Counter()
    for problem in programs(problems=400, level_mix=MIX).load(5):
        rules.update(NAMES.index(fitting(example)[0]) for example in parse(problem.prompt))
    assert sum(rules.values()) == 800
    np.testing.assert_allclose([rules[i] for i in range(8)], 800 * np.array(MIX), atol=8)
    hard = Counter(p.level for p in programs("hard", 96, level_mix=[0, 0, 0, 0, 0.25, 0.25, 0.25, 0.25]).load(0))
    assert hard == {5: 6, 6: 18, 7: 30, 8: 42}


@pytest.fixture(scope="module")
def corpus():
    """(rules of the prompt, rules of the program) of 6400 demonstrations, one row each."""
    data = programs(level_mix=MIX, corpus_prior=PRIOR)
    found = []
    for step in range(50):
        for d in data.demonstrations(0, step, 128):
            shown = [fitting(example)[0] for example in parse(d.prompt)]
            found.append([NAMES.index(name) for name in shown + d.completion.split(";")])
    return np.array(found)


def test_corpus_follows_prior_and_mix(corpus):
    for column, weights in enumerate((MIX, MIX, PRIOR, PRIOR)):
        expected = np.array(weights) / sum(weights) * len(corpus)
        assert chisquare(np.bincount(corpus[:, column], minlength=8), expected).pvalue > 1e-3


@pytest.mark.parametrize(("one", "other"), [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
def test_rules_of_the_corpus_are_independent(corpus, one, other):
    table = np.zeros((5, 5))
    np.add.at(table, tuple(np.minimum(corpus[:, [one, other]], 4).T), 1)
    assert chi2_contingency(table).pvalue > 1e-3


def test_every_demonstration_is_a_program(corpus):
    data = programs()
    (problem,) = data.load(0)[:1]
    for d in data.demonstrations(0, 0, 200):
        assert PassRate().grade(problem, d.completion).verdict != "unparsable"


def test_tokenizer_round_trip():
    tokenizer = fresh_tokenizer(Programs.vocabulary(), 64)
    texts = [p.prompt for p in programs().load(0)]
    texts += [text for d in programs().demonstrations(0, 0, 100) for text in (d.prompt, d.completion)]
    for text in texts:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert len(ids) == len(text)
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": "hard", "problems": 100_000}, "problems = 100000 .* hard split holds"),
        ({"level_mix": [1.0] + [0.0] * 7, "problems": 5_000}, "spread level_mix"),
        ({"level_mix": [1.0] * 7}, "level_mix = .*expected 8 shares"),
        ({"corpus_prior": [0.0] * 8}, "corpus_prior = .*not all 0"),
    ],
)
def test_impossible_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        programs(**settings)


@pytest.mark.parametrize("split", SPLITS)
def test_as_many_problems_as_a_split_holds(split):
    held = min(len(pool(0, i, j, split)) for i in range(8) for j in range(8))
    assert len(programs(split, 64 * held).load(1)) == 64 * held
    with pytest.raises(ValueError, match=f"holds {held};"):
        programs(split, 64 * held + 64)

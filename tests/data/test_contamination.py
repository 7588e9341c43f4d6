import pytest

from kappo.data.contamination import Overlap, overlaps, words

TEXT = "a farmer has seventeen sheep and buys nine more than he sold last year how many sheep are there now in total"
LONG = TEXT.split()


def text(*parts):
    return " ".join(parts)


def brute_share(test, train, n):
    """Share of the test text's distinct runs that stand in any training text."""
    test, train = words(test), [words(t) for t in train]
    n = min(n, len(test))
    found = {tuple(test[i : i + n]) for i in range(len(test) - n + 1)}

    def stands(run, other):
        return any(tuple(other[i : i + n]) == run for i in range(len(other)))

    return sum(any(stands(run, other) for other in train) for run in found) / len(found)


def test_words_are_free_of_case_punctuation_and_markup():
    assert words(r"Find $\frac{A}{2}$ -- now!") == words("find frac a 2 now") == ["find", "frac", "a", "2", "now"]
    assert words("x_1 ＡＢ") == ["x", "1", "ab"]


def test_a_text_with_itself_is_whole():
    (row,) = overlaps([("t", text(*LONG))], [("other", "nothing of it"), ("same", text(*LONG).upper() + "!")])
    assert row == Overlap("t", "same", 1.0, len(LONG) - 12, len(LONG) - 12, False)
    (row,) = overlaps([("t", text(*LONG))], [("other", "!" + TEXT), ("same", TEXT.upper().replace(" ", " \n"))])
    assert row == Overlap("t", "same", 1.0, len(LONG) - 12, len(LONG) - 12, True)


def test_a_planted_paraphrase_is_found_by_the_part_that_it_kept():
    planted = text("yesterday", "an", "old", *LONG[1:18], "altogether")
    rows = overlaps([("t", text(*LONG)), ("clean", text(*reversed(LONG)))], [("p", planted)], 13)
    assert [(row.test_id, row.train_id, row.same) for row in rows] == [("t", "p", False)]
    assert rows[0].shared == 17 - 13 + 1
    assert rows[0].share == pytest.approx(brute_share(text(*LONG), [planted], 13))
    assert overlaps([("t", text(*LONG))], [("p", planted)], 18) == []


def test_one_word_fewer_than_a_run_is_no_overlap():
    assert overlaps([("t", text(*LONG))], [("p", text(*LONG[:12], "else"))], 13) == []
    assert len(overlaps([("t", text(*LONG))], [("p", text(*LONG[:13], "else"))], 13)) == 1


def test_the_share_counts_all_training_problems_and_the_pair_is_the_closest():
    train = [("a", text("x", *LONG[:14])), ("b", text("y", *LONG[2:20])), ("c", text("z", *LONG[8:]))]
    (row,) = overlaps([("t", text(*LONG))], train, 13)
    assert row.share == pytest.approx(brute_share(text(*LONG), [t for _, t in train], 13))
    assert (row.train_id, row.shared) == ("b", 6)


def test_short_texts_are_looked_for_as_a_whole():
    short = "what is seven times eight plus one"
    inside, equal = ("in", f"Tell me: {short}, please?"), ("eq", short.upper())
    assert [row.train_id for row in overlaps([("t", short)], [inside])] == ["in"]
    (row,) = overlaps([("t", short)], [inside, equal])
    assert (row.train_id, row.same, row.runs) == ("eq", True, 1)
    assert overlaps([("t", short)], [("cut", "what is seven times eight plus")]) == []


def test_very_short_texts_count_only_when_equal():
    assert overlaps([("t", "compute 5")], [("in", "please compute 5 factorial in your head")]) == []
    (row,) = overlaps([("t", "compute 5")], [("eq", "Compute $5$.")])
    assert (row.share, row.same) == (1.0, False)
    assert overlaps([("t", "compute 5")], [("eq", " Compute  5")])[0].same


@pytest.mark.parametrize(
    ("one", "other"), [("What is -2 + 2?", "What is 2+2?"), ("$a>b$", "$a<b$"), ("2^{10}", "2_{10}")]
)
def test_other_signs_make_another_text(one, other):
    """To the runs of words they are one; `same` tells them apart, and prefers the same text where there is one."""
    (row,) = overlaps([("t", one)], [("other", other)])
    assert (row.share, row.same) == (1.0, False)
    (row,) = overlaps([("t", one)], [("other", other), ("same", one)])
    assert (row.train_id, row.same) == ("same", True)


def test_texts_without_any_word():
    (row,) = overlaps([("t", "?!")], [("other", "!?"), ("same", "?!")])
    assert row == Overlap("t", "same", 1.0, 1, 1, True)
    assert overlaps([("t", "?!")], [("p", "What?!"), ("q", "?! ?!")]) == []


def test_short_runs_are_found_anywhere():
    assert overlaps([("t", "one two three four")], [("p", "zero one two three")], 3)[0].share == 0.5


def test_empty_texts_and_sets():
    assert overlaps([("t", " ")], [("p", ""), ("q", " ")]) == []
    assert overlaps([], [("p", "a")]) == overlaps([("t", "a")], []) == []


def test_the_worst_come_first():
    half = [("half", text(*LONG[:16], *"one two three four five six seven".split()))]  # noqa: SIM905
    rows = overlaps([*half, ("whole", text(*LONG))], [("p", text(*LONG))])
    assert [row.test_id for row in rows] == ["whole", "half"]
    assert rows[0].share == 1 > rows[1].share > 0

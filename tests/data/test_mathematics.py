import json
from collections import Counter

import pytest

from kappo.data.mathematics import Gold, last_boxed
from kappo.data.real import held_out, level_of, slug
from kappo.data.source import Row
from kappo.errors import UserError
from tests.data.made import SUBJECTS, data, math_row, write_lines


@pytest.fixture
def math_file(tmp_path):
    levels = ["Level 5", "Level 1", "Level ?", "Level 3"]
    made = [math_row(i, SUBJECTS[i % len(SUBJECTS)], levels[i % 4]) for i in range(240)]
    return write_lines(tmp_path / "train.jsonl", made)


def test_ids_number_the_rows_of_a_subject_and_no_setting_changes_them(math_file):
    whole = data("math_train", f"path={math_file}").load(0)
    assert [p.id for p in whole[:7:6]] == ["math/train/algebra/0000", "math/train/algebra/0001"]
    assert len({p.id for p in whole}) == 240
    hard = data("math_train", f"path={math_file}", "levels=[5]").load(0)
    assert hard == [p for p in whole if p.level == 5]
    assert Counter(p.level for p in whole) == {5: 60, 1: 60, 0: 60, 3: 60}


def test_validation_and_the_rest_divide_the_training_split(math_file):
    whole, train, validation = (
        data(name, f"path={math_file}").load(0) for name in ("math_train", "math_train_part", "math_validation")
    )
    assert 10 <= len(validation) <= 45
    assert not {p.id for p in train} & {p.id for p in validation}
    assert sorted(p.id for p in train + validation) == sorted(p.id for p in whole)


def test_held_out_is_a_function_of_the_text_alone(math_file, tmp_path):
    rows = [json.loads(line) for line in math_file.read_text().splitlines()]
    again = [{**row, "problem": f" {row['problem'].upper()}\n", "type": "Geometry"} for row in rows[::-1]]
    other = write_lines(tmp_path / "other.jsonl", again)
    one, two = ({p.answer for p in data("math_validation", f"path={path}").load(0)} for path in (math_file, other))
    assert one == two


def test_the_share_held_out():
    texts = [f"problem {i}" for i in range(20_000)]
    for share in (0.02, 0.5):
        found = sum(held_out(text, share) for text in texts) / len(texts)
        assert abs(found - share) < 4 * (share * (1 - share) / len(texts)) ** 0.5
    assert all(held_out(text, 0.5) for text in texts if held_out(text, 0.02))


def test_problems_is_a_cap_whose_choice_depends_on_neither_seed_nor_order(math_file, tmp_path):
    few, fewer = (data("math_train", f"path={math_file}", f"problems={n}").load(3) for n in (40, 10))
    assert few == data("math_train", f"path={math_file}", "problems=40").load(0)
    assert len(few) == 40
    assert {p.id for p in fewer} < {p.id for p in few}
    assert len({p.id.split("/")[2] for p in few}) == len(SUBJECTS)
    selection = data("math_train", f"path={math_file}", "problems=40").select()
    assert (selection.read, selection.left_out, len(selection.problems)) == (240, 200, 40)


def test_the_template_goes_around_the_problem_alone(math_file):
    selection = data("math_train", f"path={math_file}").select()
    assert selection.questions[7] == "What is 7 halves of one?"
    assert selection.problems[7].prompt == (
        "What is 7 halves of one?\nPlease reason step by step, and put your final answer within \\boxed{}."
    )


@pytest.mark.parametrize(
    ("text", "boxed"),
    [
        (r"$\boxed{1}$ or rather $\boxed{\frac{a}{b_{2}}}$.", r"\frac{a}{b_{2}}"),
        (r"\boxed{\left\{ 1, 2 \right\}}", r"\left\{ 1, 2 \right\}"),
        (r"\boxed{\{ x}", r"\{ x"),
        (r"$\boxed 7$.", "7"),
        (r"$\boxed2$ left", "2"),
        (r"$\boxed{ 12 }$", "12"),
        (r"\fbox{5}", "5"),
        (r"\boxed{a}\boxedx{b}", "a"),
        (r"\boxed \pi r", r"\pi"),
        (r"\boxed{a \\ {b}}", r"a \\ {b}"),
        (r"\boxed{never closed", ""),
        (r"\boxed", ""),
        ("no box", ""),
        ("", ""),
    ],
)
def test_last_boxed(text, boxed):
    assert last_boxed(text) == boxed


@pytest.mark.parametrize(
    ("kind", "value", "gold"),
    [
        ("plain", r" \frac{1}{2} ", r"\frac{1}{2}"),
        ("plain", 7, "7"),
        ("plain", None, ""),
        ("integer", "025", "25"),
        ("integer", 70, "70"),
        ("integer", 70.0, "70"),
        ("integer", "-003", "-3"),
        ("after_hashes", "9 * 2 = <<9*2=18>>18\n#### 18", "18"),
        ("after_hashes", "a\n#### 1,234,567", "1234567"),
        ("after_hashes", "a\n#### -1,000", "-1000"),
        ("after_hashes", "no mark", ""),
    ],
)
def test_gold(kind, value, gold):
    assert Gold("answer", kind).of(Row("f", {"answer": value})) == gold


def test_an_answer_of_another_type_names_the_row():
    with pytest.raises(UserError, match=r"f, row 2: answer = '1/2': expected a whole number"):
        Gold("answer", "integer").of(Row("f, row 2", {"answer": "1/2"}))
    with pytest.raises(UserError, match=r"f, row 2: answer = \['5'\]: expected text or a number"):
        Gold("answer").of(Row("f, row 2", {"answer": ["5"]}))


def test_drops_are_counted_and_reported(tmp_path, capsys):
    made = [
        {"question": "ok", "answer": "a #### 1"},
        {"question": "  ", "answer": "a #### 2"},
        {"question": "no gold", "answer": "three"},
        {"question": None, "answer": "a #### 4"},
        {"question": "long " * 50, "answer": "a #### 5"},
        {"question": "ok", "answer": "a #### 6"},
    ]
    chosen = data("gsm8k", f"path={write_lines(tmp_path / 'test.jsonl', made)}", "max_prompt_chars=200")
    problems = chosen.load(0)
    assert [(p.id, p.answer) for p in problems] == [("gsm8k/test/0000", "1"), ("gsm8k/test/0005", "6")]
    said = capsys.readouterr().err
    assert "6 rows; 4 dropped (1 longer than data.max_prompt_chars, 2 without a prompt, 1 without an answer)" in said
    assert "1 with a prompt that came before (kept); 2 problems" in said


def test_nothing_is_said_of_clean_data(tmp_path, capsys):
    path = write_lines(tmp_path / "test.jsonl", [{"question": "q", "answer": "#### 1"}])
    data("gsm8k", f"path={path}").load(0)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("made", "settings", "message"),
    [
        ([{"question": "q", "answer": "none"}], [], r"1 rows, no usable problem: 1 without an answer"),
        ([], [], r"no rows: the file or split is empty"),
        ([{"question": "q", "answer": "#### 1"}], ["levels=[5]"], r"leave out all 1 rows: check data\.levels = \[5\]"),
        ([{"questoin": "q", "answer": "#### 1"}], [], r"row 1: no column 'question'; did you mean 'questoin'\?"),
        ([{"a": "q", "b": "#### 1"}], [], r"row 1: no column 'question'; there are: a, b"),
        ([{"question": ["q"], "answer": "#### 1"}], [], r"row 1: question = \['q'\]: expected text"),
    ],
)
def test_unusable_files(tmp_path, made, settings, message):
    path = write_lines(tmp_path / "test.jsonl", made)
    with pytest.raises(UserError, match=message):
        data("gsm8k", f"path={path}", *settings).load(0)


def test_equal_ids_name_both_rows(tmp_path):
    row = {"problem": "p", "answer": "1", "level": 1, "unique_id": "x"}
    path = write_lines(tmp_path / "test.jsonl", [row, {**row, "unique_id": "y"}, {**row, "problem": "q"}])
    with pytest.raises(UserError, match=r"row 3 has the id 'x' of .*row 1"):
        data("math500", f"path={path}").load(0)
    empty = write_lines(tmp_path / "empty.jsonl", [{**row, "unique_id": ""}])
    with pytest.raises(UserError, match=r"row 1: unique_id is empty"):
        data("math500", f"path={empty}").load(0)


def test_levels_and_slugs():
    assert [level_of(t) for t in ("Level 5", "5", "Level ?", "Hard", "easy", " Medium ", "")] == [5, 5, 0, 3, 1, 2, 0]
    assert slug("Counting & Probability") == "counting_and_probability"

"""The loaders on rows of the public data sets. KAPPO_ROWS_DIR names a folder of them, a folder a set; else skipped."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from kappo.data.contamination import overlaps
from kappo.data.mathematics import last_boxed
from kappo.data.private_tests import decode
from kappo.errors import UserError
from tests.data.made import data

ROWS = os.environ.get("KAPPO_ROWS_DIR", "")
pytestmark = pytest.mark.skipif(not ROWS, reason="KAPPO_ROWS_DIR is not set: no rows of the public data sets here")
HERE = Path(ROWS).absolute()


def lines(name):
    with open(HERE / name, encoding="utf-8") as handle:
        return [json.loads(line) for line in handle]


@pytest.mark.parametrize(
    ("name", "folder", "split"),
    [
        ("math_train", "math_train", "train"),
        ("math_test_level5", "math_test_level5", "test"),
        ("math500", "math500", "test"),
        ("aime_2024", "aime_2024", "train"),
        ("aime_2025", "aime_2025", "train"),
        ("aime_2026", "aime_2026", "train"),
        ("hmmt_feb_2025", "hmmt_feb_2025", "train"),
        ("minerva_math", "minerva_math", "test"),
        ("deepscaler", "deepscaler", "train"),
        ("gsm8k", "gsm8k", "test"),
        ("leetcode_train", "leetcode", "train"),
        ("leetcode_test", "leetcode", "test"),
    ],
)
def test_every_row_is_a_problem(name, folder, split):
    selection = data(name, f"path={HERE / folder}").select()
    assert selection.read == len(selection.problems) == len(lines(f"{folder}/{split}.jsonl"))
    assert not selection.dropped
    assert len({p.id for p in selection.problems}) == selection.read


def test_math_levels_and_golds():
    problems = data("math_train", f"path={HERE / 'math_train'}").load(0)
    rows = lines("math_train/train.jsonl")
    assert [p.level for p in problems] == [int(r["level"][6:].replace("?", "0")) for r in rows]
    assert {p.level for p in data("math_test_level5", f"path={HERE / 'math_test_level5'}").load(0)} == {5}


def test_the_last_box_is_the_published_answer_of_all_of_math500():
    rows = lines("math500/test.jsonl")
    assert [last_boxed(row["solution"]) for row in rows] == [row["answer"] for row in rows]
    problems = data("math500", f"path={HERE / 'math500'}").load(0)
    assert [(p.id, p.level) for p in problems] == [(row["unique_id"], row["level"]) for row in rows]


def test_competitions_have_whole_numbers():
    for year in (2024, 2025, 2026):
        problems = data(f"aime_{year}", f"path={HERE / f'aime_{year}'}").load(0)
        assert all(0 <= int(p.answer) <= 999 and p.answer == str(int(p.answer)) for p in problems)


def test_gsm8k_answers_are_numbers_without_commas():
    answers = [p.answer for p in data("gsm8k", f"path={HERE / 'gsm8k'}").load(0)]
    assert all(float(answer) == float(answer) for answer in answers)
    commas = sum("," in row["answer"].rpartition("####")[2] for row in lines("gsm8k/test.jsonl"))
    assert commas > 5


def test_other_columns_by_settings():
    settings = ["question=problem", "gold.column=solution", "gold.kind=last_boxed"]
    problems = data("minerva_math", f"path={HERE / 'minerva_math/qwen_test.jsonl'}", *settings).load(0)
    assert len(problems) == 272


def test_leetcode_checks_hold_every_assert():
    for name in ("leetcode_train", "leetcode_test"):
        for problem in data(name, f"path={HERE / 'leetcode'}").load(0):
            answer = json.loads(problem.answer)
            assert set(answer) == {"mode", "entry_point", "test", "prompt"}
            assert answer["test"].count("assert candidate(") > 0
            assert answer["entry_point"].startswith("Solution().")


def test_livecodebench_with_encoded_private_tests():
    settings = ["since=", "before=", "levels=[]"]
    path = HERE / "livecodebench" / "test_encoded_private.jsonl"
    problems = {p.id: json.loads(p.answer) for p in data("livecodebench", f"path={path}", *settings).load(0)}
    assert Counter(a["mode"] for a in problems.values()) == {"stdin": 16, "functional": 8}
    for row in lines("livecodebench/test_encoded_private.jsonl"):
        public = json.loads(row["public_test_cases"])
        want = [{"input": t["input"], "output": t["output"]} for t in public * 2]
        assert problems[row["question_id"]]["tests"] == want
    hard = data("livecodebench", f"path={path}", "since=", "before=").load(0)
    assert {p.level for p in hard} == {3}
    assert len(hard) == sum(row["difficulty"] == "hard" for row in lines("livecodebench/test_encoded_private.jsonl"))


def test_real_private_tests_are_decoded():
    (row,) = lines("livecodebench/real_private_encoding_1873_A.jsonl")
    assert decode(row["private_test_cases"], "row") == row["decoded"]


def test_public_rows_alone_are_refused():
    path = HERE / "livecodebench" / "test_public_only.jsonl"
    with pytest.raises(UserError, match="no column 'private_test_cases'"):
        data("livecodebench", f"path={path}", "since=", "before=").load(0)


def texts(name, folder):
    selection = data(name, f"path={HERE / folder}").select()
    return [(p.id, q) for p, q in zip(selection.problems, selection.questions, strict=True)]


def test_contamination_of_known_pairs():
    five_hundred, level5 = texts("math500", "math500"), texts("math_test_level5", "math_test_level5")
    whole = overlaps(five_hundred, five_hundred)
    assert len(whole) == 500
    assert all(row.share == 1 and row.same for row in whole)
    assert not any(row.same for row in overlaps(five_hundred, level5))
    planted = [*level5, ("planted", "A student asks: " + five_hundred[0][1] + " Show your work.")]
    (found,) = [row for row in overlaps(five_hundred[:1], planted) if row.share == 1]
    assert found.train_id == "planted"

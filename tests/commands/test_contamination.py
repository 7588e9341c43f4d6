import csv
import os

import pytest

from kappo.cli import main
from tests.data.made import STUB, write_lines

SHARED = "A train leaves the station at noon and travels north at sixty miles an hour for three hours."


@pytest.fixture
def sets(tmp_path):
    def made(name, questions):
        rows = [{"question": q, "answer": "#### 1"} for q in questions]
        return write_lines(tmp_path / f"{name}.jsonl", rows)

    train = made("train", [SHARED + " How far is it?", *(f"Unrelated question number {i} of many." for i in range(20))])
    test = made("test", [SHARED + " How long is the way back?", "Something that nobody asked before, at all, ever."])
    clean = made("clean", ["Nothing here has ever been seen anywhere else than right in this one place."])
    stubs = [f"{slot}.reward._target_={STUB}" for slot in ("data", "against")]

    def against(path):
        return ["against=gsm8k", f"against.path={path}", stubs[1]]

    return ["data=gsm8k", f"data.path={train}", stubs[0]], against(test), against(clean)


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["contamination", *arguments])
    return ended.value.code, *capsys.readouterr()


def test_a_table_with_the_worst_pairs_and_a_file_of_all(capsys, sets, tmp_path):
    train, test, clean = sets
    code, out, _ = run(capsys, *train, *test, *clean, "-o", str(tmp_path / "pairs.csv"))
    assert code == 0
    table = [line.split() for line in out.splitlines()[1:3]]
    assert table == [["gsm8k", "2", "1", "50.0%", "0"], ["gsm8k", "1", "0", "0.0%", "0"]]
    assert "gsm8k/test/0000 <- gsm8k/test/0000" in out
    assert "How long is the way back?" in out
    assert "How far is it?" in out
    (row,) = csv.DictReader((tmp_path / "pairs.csv").read_text().splitlines())
    assert (row["test_set"], row["test_id"], row["train_id"], row["same"]) == (
        "gsm8k", "gsm8k/test/0000", "gsm8k/test/0000", "False",
    )  # fmt: skip
    words = len((SHARED + " How long is the way back").split())
    assert int(row["runs"]) == words - 12
    assert int(row["shared"]) == len((SHARED + " How").split()) - 12


def test_the_template_is_no_overlap(capsys, sets):
    """All prompts end with the same instruction of 13 words and more."""
    train, _, clean = sets
    assert run(capsys, *train, *clean, "--strict")[0] == 0


def test_strict_ends_with_one(capsys, sets):
    train, test, _ = sets
    assert run(capsys, *train, *test, "--strict")[0] == 1
    assert run(capsys, *train, *test, "--strict", "--threshold", "0.9")[0] == 0
    assert run(capsys, *train, *test, "--strict", "-n", "30")[0] == 0


def test_embedded_data_by_their_prompts(capsys):
    code, out, _ = run(capsys, "data=rules", "against=rules_id", "against=rules", "-n", "3")
    assert code == 0
    lines = [line.split() for line in out.splitlines()[1:3]]
    assert lines[1][:4] == ["rules", "512", "512", "100.0%"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data=rules"], "no test set: add one, such as against=math500"),
        (["data=rules", "against.path=x", "against=rules"], "expected against=NAME before"),
        (["data=rules", "against=rulez"], "against = 'rulez': no file conf/data/rulez.yaml; did you mean 'rules'"),
        (
            ["data=rules", "against=rules", "against.levelz=3"],
            "against.levelz = 3: no such setting; did you mean 'against",
        ),
        (
            ["data=rules", "against=rules", "against.split=x"],
            "against.split = 'x': expected one of 'train', 'validation'",
        ),
        (["data=rules", "against=leetcode_test", "against.since=May"], "against: since = 'May'"),
        (["data=rules", "against=jsonl"], "against=jsonl: against.path is not set"),
        (
            ["data=rules", "against=gsm8k", "against.path=data.path/data.jsonl"],
            "against.path = data.path/data.jsonl: no",
        ),
        (["data=gsm8k", "data.path=gone.jsonl", "against=rules"], "data.path = gone.jsonl: no such file"),
        (["data=rules", "against=rules", "-n", "0"], "expected -n >= 1"),
        (["data=rules", "against=rules", "--threshold", "1"], "0 <= --threshold < 1"),
    ],
)
def test_what_cannot_be_checked(capsys, arguments, message):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert message in err


def test_an_output_that_cannot_be_written_is_refused_before_any_work(capsys, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "locked").mkdir()
    monkeypatch.chdir(tmp_path)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: "locked" not in str(path) and access(path, mode))
    for output, message in (
        (".", "-o . is a folder: expected a csv file"),
        (str(tmp_path / "locked"), "is a folder"),
        ("file/pairs.csv", "/file is no folder that you may write to"),
        ("file/new/pairs.csv", "/file is no folder that you may write to"),
        ("locked/new/pairs.csv", "/locked is no folder that you may write to"),
    ):
        code, out, err = run(capsys, "data=gsm8k", "data.path=never-read", "against=rules", "-o", output)
        assert (code, out) == (2, "")
        assert message in err
    code, _, _ = run(capsys, "data=rules", "against=rules_id", "-o", "new/folder/pairs.csv")
    assert code == 0
    assert (tmp_path / "new/folder/pairs.csv").is_file()


def test_the_table_counts_texts_that_are_the_same_to_the_sign(capsys, tmp_path):
    def made(name, questions):
        return write_lines(tmp_path / name, [{"prompt": q, "answer": "1"} for q in questions])

    train = made("train.jsonl", ["What is -2 + 2?", "Is $a>b$?", "?!", "How much is 7 + 1?"])
    test = made("test.jsonl", ["What is 2+2?", "Is $a<b$?", "?!", "how much  is 7 + 1?"])
    stubs = [f"{slot}.answers.reward._target_={STUB}" for slot in ("data", "against")]
    code, out, _ = run(
        capsys, "data=jsonl", f"data.path={train}", stubs[0], "against=jsonl", f"against.path={test}", stubs[1]
    )
    assert code == 0
    assert out.splitlines()[1].split() == ["jsonl", "4", "4", "100.0%", "2"]

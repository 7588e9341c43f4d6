"""The hub's path with the real `datasets` library: on folders laid out as the hub's repositories, without a network.

`datasets.load_dataset` takes a local folder in place of an id of the hub and reads its README's configs as it would
there; no test here reaches the hub.
"""

from collections.abc import Iterator

import datasets
import huggingface_hub
import pytest

from kappo.data.source import Row, Source, rows
from kappo.errors import UserError
from tests.data.made import CONFIGS, data, leetcode_row, livecodebench_row, math_row, write_lines, write_parquet

COMMIT = "0" * 40


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path_factory) -> Iterator[None]:
    """As with HF_HUB_OFFLINE=1, which the libraries read once at their import; caches of their own."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("datasets")))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path_factory.mktemp("hub")))
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


@pytest.fixture
def math_repository(tmp_path):
    """Laid out as EleutherAI/hendrycks_math: a folder of parquet files a config, and a README that lists them."""
    lines = ["---", "configs:"]
    for c, config in enumerate(CONFIGS):
        subject = config.replace("_and_", " & ").replace("_", " ").title()
        for split, size in (("train", 3), ("test", 2)):
            made = [math_row(100 * c + 10 * (split == "test") + i, subject, f"Level {i + 3}") for i in range(size)]
            write_parquet(tmp_path / config / f"{split}-00000-of-00001.parquet", made)
        files = [f"  - split: {s}\n    path: {config}/{s}-*" for s in ("train", "test")]
        lines += [f"- config_name: {config}", "  data_files:", *files]
    (tmp_path / "README.md").write_text("\n".join([*lines, "---", "# MATH"]))
    return tmp_path


@pytest.mark.parametrize("setting", ["source.repo", "path"])
def test_all_configs_of_math_one_after_the_other(math_repository, setting):
    problems = data("math_train", f"{setting}={math_repository}").load(0)
    assert [p.id for p in problems] == [f"math/train/{config}/{i:04d}" for config in CONFIGS for i in range(3)]
    assert problems[4].answer == r"\frac{101}{2}"
    assert [p.level for p in problems[:3]] == [3, 4, 5]
    tested = data("math_test", f"{setting}={math_repository}").load(0)
    assert [p.id for p in tested] == [f"math/test/{config}/{i:04d}" for config in CONFIGS for i in range(2)]


def test_a_jsonl_repository_with_a_readme(tmp_path):
    """Laid out as HuggingFaceH4/MATH-500."""
    row = {
        "problem": "p",
        "solution": "s",
        "answer": "07",
        "subject": "Algebra",
        "level": 2,
        "unique_id": "test/a/1.json",
    }
    write_lines(tmp_path / "test.jsonl", [row])
    (tmp_path / "README.md").write_text("---\nlanguage:\n- en\n---\n# MATH-500\n")
    (problem,) = data("math500", f"source.repo={tmp_path}").load(0)
    assert (problem.id, problem.answer, problem.level) == ("test/a/1.json", "07", 2)


def test_a_repository_of_one_json_list(tmp_path):
    """Laid out as agentica-org/DeepScaleR-Preview-Dataset."""
    made = [{"problem": f"p{i}", "answer": str(i), "solution": ""} for i in range(3)]
    (tmp_path / "deepscaler.json").write_text(str(made).replace("'", '"'))
    assert [p.answer for p in data("deepscaler", f"source.repo={tmp_path}").load(0)] == ["0", "1", "2"]


def test_parquet_shards_in_a_data_folder(tmp_path):
    """Laid out as MathArena/aime_2025, in two shards."""
    for shard in (0, 1):
        made = [{"problem_idx": i, "problem": f"p{i}", "answer": 10 * i} for i in range(2 * shard + 1, 2 * shard + 3)]
        write_parquet(tmp_path / "data" / f"train-{shard:05d}-of-00002.parquet", made)
    for setting in ("source.repo", "path"):
        problems = data("aime_2025", f"{setting}={tmp_path}").load(0)
        assert [(p.id, p.answer) for p in problems] == [(f"aime_2025/{i:02d}", str(10 * i)) for i in range(1, 5)]


def test_gsm8k_reads_its_main_config(tmp_path):
    for config, answer in (("main", "so #### 1,000"), ("socratic", "wrong #### 5")):
        write_parquet(tmp_path / config / "test-00000-of-00001.parquet", [{"question": "q", "answer": answer}])
    configs = [
        f"- config_name: {c}\n  data_files:\n  - split: test\n    path: {c}/test-*" for c in ("main", "socratic")
    ]
    (tmp_path / "README.md").write_text("\n".join(["---", "configs:", *configs, "---"]))
    for setting in ("source.repo", "path"):
        assert [p.answer for p in data("gsm8k", f"{setting}={tmp_path}").load(0)] == ["1000"]


def test_a_repository_with_a_loading_script_is_read_from_its_file(tmp_path):
    """Laid out as livecodebench/code_generation_lite, whose script `datasets` refuses to run."""
    (tmp_path / "code_generation_lite.py").write_text("raise SystemExit('this must never run')")
    write_lines(tmp_path / "test.jsonl", [livecodebench_row("old")])
    write_lines(tmp_path / "test6.jsonl", [livecodebench_row("new")])
    assert [p.id for p in data("livecodebench", f"source.repo={tmp_path}").load(0)] == ["new"]


def test_leetcode_splits_are_files(tmp_path):
    write_lines(tmp_path / "LeetCodeDataset-train.jsonl", [leetcode_row("a")])
    write_lines(tmp_path / "LeetCodeDataset-test.jsonl", [leetcode_row("b", estimated_date="2024-08-04")])
    for setting in ("source.repo", "path"):
        assert [p.id for p in data("leetcode_train", f"{setting}={tmp_path}").load(0)] == ["a"]
        assert [p.id for p in data("leetcode_test", f"{setting}={tmp_path}").load(0)] == ["b"]


def read(**changes):
    settings = {"repo": "someone/something", "split": "test", "revision": COMMIT, **changes}
    return list(rows(Source(**settings), ""))


@pytest.mark.parametrize("file", ["", "test6.jsonl"])
def test_an_unreachable_hub_says_how_to_do_without(file):
    with pytest.raises(UserError, match=r"someone/something is not in the cache.*data\.path.*HF_HUB_OFFLINE"):
        read(file=file)


def gated() -> Exception:
    """What huggingface_hub raises for a set whose terms were not accepted."""
    import httpx

    response = httpx.Response(403, request=httpx.Request("GET", "https://hub.test"))
    return huggingface_hub.errors.GatedRepoError("403 Client Error", response=response)


def test_a_gated_set_says_how_to_get_access(monkeypatch):
    def refuse(*_, **__):
        raise gated()

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    with pytest.raises(UserError, match=r"gated: accept its terms.*HF_TOKEN.*data\.path"):
        read(file="test6.jsonl")

    def refuse_rows(*_, **__):
        try:
            raise gated()
        except Exception as error:
            message = "Dataset 'someone/something' is a gated dataset on the Hub."
            raise datasets.exceptions.DatasetNotFoundError(message) from error

    monkeypatch.setattr(datasets, "load_dataset", refuse_rows)
    with pytest.raises(UserError, match=r"gated: accept its terms.*HF_TOKEN"):
        read()


def test_a_set_that_is_not_there(monkeypatch):
    def refuse(*_, **__):
        raise datasets.exceptions.DatasetNotFoundError("Dataset 'someone/something' doesn't exist on the Hub")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(UserError, match=r"the hub has no data set someone/something .*data\.source\.repo"):
        read()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"configs": ["algebr"]}, r"config 'algebr'.*algebra"),
        ({"configs": ["algebra"], "split": "validation"}, r"split 'validation' cannot be read.*train"),
    ],
)
def test_a_wrong_config_or_split_names_those_there(math_repository, changes, message):
    with pytest.raises(UserError, match=message):
        read(repo=str(math_repository), **changes)


def test_a_truncated_file_of_the_hub_is_a_user_error(tmp_path):
    write_parquet(tmp_path / "test.parquet", [{"a": 1}])
    (tmp_path / "test.parquet").write_bytes((tmp_path / "test.parquet").read_bytes()[:-8])
    with pytest.raises(UserError, match="cannot be read"):
        read(repo=str(tmp_path))


def test_a_revision_that_is_no_commit_is_said(monkeypatch, capsys):
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: [])
    read()
    assert capsys.readouterr().err == ""
    read(revision="main")
    assert "'main' of someone/something is no commit" in capsys.readouterr().err


def test_the_revision_and_the_config_are_asked_for(monkeypatch):
    asked = []

    def load(*args, **settings):
        asked.append((args, settings))
        return [{"a": 1}]

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert [row.where for row in read(configs=["x", "y"])] == [
        "someone/something x test, row 1",
        "someone/something y test, row 1",
    ]
    assert asked[1] == (("someone/something", "y"), {"split": "test", "revision": COMMIT})


SETS = """math_train math500 aime_2024 aime_2025 aime_2026 hmmt_feb_2025 minerva_math deepscaler gsm8k leetcode_train
livecodebench"""


@pytest.mark.parametrize("name", SETS.split())
def test_shipped_sets_are_pinned_to_a_commit(name):
    revision = data(name).source.revision
    assert len(revision) == 40
    int(revision, 16)


def test_a_row_reads_text_numbers_and_days():
    import datetime

    row = Row(
        "f, row 3", {"s": "a", "i": 5, "f": 5.0, "h": 0.5, "n": None, "l": ["x"], "b": True, "d": "2025-01-04T00:00:00"}
    )
    assert [row.text(c) for c in "sifhn"] == ["a", "5", "5", "0.5", ""]
    assert row.day("d") == datetime.date(2025, 1, 4)
    assert Row("", {"d": datetime.datetime(2025, 1, 4)}).day("d") == datetime.date(2025, 1, 4)
    for column in ("l", "b"):
        with pytest.raises(UserError, match=rf"f, row 3: {column} = .*: expected text or a number"):
            row.text(column)
    with pytest.raises(UserError, match="s = 'a': expected a date"):
        row.day("s")

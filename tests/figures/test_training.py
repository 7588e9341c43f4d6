import csv
import json

import pytest

from kappo.errors import UserError
from kappo.figures import rows as tables
from kappo.figures.training import COLUMNS, training, training_curves

ENTRY = {"task": "rules", "split": "id", "metric": "pass", "pressure": "binary", "arm": "", "kl": 0.5, "rollouts": 1}
ENTRY |= {"bank_rollouts": 1, "folder": "", "step": 20}


@pytest.fixture
def index(tmp_path):
    """Two arms on two replicates: one that samples, one that learns from the bank."""
    entries = []
    for replicate in (0, 1):
        for method in ("apo", "dpo"):
            run = f"{method}-r{replicate}"
            folder = tmp_path / "runs" / run
            folder.mkdir(parents=True)
            steps = [{"step": n, "entropy": 0.1 * n, "pull/some": 0.02} for n in range(1, 21)]
            if method == "apo":
                steps = [{**line, "reward": line["step"] / 20 + replicate, "kl": 0.0} for line in steps]
            (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, steps)))
            checkpoints = [{"step": 20, "kl": 0.7, "pass@1": 0.25, "pass@2": 0.4}]
            (folder / "validation.json").write_text(json.dumps({"checkpoints": checkpoints}))
            entries.append({**ENTRY, "method": method, "k": 2, "replicate": replicate, "run": run})
    path = tmp_path / "id.json"
    path.write_text(json.dumps(entries))
    return path


def of(rows, method, metric, replicate="0"):
    return {
        (r["on"], r["step"]): r["value"]
        for r in rows
        if (r["method"], r["metric"], r["replicate"]) == (method, metric, replicate)
    }


def test_rows_are_means_over_ten_steps(index):
    rows = training([index], index.parent)
    assert of(rows, "apo", "reward") == pytest.approx({("training", 10): 0.275, ("training", 20): 0.775})
    assert of(rows, "apo", "reward", "1") == pytest.approx({("training", 10): 1.275, ("training", 20): 1.775})
    assert of(rows, "dpo", "entropy") == pytest.approx({("training", 10): 0.55, ("training", 20): 1.55})
    assert of(rows, "apo", "pull/none") == {}


def test_a_run_that_never_samples_shows_its_checkpoints_on_validation_problems(index):
    rows = training([index], index.parent)
    assert of(rows, "dpo", "reward") == {("validation", 20): 0.25}
    assert of(rows, "dpo", "kl") == {("validation", 20): 0.7}
    assert {on for on, _ in of(rows, "apo", "kl")} == {"training"}


def test_each_method_has_a_figure_with_its_own_rows(index, tmp_path):
    tables.write(tmp_path / "training.csv", training([index], index.parent))
    made = training_curves(tables.read(tmp_path / "training.csv", COLUMNS), tmp_path)
    assert [p.name for p in made] == [f"training_{m}.{kind}" for m in ("apo", "dpo") for kind in ("pdf", "png", "csv")]
    assert made[1].read_bytes().startswith(b"\x89PNG")
    with open(tmp_path / "training_dpo.csv", newline="") as handle:
        assert {row["method"] for row in csv.DictReader(handle)} == {"dpo"}


def test_damaged_metrics_name_the_file_and_the_way_out(index):
    (index.parent / "runs" / "apo-r0" / "metrics.jsonl").write_text('{"step": 1')
    with pytest.raises(UserError, match=r"apo-r0/metrics.jsonl cannot be read .*delete this run's folder"):
        training([index], index.parent)

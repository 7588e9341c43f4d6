import importlib.util
import subprocess
import sys
import types
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from kappo.errors import UserError
from kappo.integrations.verl import compute_score

ROOT = Path(__file__).parents[2]
TRAIN = {"split": "train", "prompt_id": "p1", "index": 7}


def exact(data_source, solution_str, ground_truth, extra_info=None):
    return solution_str == ground_truth


def detailed(data_source, solution_str, ground_truth, extra_info=None, weight=1.0):
    return {"score": weight * exact(data_source, solution_str, ground_truth), "format": "good", "seen": extra_info}


async def later(**_):
    return 1.0


@pytest.fixture
def table(tmp_path):
    file = tmp_path / "coefficients.csv"
    file.write_text("prompt_id,k,beta,a\np1,4,0.1,0.25\np2,4,0.1,4\np1,2,0.1,0.5\np2,2,0.1,2\n")
    return str(file)


def scored(solution="yes", info=None, **kwargs):
    """The call of verl's reward managers: `reward_kwargs` merged into keyword arguments."""
    given = {"data_source": "sums", "solution_str": solution, "ground_truth": "yes"}
    return partial(compute_score, **kwargs)(**given, extra_info=TRAIN if info is None else info)


def test_a_number_is_scaled_and_kept(table):
    assert scored(coefficients=table, score=exact, k=4) == {"score": 0.25, "raw_score": 1.0, "acc": True}
    assert scored("no", coefficients=table, score=exact, k=4)["score"] == 0.0
    assert scored(info={"prompt_id": "p2"}, coefficients=table, score=exact, k=2, beta=0.1)["score"] == 2.0
    assert scored(info={"id": np.str_("p2")}, coefficients=table, score=exact, k=4, id_key="id")["score"] == 4.0


def test_a_dict_keeps_its_entries_and_the_score_function_its_keywords(table):
    found = scored(coefficients=table, score=f"{__name__}.detailed", k=4, weight=3.0)
    assert found == {"score": 0.75, "raw_score": 3.0, "format": "good", "seen": TRAIN}


def test_validation_is_left_alone(table):
    for split in ("test", "val", "validation"):
        found = scored(info={"split": split, "index": 3}, coefficients=table, score=exact, k=4)
        assert found == {"score": 1.0, "raw_score": 1.0, "acc": True}
    info = {**TRAIN, "split": "held out"}
    assert scored(info=info, coefficients=table, score=exact, k=4)["score"] == 0.25
    assert scored(info=info, coefficients=table, score=exact, k=4, validation_splits="held out")["score"] == 1.0


def test_ones_change_nothing(tmp_path):
    (tmp_path / "ones.jsonl").write_text('{"prompt_id": "p1", "a": 1.0}\n')
    assert scored(coefficients=str(tmp_path / "ones.jsonl"), score=exact)["score"] == 1.0


def test_the_default_score_is_that_of_verl(table, monkeypatch):
    module = types.ModuleType("verl.utils.reward_score")
    module.default_compute_score = exact
    for name in ("verl", "verl.utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    sys.modules["verl"].utils, sys.modules["verl.utils"].reward_score = sys.modules["verl.utils"], module
    assert scored(coefficients=table, k=2)["score"] == 0.5


def test_errors(table, tmp_path):
    def refused(words, info=None, **kwargs):
        with pytest.raises(UserError, match=words):
            scored(info=info, **{"coefficients": table, "score": exact, "k": 4, **kwargs})

    refused(r"extra_info has no entry 'prompt_id'.*reward_kwargs.id_key", info={"promptid": "p1"})
    refused(r"no coefficient of prompt 'p9'.*split None.*validation_splits", info={"prompt_id": "p9"})
    refused("k = 2, 4", k=None)
    refused("missing.csv is missing", coefficients=str(tmp_path / "missing.csv"))
    refused("score = 'no.such.function'", score="no.such.function")
    refused("expected an ordinary function", score=later)
    (tmp_path / "bad.csv").write_text("prompt_id,a\np1,-2\n")
    refused("a = -2 of prompt 'p1'", coefficients=str(tmp_path / "bad.csv"), k=None)


def test_the_table_is_read_once(table):
    scored(coefficients=table, score=exact, k=4)
    Path(table).unlink()
    assert scored(coefficients=table, score=exact, k=4)["score"] == 0.25


def test_the_example_loads_as_verl_loads_it(table):
    """verl executes the file under a name of its own and leaves it out of sys.modules."""
    spec = importlib.util.spec_from_file_location("custom_module_1", ROOT / "examples" / "verl_reward.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    given = {"data_source": "sums", "solution_str": " 4 ", "ground_truth": "4", "extra_info": TRAIN}
    assert module.compute_score(**given, coefficients=table, k=4)["score"] == 0.25


def test_needs_neither_torch_nor_verl():
    code = "import sys, kappo.integrations.verl; assert not {'torch', 'trl', 'transformers', 'verl'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)

import pytest

from kappo import compose
from kappo.errors import UserError
from kappo.training.base import make_base
from kappo.training.run import check_data
from tests.data.made import STUB, write_lines


def config(folder, trained, held_out, *overrides):
    files = {"data": trained, "validation": held_out}
    paths = {name: write_lines(folder / f"{name}.jsonl", rows) for name, rows in files.items()}
    stubs = [f"{name}.answers.reward._target_={STUB}" for name in files]
    chosen = ["data=jsonl", "data@validation=jsonl", *(f"{name}.path={path}" for name, path in paths.items())]
    return compose.compose([*chosen, *stubs, "train.prompts_per_step=2", *overrides])


def rows(*questions):
    return [{"problem": question, "answer": "1"} for question in questions]


def test_validation_prompts_that_are_trained_on_are_refused(tmp_path):
    check_data(config(tmp_path, rows("a?", "b?", "c?"), rows("d?", "e?")))
    with pytest.raises(UserError, match=r"1 of 2 validation prompts are trained on.*math_train_part"):
        check_data(config(tmp_path, rows("a?", "b?", "c?"), rows("d?", "b?")))


def test_fewer_prompts_than_a_step_takes(tmp_path):
    with pytest.raises(UserError, match=r"has 3 prompts, train.prompts_per_step = 4: lower it"):
        check_data(config(tmp_path, rows("a?", "b?", "c?"), rows("d?"), "train.prompts_per_step=4"))


def test_a_grader_that_cannot_work_is_named_before_anything_runs(tmp_path, monkeypatch):
    chosen = config(tmp_path, rows("a?", "b?"), rows("d?"))

    def ready(self):
        raise UserError("install it")

    monkeypatch.setattr(type(chosen.data.reward), "ready", ready, raising=False)
    with pytest.raises(UserError, match="install it"):
        check_data(chosen)


def test_a_base_model_needs_a_corpus(tmp_path):
    with pytest.raises(UserError, match=r"model = embedded_tiny.*has none.*data=rules"):
        make_base(config(tmp_path, rows("a?", "b?"), rows("d?")), None)

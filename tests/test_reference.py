import pytest

from kappo import compose
from kappo.data.programs import Programs
from kappo.errors import UserError
from kappo.models import fresh_model, fresh_tokenizer, save_model
from kappo.places import bank_place
from kappo.records import BANK, Completion, Problem, read_table
from kappo.reference import make_bank, prompts_of
from kappo.rollout.hf import HFEngine
from tests.conftest import TINY
from tests.data.made import write_lines
from tests.data.test_template import CHATML
from tests.data.test_template import tokenizer as tokenizer_of_bytes
from tests.rewards.boxes import needs_sandbox


def test_prompts_that_the_vocabulary_cannot_write_are_refused(tokenizer):
    rules = [Problem("p0", "1,2=3;4,5=6;", "", 1), Problem("rules-7", "4,2=8;3,5=?", "5", 1)]
    assert [len(p.token_ids) for p in prompts_of(rules, tokenizer)] == [12, 11]
    with pytest.raises(UserError, match=r"prompt rules-7 = '4,2=8;3,5=\?' .* lacks"):
        prompts_of(rules, fresh_tokenizer(Programs.vocabulary(), 64))


ANSWERS = {
    "a": [r"It is \boxed{\frac{2}{4}}.", r"\boxed{0.25}", "no idea", "the answer is 0.5"],
    "b": [r"\boxed{5}", r"\boxed{x+1}", r"\boxed{1+x}", r"\boxed{(x^2-1)/(x-1)}"],
}
PROGRAMS = {
    "a": ["```python\nprint(int(input()) + 1)\n```", "```python\nprint(3)\n```", "none", "print(int(input()) * 2 - 1)"]
}
SUM = [{"input": "2\n", "output": "3\n"}, {"input": "4\n", "output": "5"}]


def banked(tmp_path, monkeypatch, rows, said):
    """The bank of a user's own problems, whose completions are given."""
    problems = write_lines(tmp_path / "my.jsonl", rows)
    settings = ["data=jsonl", f"data.path={problems}", "bank.samples_per_prompt=4", f"paths.results={tmp_path}"]
    config = compose.compose([*settings, "eval.max_failed_share=0.5", "tracking=disabled"])
    chat = tokenizer_of_bytes(CHATML)
    save_model(fresh_model(TINY, chat, 0), chat, tmp_path / "base")

    def generate(self, prompts, spec):
        assert all(chat.decode(p.token_ids).startswith("<|im_start|>user\n") for p in prompts)
        return [
            Completion(p.id, i, [5, 0], [-1.0, -1.0], "stop", said[p.id][i]) for p in prompts for i in range(spec.n)
        ]

    monkeypatch.setattr(HFEngine, "generate", generate)
    place = bank_place(config)
    make_bank(config, place, tmp_path / "base")
    return read_table(place.folder / "bank.parquet", BANK).to_pylist()


def test_a_bank_of_ones_own_answers(tmp_path, monkeypatch):
    rows = [{"id": "a", "prompt": "1/2?", "answer": r"\frac{1}{2}"}, {"id": "b", "prompt": "x?", "answer": "x+1"}]
    found = banked(tmp_path, monkeypatch, rows, ANSWERS)
    assert [r["verdict"] for r in found] == ["right", "wrong", "unparsable", "right", "wrong", *["right"] * 3]
    assert [r["reward"] for r in found] == [1, 0, 0, 1, 0, 1, 1, 1]


@needs_sandbox
def test_a_bank_of_ones_own_programs(tmp_path, monkeypatch):
    found = banked(tmp_path, monkeypatch, [{"id": "a", "prompt": "n + 1?", "tests": SUM}], PROGRAMS)
    assert [(r["reward"], r["verdict"]) for r in found] == [
        (1.0, "right"),
        (0.5, "wrong"),
        (0.0, "unparsable"),
        (0.5, "wrong"),
    ]

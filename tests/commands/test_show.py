import pytest

from kappo.cli import main
from tests.data.made import STUB, leetcode_row, livecodebench_row, write_lines
from tests.data.test_template import CHATML, tokenizer


def run(capsys, *arguments, code=0):
    with pytest.raises(SystemExit) as ended:
        main(["show", *arguments])
    out, err = capsys.readouterr()
    assert ended.value.code == code, err
    return out if code == 0 else err


@pytest.fixture
def rows(tmp_path):
    made = [{"question": f"How much is {i} + 1?", "answer": f"so\n#### {i + 1}"} for i in range(40)]
    made += [{"question": "no answer", "answer": "?"}]
    return ["data=gsm8k", f"data.path={write_lines(tmp_path / 'test.jsonl', made)}", f"data.reward._target_={STUB}"]


@pytest.fixture
def folder(tmp_path):
    tokenizer(CHATML).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_problems_as_the_model_sees_them(capsys, rows, folder):
    out = run(capsys, *rows, "n=40", f"tokenizer={folder}")
    assert "41 rows; 1 dropped (1 without an answer); 40 problems" in out.splitlines()[0]
    prompt = (
        "=== gsm8k/test/0007, level 0\ngold: 8\nprompt, 135 tokens:\n<|im_start|>user\nHow much is 7 + 1?\n"
        "Please reason step by step, and put your final answer within \\boxed{}.<|im_end|>\n<|im_start|>assistant\n"
    )
    size = len(tokenizer(CHATML)(prompt.partition("tokens:\n")[2])["input_ids"])
    assert prompt.replace("135", str(size)) in out
    mean = (10 * size + 30 * (size + 1)) / 40
    assert f"tokens a prompt: mean {mean:.1f}, max {size + 1} (gsm8k/test/0010)" in out
    assert out.endswith("stop tokens: 0 <|endoftext|>, 2 <|im_end|>\n")


def test_n_and_seed_choose_problems_in_their_order(capsys, rows):
    def ids(*arguments):
        out = run(capsys, *rows, *arguments)
        return [line.split()[1] for line in out.splitlines() if line.startswith("=== ")]

    assert len(ids()) == 3
    assert ids("n=5") == sorted(ids("n=5"))
    assert set(ids("n=4")) < set(ids("n=5"))
    assert ids("n=5") != ids("n=5", "seed=1")
    assert ids("n=0") == []
    assert len(ids("n=1000")) == 40


def test_without_a_tokenizer_the_text_of_the_user_turn(capsys, rows):
    out = run(capsys, *rows, "n=1")
    assert "the text of the user turn" in out
    assert "Please reason step by step" in out
    assert "stop tokens" not in out


def test_embedded_data_have_a_tokenizer_of_their_own(capsys):
    out = run(capsys, "data=rules", "n=2")
    assert "rules, split train, metric pass: 512 problems" in out
    assert "prompt, 11 tokens:" in out
    assert out.endswith("stop tokens: 1 <eos>\n")
    assert run(capsys, "data=rules", "n=2", "replicate=1") != out


def test_programs_show_their_tests_in_short(capsys, tmp_path):
    stub = f"data.reward._target_={STUB}"
    path = write_lines(tmp_path / "test6.jsonl", [livecodebench_row(calls=True)])
    assert "gold: 3 tests, mode functional, add" in run(capsys, "data=livecodebench", f"data.path={path}", stub)
    path = write_lines(tmp_path / "train.jsonl", [leetcode_row()])
    out = run(capsys, "data=leetcode_train", f"data.path={path}", stub)
    assert "gold: 2 asserts, mode leetcode, Solution().add" in out
    assert "metric max" in out


def test_the_models_generation_config_adds_stops(capsys, rows, folder):
    (folder / "generation_config.json").write_text('{"eos_token_id": [0, 4]}')
    assert "stop tokens: 0 <|endoftext|>, 2 <|im_end|>, 4 <|eot|>" in run(capsys, *rows, f"tokenizer={folder}")


def test_prompts_without_room_are_counted(capsys, rows, tmp_path):
    short = tokenizer(CHATML)
    short.model_max_length = 150
    short.save_pretrained(tmp_path / "short")
    for new, said in (("100", "40 prompts leave no room for rollout.max_new_tokens = 100"), ("16", "tokens a prompt")):
        arguments = [
            *rows,
            f"tokenizer={tmp_path / 'short'}",
            f"rollout.max_new_tokens={new}",
            "model.max_positions=4096",
        ]
        assert said in run(capsys, *arguments)


def test_a_base_model_without_a_chat_template(capsys, rows, tmp_path):
    tokenizer().save_pretrained(tmp_path / "base")
    arguments = [*rows, f"tokenizer={tmp_path / 'base'}", "n=1"]
    assert "set data.template.kind=base" in run(capsys, *arguments, code=2)
    assert "<|im_start|>" not in run(capsys, *arguments, "data.template.kind=base")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["n=many"], "n = 'many': expected a whole number"),
        (["tokenizer=nowhere/here"], "tokenizer = 'nowhere/here' cannot be loaded"),
        (["data=math5000"], "did you mean 'math500'?"),
        (["data=gsm8k", "data.path=nowhere.jsonl", f"data.reward._target_={STUB}"], "nowhere.jsonl: no such file"),
    ],
)
def test_what_cannot_be_shown(capsys, monkeypatch, arguments, message):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert message in run(capsys, *arguments, code=2)


@pytest.mark.parametrize("n", ["-1", "x", "1.5", ""])
def test_n_is_judged_before_anything_is_loaded(capsys, n):
    message = run(capsys, "data=gsm8k", "data.path=nowhere.jsonl", "tokenizer=nowhere", f"n={n}", code=2)
    assert f"n = {n!r}: expected a whole number of problems" in message


def test_the_tokenizer_is_judged_before_the_data_are_loaded(capsys, tmp_path):
    tokenizer().save_pretrained(tmp_path / "base")
    unread = ["data=gsm8k", "data.path=nowhere.jsonl", f"data.reward._target_={STUB}"]
    (tmp_path / "empty").mkdir()
    message = run(capsys, *unread, f"tokenizer={tmp_path / 'empty'}", code=2)
    assert f"tokenizer = {str(tmp_path / 'empty')!r} cannot be loaded" in message
    assert "set data.template.kind=base" in run(capsys, *unread, f"tokenizer={tmp_path / 'base'}", code=2)
    assert "nowhere.jsonl: no such file" in run(
        capsys, *unread, f"tokenizer={tmp_path / 'base'}", "data.template.kind=base", code=2
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"test": "def check(candidate):\n    for i in [1]: pass", "entry_point": "f"}, "row 1: expected a check"),
        ({"tests": [{"input": "1 2", "output": "3"}], "fn_name": "f"}, "row 1: tests[0]: expected one JSON value"),
        ({"answer": "\ud800"}, "row 1: answer holds '\\ud800'"),
        ({"answer": "1", "problem": "unused", "prompt": "\ud800"}, "row 1: prompt holds '\\ud800'"),
    ],
)
def test_broken_rows_are_refused(capsys, tmp_path, row, message):
    path = write_lines(tmp_path / "my.jsonl", [{"prompt": "p", **row}])
    assert message in run(capsys, "data=jsonl", f"data.path={path}", code=2)


def test_help(capsys):
    out = run(capsys, "--help")
    assert "kappo show data=math500 n=3 tokenizer=" in out

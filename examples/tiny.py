"""What the examples share, in place of your own: a random model of 20 words, four problems, their bank, settings."""

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

TEMPORARY = tempfile.TemporaryDirectory(prefix="kappo-example-")
FOLDER = Path(TEMPORARY.name)
SUMS = [(1, 3), (1, 4), (2, 3), (2, 4)]
PROBLEMS = [{"prompt_id": f"sum-{a}-{b}", "prompt": f"{a} + {b} =", "answer": str(a + b)} for a, b in SUMS]
BANK = {"sum-1-3": [1] * 27 + [0] * 3, "sum-1-4": [1] * 3 + [0] * 27, "sum-2-3": [1] + [0] * 29, "sum-2-4": [0] * 30}
"""prompt_id -> rewards of 30 completions of the reference model; `kappo bank` or any sampler and grader make them."""


def calibrated(*options):
    """The file that `kappo calibrate rewards.csv OPTIONS -o coefficients.csv` writes."""
    with open(FOLDER / "rewards.csv", "w") as file:
        csv.writer(file).writerows([("prompt_id", "reward"), *((id, r) for id in BANK for r in BANK[id])])
    files = [str(FOLDER / "rewards.csv"), "-o", str(FOLDER / "coefficients.csv")]
    subprocess.run([sys.executable, "-m", "kappo", "calibrate", *files, *options], check=True)
    return FOLDER / "coefficients.csv"


def model():
    """A folder with a random model and its tokenizer, as `save_pretrained` leaves them."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    names = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"}
    words = [*names.values(), "+", "=", *map(str, range(14))]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=made, **names).save_pretrained(FOLDER / "model")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    ids = {"vocab_size": len(words), "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    Qwen3ForCausalLM(Qwen3Config(**sizes, **heads, **ids)).save_pretrained(FOLDER / "model")
    return str(FOLDER / "model")


def settings(**more):
    """Arguments of a TRL config for two steps on a CPU."""
    quiet = {"output_dir": str(FOLDER), "report_to": [], "save_strategy": "no", "logging_steps": 1, "max_steps": 2}
    return {**quiet, "use_cpu": True, "bf16": False, "per_device_train_batch_size": 16, **more}

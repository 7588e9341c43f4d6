"""GRPO at pass@4 with TRL: `kappo calibrate rewards.csv --k 4 --beta 0.1 -o coefficients.csv`, then this trainer."""

import tiny
from datasets import Dataset
from trl import GRPOConfig

from kappo.calibration import by_prompt_id
from kappo.integrations.trl import AtKGRPOTrainer


def right(completions, answer, **columns):
    return [float(wanted in text.split()) for text, wanted in zip(completions, answer, strict=True)]


trainer = AtKGRPOTrainer(
    model=tiny.model(),
    reward_funcs=right,
    args=GRPOConfig(num_generations=8, max_completion_length=8, **tiny.settings()),
    train_dataset=Dataset.from_list(tiny.PROBLEMS),  # columns: prompt_id, prompt, and what the reward needs
    coefficients=by_prompt_id(tiny.calibrated("--k", "4", "--beta", "0.1"), "a"),
)
trainer.train()

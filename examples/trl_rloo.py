"""RLOO with TRL: at pass@4, for rewards in {0, 1}; and at max@4 on win rates, for graded rewards."""

import tiny
from datasets import Dataset
from trl import RLOOConfig, RLOOTrainer

from kappo.calibration import by_prompt_id
from kappo.integrations.trl import AtKRLOOTrainer, at_k_reward
from kappo.pressure.winrate import WinRate


def right(completions, answer, **columns):
    return [float(wanted in text.split()) for text, wanted in zip(completions, answer, strict=True)]


def variety(completions, **columns):
    return [len(set(text.split())) / 8 for text in completions]


model, data = tiny.model(), Dataset.from_list(tiny.PROBLEMS)
args = RLOOConfig(num_generations=8, max_completion_length=8, beta=0.1, **tiny.settings())  # beta: the calibration's
a = by_prompt_id(tiny.calibrated("--k", "4", "--beta", "0.1"), "a")
AtKRLOOTrainer(model=model, reward_funcs=right, args=args, train_dataset=data, coefficients=a).train()

bank = {problem["prompt_id"]: [i / 8 for i in range(9)] for problem in tiny.PROBLEMS}  # the reference model's rewards
at_4 = at_k_reward(variety, WinRate(k=4, beta=0.1), bank)
RLOOTrainer(model=model, reward_funcs=at_4, args=args, train_dataset=data).train()

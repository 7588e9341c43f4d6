"""DPO at pass@2 with TRL: each pair has its prompt's beta_eff, and is a right and a wrong completion of the bank."""

import tiny
from datasets import Dataset
from trl import DPOConfig

from kappo.calibration import by_prompt_id
from kappo.integrations.trl import AtKDPOTrainer

pairs = [
    {**problem, "chosen": f" {problem['answer']}", "rejected": " 0"}
    for problem in tiny.PROBLEMS
    if 0 < sum(tiny.BANK[problem["prompt_id"]]) < 30  # else the bank has no pair
]
options = ("--k", "2", "--beta", "0.1", "--interface", "regularization")
trainer = AtKDPOTrainer(
    model=tiny.model(),
    args=DPOConfig(**tiny.settings()),
    train_dataset=Dataset.from_list(pairs),
    beta_eff=by_prompt_id(tiny.calibrated(*options), "beta_eff"),
)
trainer.train()

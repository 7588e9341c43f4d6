"""A reward function for verl: your own score, times the prompt's a_k. RLOO with the KL in the reward:

python -m verl.trainer.main_ppo algorithm.adv_estimator=rloo algorithm.use_kl_in_reward=True
    algorithm.kl_ctrl.kl_coef=0.1 reward.custom_reward_function.path=$PWD/examples/verl_reward.py
    +reward.custom_reward_function.reward_kwargs.coefficients=$PWD/coefficients.csv ...

GRPO needs algorithm.norm_adv_by_std_in_grpo=False, or a_k cancels. The data's extra_info holds the prompt_id.
"""

from kappo.integrations.verl import compute_score as at_k


def right(data_source, solution_str, ground_truth, extra_info=None):
    return float(solution_str.strip() == ground_truth)


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    return at_k(data_source, solution_str, ground_truth, extra_info, score=right, **kwargs)


if __name__ == "__main__":  # what verl does with it
    import tiny

    file = str(tiny.calibrated("--k", "4", "--beta", "0.1"))
    for problem in tiny.PROBLEMS:
        info = {"split": "train", "prompt_id": problem["prompt_id"]}
        print(info["prompt_id"], compute_score("sums", problem["answer"], problem["answer"], info, coefficients=file))

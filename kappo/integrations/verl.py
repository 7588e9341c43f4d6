"""verl: a custom reward function that multiplies a score by its prompt's a_k (KAPPO eq. 7, reward side). No torch.

    algorithm.adv_estimator=rloo algorithm.use_kl_in_reward=True algorithm.kl_ctrl.kl_coef=BETA
    reward.custom_reward_function.path=pkg://kappo.integrations.verl reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.coefficients=/absolute/path/coefficients.csv

Versions before `reward.custom_reward_function` call it `custom_reward_function`; those that know no pkg:// take the
path of a file of yours that imports `compute_score` (examples/verl_reward.py). Paths are absolute, as Ray's workers
have working directories of their own.

verl computes the advantage after the reward function, and what it does then decides whether a_k survives:
- rloo, rloo_vectorized, opo, remax: it does. rloo with use_kl_in_reward, kl_penalty=kl and kl_coef = the beta of the
  calibration is a_k R - beta KL, with the optimum of eq. 4: verl subtracts the KL from the scaled score, as must be.
- grpo: only with algorithm.norm_adv_by_std_in_grpo=False. By default verl divides by the group's std, where a_k cancels
  (eq. 139). The function cannot see this setting: it is yours to set.
- reinforce_plus_plus, reinforce_plus_plus_baseline, gae: whitened over the batch, so only the ratios of the a_k in a
  batch survive, not their size. gdpo standardises by group: a_k cancels. grpo_passk is a pass@k method already.
- actor.use_kl_loss adds a KL that a_k does not touch; low_var_kl (k3) has the forward KL's gradient.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pkgutil import resolve_name
from typing import Any

from kappo.calibration import by_prompt_id
from kappo.errors import UserError, near_misses


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    *,
    coefficients: str,
    score: str | Callable[..., Any] = "verl.utils.reward_score.default_compute_score",
    k: int | None = None,
    beta: float | None = None,
    id_key: str = "prompt_id",
    validation_splits: Sequence[str] = ("test", "val", "validation"),
    **kwargs: Any,
) -> dict[str, Any]:
    """{"score": a_k(x) r, "raw_score": r, ...} for one completion; the keywords are verl's `reward_kwargs`.

    coefficients: a file of `kappo calibrate`, read once a process; k, beta: which of its values, where it has several.
    score: the function that scores, or its dotted name, with verl's contract: (data_source, solution_str, ground_truth,
    extra_info, ...) -> a number, or a dict with "score" whose other entries are kept. By default verl's own. kwargs go
    on to it. id_key: the entry of extra_info with the prompt's id. validation_splits: values of extra_info["split"]
    whose scores are left alone, as verl validates with the same function.

    A number r comes back as "acc" too, as verl logs it: validation and dumps show raw scores. Raises UserError for a
    prompt without a coefficient, a missing entry, an unknown or async score function, coefficients below 0.
    """
    result = _score_function(score)(
        data_source=data_source, solution_str=solution_str, ground_truth=ground_truth, extra_info=extra_info, **kwargs
    )
    named = dict(result) if isinstance(result, Mapping) else {"score": result, "acc": result}
    if not isinstance(named.get("score"), int | float):
        raise UserError(f"score gave {result!r:.60}: expected a number, or a dict with a number under 'score'")
    raw = float(named["score"])
    info = extra_info or {}
    unscaled = [validation_splits] if isinstance(validation_splits, str) else validation_splits
    a = 1.0 if info.get("split") in unscaled else _coefficient(info, coefficients, k, beta, id_key)
    return {**named, "score": a * raw, "raw_score": raw}


def _coefficient(info: Mapping[str, Any], path: str, k: int | None, beta: float | None, id_key: str) -> float:
    if id_key not in info:
        raise UserError(
            f"extra_info has no entry {id_key!r} with the prompt's id: {near_misses(id_key, info)}; name it with "
            "reward_kwargs.id_key"
        )
    id = str(info[id_key])
    table = _coefficients(path, k, beta)
    if id not in table:
        raise UserError(
            f"{path} has no coefficient of prompt {id!r} (extra_info[{id_key!r}], split {info.get('split')!r}): "
            "calibrate it too, leave it out of the training data, or name its split in reward_kwargs.validation_splits"
        )
    return table[id]


@lru_cache(maxsize=8)
def _coefficients(path: str, k: int | None, beta: float | None) -> dict[str, float]:
    table = by_prompt_id(path, "a", k, beta)
    for id, a in table.items():
        if not (math.isfinite(a) and a >= 0):
            raise UserError(f"{path}: a = {a:g} of prompt {id!r}; expected a number of at least 0; calibrate again")
    return table


@lru_cache(maxsize=8)
def _score_function(score: str | Callable[..., Any]) -> Callable[..., Any]:
    try:
        found = resolve_name(score) if isinstance(score, str) else score
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"score = {score!r}: {error}; expected the dotted name of a function") from None
    if not callable(found) or inspect.iscoroutinefunction(found):
        raise UserError(f"score = {score!r}: expected an ordinary function, not {found!r:.60}")
    return found

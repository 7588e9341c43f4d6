"""TRL 1.16's trainers at pass@k and max@k: a_k after GRPO's standardisation, before RLOO's KL; beta_eff in DPO.

The coefficients hold for the reference model that sampled the bank and for the beta they were solved with. Let the
trainer start from that model; with `sync_ref_model` TRL moves it and they age.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather
from datasets import Dataset
from torch import Tensor
from trl.trainer.dpo_trainer import DPOTrainer
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_trainer import RLOOTrainer
from trl.trainer.utils import get_callable_name, is_async_callable, nanstd

from kappo.calibration import fit
from kappo.errors import UserError, near_misses
from kappo.pressure.base import Pressure, Rows
from kappo.pressure.binary import Binary
from kappo.reward_table import by_size

SUPPORTED = "1.16"
if not version("trl").startswith(f"{SUPPORTED}."):
    raise UserError(
        f"trl {version('trl')}: expected {SUPPORTED}, whose internals these trainers extend: another version may train "
        f"without the coefficients and not say so; pip install 'trl~={SUPPORTED}.0'"
    )

PLACE = "kappo_place"
"""Key of a DPO batch: where each pair's prompt stands in the table of beta_eff. Whole numbers, which bf16 spares."""

RewardFunction = Callable[..., Sequence[float | None]]


class _Table:
    """One number a prompt: float32 values, and the dataset column that holds the prompts' ids."""

    def __init__(self, setting: str, values: Mapping[str, float], id_column: str, above_zero: bool) -> None:
        for id, value in values.items():
            if not math.isfinite(value) or value < 0 or (above_zero and value == 0):
                expected = (
                    "a number above 0: the column beta_eff of `kappo calibrate --interface regularization`"
                    if above_zero
                    else "a number of at least 0: the column a of `kappo calibrate`"
                )
                raise UserError(f"{setting}: {value:g} for prompt {id!r}; expected {expected}")
        self.setting, self.id_column = setting, id_column
        self.place = {str(id): i for i, id in enumerate(values)}
        self.values = torch.tensor(list(values.values()), dtype=torch.float32)

    def places(self, ids: Iterable[Any], where: str) -> Tensor:
        asked = [str(id) for id in ids]
        missing = [id for id in asked if id not in self.place]
        if missing:
            raise UserError(
                f"{self.setting}: none for {len(missing)} of {len(asked)} prompts of {where}, such as {missing[0]!r} "
                f"in column {self.id_column!r}; sample and calibrate them too, leave them out, or give them one"
            )
        return torch.tensor([self.place[id] for id in asked])

    def examples(self, examples: Sequence[Mapping[str, Any]]) -> Tensor:
        """Places of a batch's prompts."""
        if self.id_column not in examples[0]:
            raise UserError(self._no_column("the batch", examples[0]))
        return self.places((example[self.id_column] for example in examples), "the batch")

    def check(self, dataset: Any, setting: str) -> None:
        """Raise UserError where a data set lacks the column or has prompts without a number; streams are not read."""
        if isinstance(dataset, Mapping):
            for name, part in dataset.items():
                self.check(part, f"{setting}[{name!r}]")
        elif dataset is not None and dataset.column_names is not None:
            if self.id_column not in dataset.column_names:
                raise UserError(self._no_column(setting, dataset.column_names))
            if isinstance(dataset, Dataset):
                self.places(dataset.unique(self.id_column), setting)

    def _no_column(self, where: str, columns: Iterable[str]) -> str:
        hint = near_misses(self.id_column, columns)
        return f"{where} has no column {self.id_column!r} of prompt ids: {hint}; name it with id_column="


class _WithTable:
    """Checks the data before TRL loads a model, and keeps the column of prompt ids."""

    _table: _Table
    _signature_columns: Any

    def _look_up_in(self, table: _Table, trainer: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Check the data sets among the arguments of TRL's trainer; returns its config or None."""
        given = inspect.signature(trainer).bind_partial(*args, **kwargs).arguments
        for setting in ("train_dataset", "eval_dataset"):
            table.check(given.get(setting), setting)
        self._table = table
        return given.get("args")

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()  # type: ignore[misc]
        if self._table.id_column not in self._signature_columns:
            self._signature_columns = [*self._signature_columns, self._table.id_column]


class AtKGRPOTrainer(_WithTable, GRPOTrainer):
    """GRPO whose advantages are multiplied by a_k(x) after standardisation (KAPPO eq. 140): @k-GRPO.

    coefficients: prompt id -> a_k in [0, k], such as `by_prompt_id("coefficients.csv", "a")`. id_column: the column of
    the train and eval data with the prompts' ids. Everything else as in GRPOTrainer; all ones is GRPOTrainer itself.

    a_k in the rewards would cancel in the division by the group's std (eq. 139). Here it comes last, so every setting
    of `scale_rewards` ("group", "batch", "none") and `multi_objective_aggregation` keeps it; of several reward
    functions it multiplies the sum. The surrogates of every `loss_type` are homogeneous in the advantage: each prompt's
    reward part is multiplied by exactly a_k. Not multiplied: KL (`beta`), entropy bonus, auxiliary loss.
    Fixed points: standardised GRPO has none that is known; scale_rewards="none" has the optimum's direction, the reward
    shrunk by (n - 1) / n as the group's mean includes the completion itself; `beta` > 0 is k3 in the loss, whose
    gradient is the forward KL's. For the optimum of eq. 4 take AtKRLOOTrainer.
    Logs: reward metrics and the table's `advantage` are before a_k, which is a column of its own.
    Raises UserError at construction for a prompt without a coefficient (in a stream, when it comes up), a missing
    column, or coefficients that are negative or not finite.
    """

    def __init__(
        self, *args: Any, coefficients: Mapping[str, float], id_column: str = "prompt_id", **kwargs: Any
    ) -> None:
        table = _Table("coefficients", coefficients, id_column, above_zero=False)
        self._look_up_in(table, GRPOTrainer, args, kwargs)
        super().__init__(*args, **kwargs)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        a = self._table.values[self._table.examples(inputs)]
        self._log_completion_extra("a_k", a.tolist())
        output = super()._generate_and_score_completions(inputs)
        output["advantages"] = output["advantages"] * a.to(output["advantages"].device)
        return output


class AtKRLOOTrainer(_WithTable, RLOOTrainer):
    """RLOO on a_k(x) R - beta KL: the KL-regularised optimum of eq. 4 (KAPPO eq. 7, reward side).

    coefficients, id_column: as in AtKGRPOTrainer. `args.beta` should be the beta that the coefficients were solved
    with; TRL's default is 0.05.

    TRL subtracts beta times the sequence's k1 from the reward before the leave-one-out baseline. a_k times *that*
    advantage would scale the KL too and lead to the k = 1 optimum, so a_k multiplies what the reward functions return.
    `reward_weights` come after and commute with it; None stays None. Refused with UserError: `normalize_advantages`,
    which divides each batch by the std of its advantages and so by the size of the a_k in it, and `reward_clip_range`,
    which would clip a_k R (clip in the reward function).
    Logs: `rewards/NAME/mean` and `/std` are of R; `reward`, `reward_std` and the completions table are of a_k R.
    Raises UserError as AtKGRPOTrainer does.
    """

    def __init__(
        self, *args: Any, coefficients: Mapping[str, float], id_column: str = "prompt_id", **kwargs: Any
    ) -> None:
        table = _Table("coefficients", coefficients, id_column, above_zero=False)
        config = self._look_up_in(table, RLOOTrainer, args, kwargs)
        if config is not None and config.normalize_advantages:
            raise UserError(
                "normalize_advantages = True: expected False, as it divides a_k's size out again, batch by batch; "
                "choose the learning rate instead"
            )
        if config is not None and config.reward_clip_range:
            raise UserError(
                f"reward_clip_range = {config.reward_clip_range}: expected None, as it would clip a_k times the "
                "reward; clip in the reward function"
            )
        super().__init__(*args, **kwargs)

    def _calculate_rewards(self, inputs: list[dict[str, Any]], *args: Any, **kwargs: Any) -> Tensor:
        """Rewards of all processes, (completions, reward functions), NaN where a function gave None."""
        self._raw_rewards: Tensor = super()._calculate_rewards(inputs, *args, **kwargs)
        a = self._table.values[self._table.examples(inputs)].to(self._raw_rewards.device)
        return self._raw_rewards * gather(a)[:, None]

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._log_completion_extra("a_k", self._table.values[self._table.examples(inputs)].tolist())
        output = super()._generate_and_score_completions(inputs)
        logged = self._metrics["train" if self.accelerator.unwrap_model(self.model).training else "eval"]
        for name, rewards in zip(self.reward_func_names, self._raw_rewards.T, strict=True):
            logged[f"rewards/{name}/mean"][-1] = torch.nanmean(rewards).item()
            logged[f"rewards/{name}/std"][-1] = nanstd(rewards).item()
        return output


class AtKDPOTrainer(_WithTable, DPOTrainer):
    """DPO whose pairs have their prompt's own beta (KAPPO eq. 13): @k-DPO.

    beta_eff: prompt id -> KL strength above 0, such as `by_prompt_id("coefficients.csv", "beta_eff")` of
    `kappo calibrate --interface regularization`, which caps it (eq. 149). id_column: the column of the train and eval
    data with the prompts' ids. `args.beta` is not used. Pairs are one right and one wrong completion of the bank.

    loss = -log sigma(beta_eff(x) (chosen log-ratio - rejected log-ratio)); TRL's metrics rewards/* use the same betas.
    Equal betas are DPOTrainer itself. With hard labels no beta has a finite optimum, and TRL's sigmoid loss ignores
    `label_smoothing`. Raises UserError for another `loss_type` or `f_divergence_type`, and as AtKGRPOTrainer does.
    """

    def __init__(self, *args: Any, beta_eff: Mapping[str, float], id_column: str = "prompt_id", **kwargs: Any) -> None:
        table = _Table("beta_eff", beta_eff, id_column, above_zero=True)
        config = self._look_up_in(table, DPOTrainer, args, kwargs)
        for setting, expected in (("loss_type", ["sigmoid"]), ("f_divergence_type", "reverse_kl")):
            value = expected if config is None else getattr(config, setting)
            if value != expected:
                raise UserError(
                    f"{setting} = {value!r}: expected {expected!r}, of which eq. 13 speaks; set it, or use DPOTrainer"
                )
        super().__init__(*args, **kwargs)
        self.data_collator = _CollatorWithPlaces(self.data_collator, self._table)

    def compute_ref_log_probs(self, model: Any, inputs: Mapping[str, Any]) -> Any:
        return super().compute_ref_log_probs(model, {key: inputs[key] for key in inputs if key != PLACE})

    def _compute_loss(self, model: Any, inputs: Mapping[str, Any], return_outputs: bool) -> Any:
        places, common = inputs[PLACE], self.beta
        self.beta: Any = self._table.values.to(places.device)[places]
        try:
            return super()._compute_loss(model, {key: inputs[key] for key in inputs if key != PLACE}, return_outputs)
        finally:
            self.beta = common


@dataclass(frozen=True)
class _CollatorWithPlaces:
    """The trainer's collator, and each pair's place in the table."""

    collate: Callable[[list[dict[str, Any]]], dict[str, Any]]
    table: _Table

    def __call__(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self.collate(examples), PLACE: self.table.examples(examples)}


def at_k_reward(
    reward_func: RewardFunction, pressure: Pressure, bank: Mapping[str, Sequence[float]], id_column: str = "prompt_id"
) -> Callable[..., list[float | None]]:
    """A reward function for GRPOTrainer or RLOOTrainer that gives T of the win rate (KAPPO eq. 12), or S_x (eq. 90).

    reward_func: TRL's kind, (prompts, completions, **columns) -> rewards, not async. pressure: WinRate(k, beta, ties)
    or RawReward(k, beta). bank: prompt id -> rewards of the reference model's completions, at least one, any numbers.
    id_column: the data set's column of prompt ids. The result keeps reward_func's name, under which TRL logs; None and
    NaN stay as they are.

    Use it with the plain trainers. A group with only two distinct rewards is the same for every k once GRPO has
    standardised it: use it for graded rewards, or set scale_rewards=False. At k = 1 win-rate rewards are quantiles, not
    the rewards themselves. Raises UserError for binary pressure, an async function, a bank that the pressure does not
    take; while training for a prompt that the bank lacks.
    """
    if isinstance(pressure, Binary):
        raise UserError(
            "pressure = Binary: a_k in the reward cancels in GRPO (eq. 139); use AtKGRPOTrainer or AtKRLOOTrainer"
        )
    name = get_callable_name(reward_func)
    if isinstance(reward_func, torch.nn.Module | str) or is_async_callable(reward_func):
        raise UserError(f"reward_func {name}: expected an ordinary function, not a model or an async function; wrap it")
    rows = _fitted(pressure, bank)

    @wraps(reward_func)
    def adapted(prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        if id_column not in columns:
            hint = near_misses(id_column, columns)
            raise UserError(f"the data has no column {id_column!r} of prompt ids: {hint}; name it with id_column=")
        rewards = list(reward_func(prompts=prompts, completions=completions, **columns))
        groups: dict[str, list[int]] = {}
        for i, (id, reward) in enumerate(zip(columns[id_column], rewards, strict=True)):
            if reward is not None and not math.isnan(reward):
                groups.setdefault(str(id), []).append(i)
        for id, group in groups.items():
            if id not in rows:
                raise UserError(
                    f"bank: no rewards of prompt {id!r} of column {id_column!r}; sample and grade it, or leave it out"
                )
            values = np.array([[rewards[i] for i in group]], dtype=np.float64)
            for i, value in zip(group, pressure.adapt(values, rows[id], "reward").reward[0].tolist(), strict=True):
                rewards[i] = value
        return rewards

    adapted.__name__ = name
    return adapted


def _fitted(pressure: Pressure, bank: Mapping[str, Sequence[float]]) -> dict[str, Rows]:
    rewards = {str(id): np.asarray(values, dtype=np.float64) for id, values in bank.items()}
    found = {}
    for ids in by_size(rewards).values():
        rows = fit(pressure, "reward", np.stack([rewards[id] for id in ids]), "bank", ids)
        found.update({id: rows.take(np.array([i])) for i, id in enumerate(ids)})
    return found

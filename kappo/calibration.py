"""Reference calibration: a bank's rewards and a pressure -> per-prompt coefficients (KAPPO Algorithms 1, 2). No torch.

`calibrate` makes the coefficients of a stage; `standalone`, `save` and `by_prompt_id` serve trainers of one's own.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kappo import reward_table
from kappo.config import choice_name
from kappo.errors import UserError, near_misses
from kappo.folders import Place, locked
from kappo.pressure.base import BadReward, Interface, Pressure, Rows
from kappo.records import COEFFICIENTS, STANDALONE, read_table, table, write_bytes, write_table

if TYPE_CHECKING:
    from kappo.tracking import Tracker

FILE = "coefficients.parquet"


def fit(pressure: Pressure, interface: Interface, rewards: np.ndarray, where: str, ids: Sequence[str]) -> Rows:
    """`pressure.fit` whose complaints name the file and the prompt. rewards: (P, M)."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            rows = pressure.fit(rewards, interface)
        bad = np.flatnonzero(~(np.isfinite(rows.p_star) & np.isfinite(rows.log_z)))
        if len(bad):
            raise UserError(
                f"{where}: the rewards of prompt {ids[bad[0]]!r} are too large or too far apart for beta = "
                f"{pressure.beta:g}: scale rewards and beta down together"
            )
        return rows
    except BadReward as bad:
        shown = f"reward {bad.value} of prompt {ids[bad.prompt]!r}, completion {bad.completion}"
        way_out = (
            "grade it again" if np.isnan(bad.value) else "choose another pressure (winrate, none), or grade it again"
        )
        raise UserError(f"{where}: {shown}: expected {bad.expected}; {way_out}") from None
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def calibrate(
    place: Place, ids: Sequence[str], rewards: np.ndarray, pressure: Pressure, interface: Interface, tracker: Tracker
) -> None:
    """Write coefficients.parquet of one (pressure, k, beta) into the place."""
    with locked(place) as work:
        if not work:
            return
        rows = fit(pressure, interface, rewards, f"bank {place.upstream.get('bank', '')}", ids)
        with tracker.open():
            tracker.log(0, summary(rows))
        write_table(place.folder / FILE, to_table(ids, rows))
        place.finish([FILE], len(ids))


def summary(rows: Rows) -> dict[str, float]:
    """Means over prompts, and the shares of prompts without and with only successes."""
    total = rows.rewards.shape[1]
    return {
        "prompts": float(len(rows.q)),
        "p_ref": float(rows.q.mean()),
        "a": float(rows.a.mean()),
        "none_right": float((rows.successes == 0).mean()),
        "all_right": float((rows.successes == total).mean()),
    }


def to_table(ids: Sequence[str], rows: Rows) -> pa.Table:
    columns = {
        "prompt_id": list(ids),
        "n": [rows.rewards.shape[1]] * len(ids),
        "successes": rows.successes,
        "q": rows.q,
        "p_star": rows.p_star,
        "a": rows.a,
        "beta_eff": rows.beta_eff,
        "log_z": rows.log_z,
        "bank_rewards": list(rows.rewards),
    }
    return table(columns, COEFFICIENTS)


def read(path: Path, ids: Sequence[str]) -> Rows:
    """Coefficients in the order of the given prompt ids. Raises UserError when a prompt has none."""
    stored = read_table(path, COEFFICIENTS)
    place = {id: i for i, id in enumerate(stored["prompt_id"].to_pylist())}
    missing = [id for id in ids if id not in place]
    if missing:
        raise UserError(
            f"{path} has no coefficients for {len(missing)} prompts, such as {missing[0]!r}: "
            "the bank is of other data; delete this file and calibrate again"
        )
    order = np.array([place[id] for id in ids])
    column = {name: np.asarray(stored[name]) for name in ("successes", "q", "p_star", "a", "beta_eff", "log_z")}
    rewards = np.array(stored["bank_rewards"].to_pylist())
    return Rows(rewards=rewards, **column).take(order)


def standalone(
    bank: reward_table.Bank, pressures: Sequence[Pressure], interface: Interface, where: str, scores: bool
) -> pa.Table:
    """Coefficients of every prompt for every pressure, as one table (records.STANDALONE), prompts in the bank's order.

    bank: rewards by prompt, of any number each. scores: whether the pressures transform rewards; `scores` then holds
    the transformed reward of each of `rewards`, those of the bank; else both are empty. Raises UserError for rewards
    that the pressure does not take.
    """
    order = {id: i for i, id in enumerate(bank)}
    parts = []
    for pressure in pressures:
        made = []
        for ids in reward_table.by_size(bank).values():
            rewards = np.stack([bank[id] for id in ids])
            rows = fit(pressure, interface, rewards, where, ids)
            adapted = list(pressure.adapt(rewards, rows, interface).reward) if scores else [[]] * len(ids)
            about = {
                "pressure": [choice_name(pressure)] * len(ids),
                "interface": [interface] * len(ids),
                "k": [getattr(pressure, "k", 1)] * len(ids),
                "beta": [pressure.beta] * len(ids),
                "scores": adapted,
            }
            coefficients = {name: column for name, column in vars(rows).items() if name != "rewards"}
            counts = {"prompt_id": ids, "n": [rewards.shape[1]] * len(ids)}
            seen = list(rewards) if scores else [[]] * len(ids)
            made.append(table({**counts, **about, **coefficients, "rewards": seen}, STANDALONE))
        joined = pa.concat_tables(made)
        parts.append(joined.take(np.argsort([order[id] for id in joined["prompt_id"].to_pylist()], kind="stable")))
    return pa.concat_tables(parts)


def save(path: Path, rows: pa.Table) -> None:
    """Write as the suffix says: parquet, jsonl, or csv (lists as JSON texts). Raises UserError for another one."""
    if path.suffix == ".parquet":
        write_table(path, rows)
    elif path.suffix == ".jsonl":
        write_bytes(path, "".join(json.dumps(row) + "\n" for row in rows.to_pylist()).encode())
    elif path.suffix == ".csv":
        from pyarrow import csv

        for name in ("rewards", "scores"):
            texts = pa.array([json.dumps(values) for values in rows[name].to_pylist()])
            rows = rows.set_column(rows.column_names.index(name), name, texts)
        sink = io.BytesIO()
        csv.write_csv(rows, sink)
        write_bytes(path, sink.getvalue())
    else:
        raise UserError(f"{path}: expected a name that ends in {', '.join(reward_table.KINDS)}")


def by_prompt_id(path: Path | str, column: str, k: int | None = None, beta: float | None = None) -> dict[str, float]:
    """One column (a, beta_eff, log_z, ...) of a file of `kappo calibrate`, by prompt id.

    k, beta: which of the file's; None where it has only one. Raises UserError when it has none or several such.
    """
    stored = reward_table.load(Path(path), "prompt_id")
    missing = [name for name in ("prompt_id", column) if name not in stored.column_names]
    if missing:
        raise UserError(f"{path} has no column {missing[0]!r}: {near_misses(missing[0], stored.column_names)}")
    kind = stored.schema.field(column).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise UserError(f"{path}, column {column!r}: {kind}; expected numbers, such as a, beta_eff or log_z")
    transformed = {"winrate", "raw_reward"}.intersection(
        stored["pressure"].to_pylist() if "pressure" in stored.column_names else ()
    )
    if column in ("a", "beta_eff") and transformed:
        raise UserError(
            f"{path} is of {transformed.pop()} pressure, which transforms rewards: its {column} is the same for all "
            "prompts; take `scores`, or at_k_reward of kappo.integrations.trl"
        )
    wanted: Mapping[str, float | None] = {"k": k, "beta": beta}
    for name, value in wanted.items():
        if name not in stored.column_names:
            continue
        there = sorted(set(stored[name].to_pylist()))
        if (value is None and len(there) > 1) or (value is not None and value not in there):
            shown = ", ".join(f"{number:g}" for number in there)
            raise UserError(f"{path} holds {name} = {shown}; {name} = {value} was asked for: name one of them")
        keep = np.array([number == (there[0] if value is None else value) for number in stored[name].to_pylist()])
        stored = stored.filter(pa.array(keep))
    ids = [str(id) for id in stored["prompt_id"].to_pylist()]
    if len(set(ids)) < len(ids):
        raise UserError(f"{path} has a prompt twice: expected a file of `kappo calibrate`")
    return dict(zip(ids, map(float, stored[column].to_pylist()), strict=True))

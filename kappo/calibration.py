"""Reference calibration: a bank's rewards and a pressure -> per-prompt coefficients (KAPPO Algorithm 1). No torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from kappo.errors import UserError
from kappo.folders import Place, locked
from kappo.pressure.base import Interface, Pressure, Rows
from kappo.records import COEFFICIENTS, read_table, table, write_table
from kappo.tracking import Tracker

FILE = "coefficients.parquet"


def fit(pressure: Pressure, interface: Interface, rewards: np.ndarray, where: str) -> Rows:
    """`pressure.fit` whose complaints name the file. rewards: (P, M)."""
    if np.isnan(rewards).any():
        row, column = np.argwhere(np.isnan(rewards))[0]
        raise UserError(f"{where}: reward of prompt {row}, completion {column} is NaN; regrade the bank")
    try:
        return pressure.fit(rewards, interface)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def calibrate(
    place: Place, ids: Sequence[str], rewards: np.ndarray, pressure: Pressure, interface: Interface, tracker: Tracker
) -> None:
    """Write coefficients.parquet of one (pressure, k, beta) into the place."""
    with locked(place) as work:
        if not work:
            return
        rows = fit(pressure, interface, rewards, f"bank {place.upstream.get('bank', '')}")
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

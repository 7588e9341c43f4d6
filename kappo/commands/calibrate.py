"""`kappo calibrate`: coefficients of a bank folder, as the workflow makes them, or of anyone's file of rewards.

Imports numpy, scipy and pyarrow only, and for --plot matplotlib.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np

from kappo import calibration, reward_table
from kappo.commands.parsing import command, numbers
from kappo.config import Tracking, build
from kappo.errors import UserError
from kappo.folders import MANIFEST
from kappo.pressure.base import Interface, Pressure
from kappo.records import BANK, by_prompt, read_json, read_table

PRESSURES = {"binary": "Binary", "winrate": "WinRate", "raw_reward": "RawReward", "none": "NoPressure"}
"""Modules of kappo.pressure and their classes; only the one that is asked for is imported, which halves the start."""

OPTIONS = {"ties": "winrate", "estimator": "binary", "zero": "binary"}
"""Options of one pressure alone."""

ABOUT = """Rewards of reference completions -> coefficients a prompt for every k and beta (KAPPO, Algorithms 1, 2).

A file (csv, jsonl, parquet) has one row a completion (columns prompt_id, reward), or one row a prompt (a column of
lists, or columns reward_0, reward_1, ... with --reward-column 'reward_*'). Its coefficients go to one file: prompt_id,
k, beta, n, successes, q, p_star, a (multiply a prompt's rewards by it), beta_eff (or its KL strength becomes this),
log_z; under winrate and raw_reward also `rewards`, the prompt's own, and `scores`, what each becomes.
A bank folder (results/banks/...) without -o gives RESULTS/calibration/, as in the workflow."""


def _parser() -> argparse.ArgumentParser:
    parser = command("calibrate", ABOUT)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("rewards", type=Path, help="a file of rewards, or a bank folder made by `kappo bank`")
    parser.add_argument("--k", default="1", help="values of k, such as 1,2,4")
    parser.add_argument("--beta", default="0.1", help="values of beta, such as 0.1,5e-4")
    parser.add_argument("--pressure", choices=list(PRESSURES), default="binary")
    parser.add_argument(
        "--interface", choices=["reward", "regularization"], default="reward", help="what you will scale"
    )
    parser.add_argument(
        "--ties", choices=["inclusive", "midrank", "exact"], help="winrate: the quantile of equal rewards"
    )
    parser.add_argument(
        "--estimator", choices=["plug_in", "posterior"], help="binary: how a_k comes from the successes"
    )
    parser.add_argument("--zero", choices=["paper", "posterior", "drop"], help="binary: prompts without a success")
    parser.add_argument("--prompt-column", default="prompt_id", help="the file's column of prompt ids")
    parser.add_argument("--reward-column", default="reward", help="its column of rewards or of lists, or 'reward_*'")
    parser.add_argument(
        "-o", "--output", type=Path, help="csv, jsonl or parquet (default: REWARDS-coefficients.csv here)"
    )
    parser.add_argument("--plot", type=Path, metavar="STEM", help="draw the coefficients: STEM.pdf, STEM.png, STEM.csv")
    parser.add_argument("--results", default="results", help="a bank's coefficients go to RESULTS/calibration/")
    parser.add_argument("--cell", type=Path, help="a run's resolved config: its pressure, its tracking")
    return parser


def calibrate(arguments: list[str]) -> None:
    parser = _parser()
    a = parser.parse_args(arguments)
    folder = a.rewards.is_dir()
    if a.cell and not folder:
        raise UserError(f"--cell with {a.rewards}: expected a bank folder; leave --cell out for a file of rewards")
    if folder and a.output is None and a.plot is None:
        _stage(a)
        return
    columns = "prompt_id", "reward"
    if not folder:
        columns = a.prompt_column, a.reward_column
    bank = reward_table.read(a.rewards / "bank.parquet" if folder else a.rewards, *columns)
    output = a.output or Path(f"{a.rewards.stem}-coefficients.csv")
    _check_output(a, output)
    transforms = a.pressure in ("winrate", "raw_reward")
    rows = calibration.standalone(bank, _pressures(a), cast(Interface, a.interface), str(a.rewards), transforms)
    calibration.save(output, rows)
    _print_summary(rows, bank)
    if a.plot:
        from kappo.figures.coefficients import coefficients

        print("\n".join(map(str, coefficients(rows.to_pylist(), a.plot))))
    print(output)


def _check_output(a: argparse.Namespace, output: Path) -> None:
    """Raises UserError, before any work, for files that cannot be written or would overwrite each other."""
    if output.suffix not in reward_table.KINDS:
        raise UserError(f"-o {output}: expected a name that ends in {', '.join(reward_table.KINDS)}")
    if output.exists() and output.samefile(a.rewards):
        raise UserError(f"-o {output} is the file of rewards itself: name another one")
    if a.plot is None:
        return
    if not a.plot.name:
        raise UserError(f"--plot {a.plot}: expected a name without ending, such as coefficients")
    table = a.plot.with_suffix(".csv")
    for taken in (a.rewards, output):
        if table.absolute() == taken.absolute() or (table.exists() and taken.exists() and table.samefile(taken)):
            raise UserError(f"--plot {a.plot} would overwrite {taken} with {table}: name another one")


def _print_summary(rows: Any, bank: reward_table.Bank) -> None:
    sizes = sorted({len(rewards) for rewards in bank.values()})
    each = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    mean = np.mean([rewards.mean() for rewards in bank.values()])
    flat = np.mean([np.ptp(rewards) == 0 for rewards in bank.values()])
    print(f"{len(bank)} prompts, {each} completions each, mean reward {mean:.3f}, {flat:.0%} of prompts constant")
    columns = {name: rows[name].to_numpy() for name in ("k", "beta", "a", "beta_eff")}
    for k, beta in dict.fromkeys(zip(columns["k"], columns["beta"], strict=True)):
        here = (columns["k"] == k) & (columns["beta"] == beta)
        a, beta_eff = columns["a"][here], columns["beta_eff"][here]
        text = (
            f"a: mean {a.mean():.4g}, {a.min():.3g} to {a.max():.3g}   "
            f"beta_eff: median {np.median(beta_eff):.4g}, {beta_eff.min():.3g} to {beta_eff.max():.3g}"
        )
        scores = [row for row, is_here in zip(rows["scores"].to_pylist(), here, strict=True) if is_here and row]
        if scores:
            spread = [max(row) - min(row) for row in scores]
            text = f"scores: best above worst of a prompt {np.mean(spread):.4g} on average, up to {max(spread):.4g}"
        print(f"k={k:<4} beta={beta:<8g} {text}")


def _pressures(a: argparse.Namespace) -> list[Pressure]:
    """One for each beta and k. Raises UserError for options of another pressure."""
    extra = {name: getattr(a, name) for name in OPTIONS if getattr(a, name) is not None}
    for name in extra:
        if OPTIONS[name] != a.pressure:
            raise UserError(
                f"--{name} {extra[name]} with --pressure {a.pressure}: it speaks of {OPTIONS[name]} pressure"
            )
    kind = getattr(import_module(f"kappo.pressure.{a.pressure}"), PRESSURES[a.pressure])
    made: list[Pressure] = []
    for beta in numbers(float, a.beta, "--beta"):
        for k in numbers(int, a.k, "--k"):
            if a.pressure == "none" and k != 1:
                raise UserError(f"--k {k} with --pressure none: nothing would use k; drop one of the two")
            node = {"beta": beta} if a.pressure == "none" else {"k": k, "beta": beta}
            made.append(build(kind, {**node, **extra}))
    return made


def _stage(a: argparse.Namespace) -> None:
    """A bank folder's coefficients, each in a folder of its own under RESULTS/calibration/."""
    from kappo import places
    from kappo.combinations import check
    from kappo.compose import load
    from kappo.tracking import Tracker, progress

    if not (a.rewards / MANIFEST).is_file():
        raise UserError(f"{a.rewards} is no bank folder: expected one such as results/banks/..., or a file of rewards")
    manifest = read_json(a.rewards / MANIFEST, ["id", "kind"])
    if manifest["kind"] != "bank":
        raise UserError(f"{a.rewards} holds a {manifest['kind']}: expected a bank folder, such as results/banks/...")
    ids, rewards = by_prompt(read_table(a.rewards / "bank.parquet", BANK), "reward")
    tracking, study, interface = Tracking("disabled"), "sweep", cast(Interface, a.interface)
    if a.cell:
        cell = check(load(a.cell))
        tracking, study, interface = cell.tracking, cell.study, cast(Any, cell.method).interface
        pressures = [cast(Pressure, cell.pressure)]
    else:
        pressures = _pressures(a)
    made = []
    for pressure in progress(pressures, "calibrate"):
        place = places.calibration_place(a.results, manifest["id"], pressure, interface)
        tracker = Tracker(place.folder, tracking.mode, tracking.project, "calibrate", study, place.slice)
        calibration.calibrate(place, ids, rewards, pressure, interface, tracker)
        made.append(str(place.folder))
    print("\n".join(made))

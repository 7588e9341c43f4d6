"""Plain commands: calibrate, select, evaluate, tables, figures. Each is what the workflow runs, too."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from kappo.errors import UserError


def _parser(verb: str, text: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog=f"kappo {verb}", description=text, allow_abbrev=False)


def _numbers(kind: type, text: str, name: str) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{name} = {text!r}: expected numbers with commas between them, such as 1,2,4") from None


def calibrate(arguments: list[str]) -> None:
    from kappo import calibration, places
    from kappo.compose import load
    from kappo.config import Tracking, build, check
    from kappo.pressure.base import Pressure
    from kappo.pressure.binary import Binary
    from kappo.pressure.none import NoPressure
    from kappo.pressure.raw_reward import RawReward
    from kappo.pressure.winrate import WinRate
    from kappo.records import BANK, by_prompt, read_json, read_table
    from kappo.tracking import Tracker, progress

    parser = _parser("calibrate", "A bank's rewards -> per-prompt coefficients (KAPPO Algorithms 1, 2). No torch.")
    parser.add_argument("bank", type=Path, help="a bank folder made by `kappo bank`")
    parser.add_argument("--k", default="1", help="values of k, such as 1,2,4")
    parser.add_argument("--beta", default="0.1", help="values of beta, such as 0.1,5e-4")
    parser.add_argument("--pressure", choices=["binary", "winrate", "raw_reward", "none"], default="binary")
    parser.add_argument("--interface", choices=["reward", "regularization"], default="reward")
    parser.add_argument("--results", default="results", help="coefficients go to RESULTS/calibration/")
    parser.add_argument("--cell", type=Path, help="a run's resolved config: its pressure, its tracking")
    a = parser.parse_args(arguments)
    manifest = read_json(a.bank / "manifest.json", ["id", "kind"])
    if manifest["kind"] != "bank":
        raise UserError(f"{a.bank} holds a {manifest['kind']}: expected a bank folder, such as results/banks/...")
    bank_id = manifest["id"]
    ids, rewards = by_prompt(read_table(a.bank / "bank.parquet", BANK), "reward")
    tracking, study, interface = Tracking("disabled"), "sweep", a.interface
    pressures: list[Pressure] = []
    kinds = {"none": NoPressure, "binary": Binary, "winrate": WinRate, "raw_reward": RawReward}
    if a.cell:
        cell = check(load(a.cell))
        tracking, study, interface = cell.tracking, cell.study, cast(Any, cell.method).interface
        pressures.append(cast(Pressure, cell.pressure))
    else:
        for beta in _numbers(float, a.beta, "--beta"):
            for k in _numbers(int, a.k, "--k"):
                if a.pressure == "none" and k != 1:
                    raise UserError(f"--k {k} with --pressure none: nothing would use k; drop one of the two")
                node = {"beta": beta} if a.pressure == "none" else {"k": k, "beta": beta}
                pressures.append(build(kinds[a.pressure], node))
    made = []
    for pressure in progress(pressures, "calibrate"):
        place = places.calibration_place(a.results, bank_id, pressure, interface)
        tracker = Tracker(place.folder, tracking.mode, tracking.project, "calibrate", study, place.slice)
        calibration.calibrate(place, ids, rewards, pressure, interface, tracker)
        made.append(str(place.folder))
    print("\n".join(made))


def select(arguments: list[str]) -> None:
    from kappo.evaluation import choose
    from kappo.records import write_json

    parser = _parser("select", "Choose each arm's configuration and checkpoint by validation score at the trained k.")
    parser.add_argument("runs", nargs="+", type=Path, help="run folders")
    parser.add_argument(
        "--arms", nargs="+", default=[], help="for each run the arm that it is set apart as; - for none"
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    a = parser.parse_args(arguments)
    if a.arms and len(a.arms) != len(a.runs):
        raise UserError(f"--arms names {len(a.arms)} arms for {len(a.runs)} runs: expected one for each")
    found = choose(a.runs, ["" if arm == "-" else arm for arm in a.arms])
    chosen = [{**row, "model": os.path.relpath(row["model"], a.output.parent)} for row in found]
    for row in chosen:
        print(
            f"{row['method']} k={row['k']}: step {row['step']} of {row['run']}, validation {100 * row['score']:.1f} %"
        )
    write_json(a.output, chosen)


def compare(arguments: list[str]) -> None:
    from kappo.evaluation import compare as compare_runs
    from kappo.figures.rows import label, write
    from kappo.records import write_text

    parser = _parser("compare", "Validation scores of tuning runs, mean over replicates; * marks each arm's best.")
    parser.add_argument("runs", nargs="+", type=Path, help="run folders")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for tuning.csv and summary.txt")
    a = parser.parse_args(arguments)
    rows = compare_runs(a.runs)
    lines = [
        f"{'*' if row['chosen'] else ' '} {label((row['method'], row['pressure'], row['k'], ''), twin=True):24}"
        f"beta {row['beta']:<6g} lr {row['lr']:<8g} {100 * row['score']:5.1f} %  step {row['step']:.0f}"
        for row in rows
    ]
    sizes = f"validation score at the trained k, best checkpoint, mean over {rows[0]['replicates']} replicates"
    text = "\n".join([*lines, sizes])
    write_text(a.output / "summary.txt", text + "\n")
    write(a.output / "tuning.csv", rows)
    print(text)


def evaluate(arguments: list[str]) -> None:
    from kappo import compose, folders, places
    from kappo.config import check
    from kappo.evaluation import choose, curve, interval
    from kappo.records import SAMPLES, by_prompt, read_json, read_table, write_json

    parser = _parser("evaluate", "Sample a test set with base models and runs (a run: its best validated checkpoint).")
    parser.add_argument("models", nargs="*", type=Path, help="folders of base models and runs")
    parser.add_argument("--set", nargs="*", default=[], help="Hydra overrides, such as data=rules_hard")
    parser.add_argument("--cell", type=Path, help="a resolved config instead of overrides")
    parser.add_argument("--selection", type=Path, help="a file of `kappo select`: evaluate these checkpoints too")
    parser.add_argument("--index", type=Path, help="write what was evaluated, for `kappo tables`")
    a = parser.parse_args(arguments)
    if any(override.startswith("replicate=") for override in a.set):
        raise UserError("replicate is each model's own: its test prompts belong to it; leave the override out")
    config = check(compose.load(a.cell)) if a.cell else compose.compose(["data=rules_id", *a.set])
    data = cast(Any, config.data)
    runs = [m for m in a.models if (m / "validation.json").is_file()]
    models: list[dict[str, Any]] = []
    for folder in (m for m in a.models if m not in runs):
        manifest = read_json(folder / folders.MANIFEST, ["id", "slice", "kind"])
        if manifest["kind"] != "base model":
            raise UserError(
                f"{folder} holds a {manifest['kind']}: expected the folder of a base model or a finished run"
            )
        arm = {"method": "base", "pressure": "none", "k": 0, "arm": "", "kl": 0.0, "rollouts": 0, "bank_rollouts": 0}
        about = {"id": manifest["id"], "model": str(folder), "replicate": manifest["slice"].get("replicate", 0)}
        models.append({**arm, **about})
    selected = read_json(a.selection) if a.selection else []
    if not isinstance(selected, list) or not all(isinstance(row, dict) and "model" in row for row in selected):
        raise UserError(f"{a.selection} is no file of `kappo select`: make it again")
    selected = [{**row, "model": str(a.selection.parent / row["model"])} for row in selected]
    selected += [row for run in runs for row in choose([run])]
    models += [{**row, "id": f"{row['run']}@{row['step']}"} for row in selected]
    if not models:
        raise UserError("nothing to evaluate: name folders of base models or runs, or a --selection")
    entries = []
    for row in models:
        # A replicate has test prompts of its own: those of another one may be among this model's training prompts.
        config = replace(config, replicate=row["replicate"])
        place = places.evaluation_place(config, row["id"])
        if not folders.renewed(place):
            from kappo.evaluation import evaluate as evaluate_model

            evaluate_model(config, place, Path(row["model"]))
        where = os.path.relpath(place.folder, a.index.parent) if a.index else str(place.folder)
        about = {"task": data.task, "split": data.split, "metric": data.metric, "folder": where}
        about |= {"replicate": config.replicate, "run": row.get("run", ""), "step": row.get("step", 0)}
        kept = {name: row[name] for name in ("method", "pressure", "k", "arm", "kl", "rollouts", "bank_rollouts")}
        entries.append({**kept, **about})
        if not a.index:
            rewards = by_prompt(read_table(place.folder / "samples.parquet", SAMPLES), "reward")[1]
            means, lows, highs = interval([curve(rewards, config.eval.k)], config.eval.bootstrap)
            print(row["id"])
            for k, mean, low, high in zip(config.eval.k, means, lows, highs, strict=True):
                print(f"  {data.metric}@{k:<4} {100 * mean:5.1f} % [{100 * low:.1f}, {100 * high:.1f}]")
    if a.index:
        write_json(a.index, entries)


def tables(arguments: list[str]) -> None:
    from kappo.config import build
    from kappo.figures import at_k, mechanism, pressure, training
    from kappo.figures.claims import claims, verdict
    from kappo.figures.rows import write
    from kappo.folders import vouch
    from kappo.records import read_json, write_text
    from kappo.study_file import Claim

    parser = _parser("tables", "Evaluations -> at_k.csv, claims.csv and others, and a printed summary.")
    parser.add_argument("indexes", nargs="+", type=Path, help="index files of `kappo evaluate`")
    parser.add_argument("--training-problems", nargs="*", default=[], type=Path, help="index files of these problems")
    parser.add_argument("--claims", type=Path, help="a JSON list of claims")
    parser.add_argument("--k", default="1,2,4,8,16,32,64,128", help="values of k_eval")
    parser.add_argument("--bootstrap", type=int, default=2000, help="resamples of the intervals")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where runs and coefficients lie")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder")
    a = parser.parse_args(arguments)
    rows = {"at_k": at_k.at_k(a.indexes, _numbers(int, a.k, "--k"), a.bootstrap)}
    text = at_k.summary(rows["at_k"])
    rows["training"] = training.training(a.indexes, a.results)
    rows["coefficients"] = pressure.coefficients(a.indexes, a.results)
    if a.training_problems:
        rows["mechanism"] = mechanism.mechanism(a.training_problems, a.results, a.bootstrap)
    wanted = [build(Claim, node, f"{a.claims}: claims") for node in (read_json(a.claims) if a.claims else [])]
    if wanted:
        rows["claims"] = claims(a.indexes, wanted, a.bootstrap)
        text += "\n\n" + verdict(rows["claims"])
    write_text(a.output / "summary.txt", text + "\n")
    made = [a.output / "summary.txt"]
    for name, table in rows.items():
        if table:
            made.append(a.output / f"{name}.csv")
            write(made[-1], table)
    inputs = [*a.indexes, *a.training_problems, *([a.claims] if a.claims else [])]
    vouch(a.output, "tables", {"k": a.k, "bootstrap": a.bootstrap}, inputs, made)
    print(text)


def figures(arguments: list[str]) -> None:
    from kappo.compose import load
    from kappo.config import check
    from kappo.figures import agreement, at_k, curves, frontier, mechanism, pressure, rollouts, training
    from kappo.figures.rows import read
    from kappo.folders import vouch
    from kappo.tracking import Tracker, progress

    drawers: dict[str, tuple[str, dict[str, type], Callable[..., list[Path]]]] = {
        "at_k": ("at_k", at_k.COLUMNS, curves.at_k),
        "agreement": ("at_k", at_k.COLUMNS, agreement.agreement),
        "agreement_validation": ("at_k", at_k.COLUMNS, agreement.agreement_validation),
        "rollouts": ("at_k", at_k.COLUMNS, rollouts.rollouts),
        "frontier": ("at_k", at_k.COLUMNS, frontier.frontier),
        "pressure": ("coefficients", pressure.COLUMNS, pressure.pressure),
        "gain": ("mechanism", mechanism.COLUMNS, mechanism.gain),
        "prediction": ("mechanism", mechanism.COLUMNS, mechanism.prediction),
        "training": ("training", training.COLUMNS, training.training_curves),
    }
    parser = _parser("figures", "Tables -> figures: PDF, PNG and CSV each.")
    parser.add_argument("tables", type=Path, help="a folder that `kappo tables` made")
    parser.add_argument("--figures", nargs="+", choices=sorted(drawers), default=["at_k"])
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder")
    parser.add_argument("--cell", type=Path, help="a resolved config whose tracking settings are used")
    a = parser.parse_args(arguments)
    made, sources = [], set()
    for name in progress(a.figures, "figures"):
        table, columns, draw = drawers[name]
        sources.add(a.tables / f"{table}.csv")
        made += draw(read(a.tables / f"{table}.csv", columns), a.output)
    if a.cell:
        config = check(load(a.cell))
        with Tracker.of(config, a.output / "tracking", "figures", {"tables": str(a.tables)}).open() as tracker:
            rows = read(a.tables / "at_k.csv", at_k.COLUMNS)
            tracker.log(0, at_k.means(rows))
            for path in sorted(a.tables.glob("*.csv")):
                tracker.log_table(path.stem, path)
            for path in made:
                if path.suffix == ".png":
                    tracker.log_image(path.stem, path)
    vouch(a.output, "figures", {"figures": a.figures}, sorted(sources), made)
    print("\n".join(map(str, made)))


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "calibrate": calibrate,
    "select": select,
    "compare": compare,
    "evaluate": evaluate,
    "tables": tables,
    "figures": figures,
}

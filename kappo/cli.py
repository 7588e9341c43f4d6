"""`kappo <verb>`: the stages as commands. Verbs that need torch load it only when there is work to do."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

from kappo import __version__
from kappo.errors import UserError, near_misses

USAGE = """usage: kappo VERB ...

Stages of one run; they take Hydra overrides such as k=4 beta=0.1, and -m for sweeps:
  base        make the embedded base model
  bank        sample and grade the reference bank
  train       train one run and validate its checkpoints      kappo train -m method=apo k=1,4 train.steps=50

Plain commands:
  calibrate   a bank's rewards -> coefficients for each k and beta
  select      choose each arm's configuration and checkpoint on the validation split
  evaluate    sample a test set with models or runs
  tables      evaluations -> at_k.csv
  figures     at_k.csv -> PDF, PNG, CSV

`kappo VERB --help` explains a verb. A whole study: snakemake --cores 2 --config study=embedded
"""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one verb and exit: 0 done, 2 an error that the user can mend."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if "KAPPO_WORKFLOW" in os.environ:
        _end_with_parent()
    try:
        _dispatch(arguments)
    except UserError as error:
        _fail(error)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("torch", "transformers", "wandb", "matplotlib", "tokenizers"):
            raise
        _fail(UserError(f"this verb needs {error.name}: install it with pip install 'kappo[train]'"))
    except OSError as error:
        from kappo.records import disk_error

        mended = disk_error(error, error.filename or "the results")
        if not isinstance(mended, UserError):
            raise
        _fail(mended)
    except KeyboardInterrupt:
        _fail(UserError("interrupted; run the same command again to go on from the last chunk or checkpoint"))
    sys.exit(0)


def _fail(error: UserError) -> NoReturn:
    print(f"kappo: error: {error}", file=sys.stderr)
    sys.exit(2)


def _dispatch(arguments: list[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return
    if arguments[0] == "--version":
        print(f"kappo {__version__}")
        return
    verb, rest = arguments[0], arguments[1:]
    if verb in STAGES:
        _stage_verb(verb, rest)
    elif verb in COMMANDS:
        COMMANDS[verb](rest)
    else:
        raise UserError(f"no verb {verb!r}: {near_misses(verb, [*STAGES, *COMMANDS])}")


def _end_with_parent() -> None:
    """Leave when the workflow that started this job is gone: every write is atomic, so any moment is a good one."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(75)

    threading.Thread(target=watch, daemon=True).start()


# --- stages of one run ------------------------------------------------------------------------------------------------


def _stage_verb(verb: str, rest: list[str]) -> None:
    from kappo.compose import load
    from kappo.config import check

    if rest[:1] == ["--cell"]:
        if len(rest) != 2:
            raise UserError(f"kappo {verb} --cell takes exactly one file, got {rest[1:]}")
        STAGES[verb](check(load(Path(rest[1]))), ["--cell", rest[1]])
        return
    if any(flag in rest for flag in ("-h", "--help")):
        print(STAGE_HELP.format(verb=verb, summary=(STAGES[verb].__doc__ or "").strip()))
        return
    _hydra_app(verb, rest)


STAGE_HELP = """usage: kappo {verb} [OVERRIDE ...]            one run
       kappo {verb} -m KEY=A,B,C [OVERRIDE ...]   a sweep (hydra/launcher=joblib or submitit_slurm spreads it)
       kappo {verb} --cfg job                 print the resolved config

{summary}

Settings and their defaults stand in conf/; a misspelt or impossible one is refused before anything runs."""


def _hydra_app(verb: str, rest: list[str]) -> None:
    """Check every point of the sweep first, then hand over to Hydra."""
    import hydra
    from omegaconf import DictConfig, OmegaConf

    from kappo import compose
    from kappo.config import check

    overrides = [a for a in rest if not a.startswith("-") and "=" in a]
    strange = [a for a in rest if not a.startswith("-") and "=" not in a and a not in ("job", "hydra", "all")]
    if strange:
        raise UserError(f"{strange[0]!r}: expected an override key=value, such as k=4")
    for point in compose.sweep_points(overrides, sweeping=any(a in ("-m", "--multirun") for a in rest)):
        compose.compose(point)
    compose.register_local_conf()

    def task(node: DictConfig) -> None:
        from hydra.core.hydra_config import HydraConfig

        try:
            config = check(cast(Any, OmegaConf.to_container(node, resolve=True)))
            STAGES[verb](config, list(HydraConfig.get().overrides.task))
        except UserError as error:
            _fail(error)

    sys.argv = [f"kappo {verb}", *rest]
    hydra.main(version_base="1.3", config_path=str(compose.CONF), config_name="config")(task)()


def _command(verb: str, overrides: Sequence[str], *keys: str) -> str:
    """The command that makes an upstream stage: the same settings, less those that it does not know."""
    if overrides[:1] == ["--cell"]:
        return f"snakemake --cores 2, or: kappo {verb} with the settings in {overrides[1]}"
    groups = ("model", "data", "replicate", "paths", *keys)
    kept = [o for o in overrides if o.split("=")[0].split(".")[0].lstrip("+~") in groups]
    return " ".join(["kappo", verb, *kept])


def base(config: Any, overrides: list[str]) -> None:
    """Make the embedded base model: a tiny language model, warmed up on a corpus that guesses its strategy."""
    from kappo import studies

    place = studies.base_place(config)
    if not _finished(place):
        from kappo.training.base import make_base

        make_base(config, place)
    print(place.folder)


def bank(config: Any, overrides: list[str]) -> None:
    """Sample bank.samples_per_prompt completions of every training prompt from the base model, and grade them."""
    from kappo import studies
    from kappo.folders import require

    place, below = studies.bank_place(config), studies.base_place(config)
    if not _finished(place):
        require(below, _command("base", overrides))
        from kappo.reference import make_bank

        make_bank(config, place, below.folder)
    print(place.folder)


def train(config: Any, overrides: list[str]) -> None:
    """Train one run from the base model and its bank, then validate its checkpoints.

    Needs the base model (kappo base) and the bank (kappo bank); coefficients are computed on the spot.
    """
    from kappo import calibration, studies
    from kappo.folders import require
    from kappo.records import BANK, by_prompt, read_json, read_table
    from kappo.tracking import Tracker

    cell = studies.cell(config)
    if not _finished(cell.run):
        require(cell.base, _command("base", overrides))
        require(cell.bank, _command("bank", overrides, "bank", "rollout"))
        ids, rewards = by_prompt(read_table(cell.bank.folder / "bank.parquet", BANK), "reward")
        if not cell.calibration.complete():
            tracker = Tracker.of(config, cell.calibration.folder, "calibrate", cell.calibration.slice)
            calibration.calibrate(cell.calibration, ids, rewards, config.pressure, config.method.interface, tracker)
        problems = [p.id for p in config.data.load(config.replicate)]
        rows = calibration.read(cell.calibration.folder / calibration.FILE, problems)
        from kappo.training.policy import train as train_run

        train_run(config, cell.run, cell.base.folder, rows)
    if "KAPPO_WORKFLOW" not in os.environ:
        _print_validation(read_json(cell.run.folder / "validation.json"))
    print(cell.run.folder)


def _finished(place: Any) -> bool:
    """Renew done.json of finished work without loading torch. Unfinished or locked work is the stage's business."""
    if not place.complete():
        return False
    from kappo.folders import locked

    with locked(place):
        return True


def _print_validation(found: dict[str, Any]) -> None:
    for row in found["checkpoints"]:
        scores = "  ".join(f"{name} {100 * row[name]:.1f} %" for name in row if name.startswith("pass@"))
        print(f"step {row['step']:>5}  validation: {scores}  ({row['n_problems']} problems x {row['n_samples']})")


STAGES: dict[str, Callable[[Any, list[str]], None]] = {"base": base, "bank": bank, "train": train}


# --- plain commands ---------------------------------------------------------------------------------------------------


def _parser(verb: str, text: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog=f"kappo {verb}", description=text, allow_abbrev=False)


def _numbers(kind: type, text: str, name: str) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{name} = {text!r}: expected numbers with commas between them, such as 1,2,4") from None


def calibrate(arguments: list[str]) -> None:
    from kappo import calibration, studies
    from kappo.compose import load
    from kappo.config import Tracking, build, check
    from kappo.pressure import Binary, NoPressure, Pressure
    from kappo.records import BANK, by_prompt, read_json, read_table
    from kappo.tracking import Tracker, progress

    parser = _parser("calibrate", "A bank's rewards -> per-prompt coefficients (KAPPO Algorithm 1). No torch.")
    parser.add_argument("bank", type=Path, help="a bank folder made by `kappo bank`")
    parser.add_argument("--k", default="1", help="values of k, such as 1,2,4")
    parser.add_argument("--beta", default="0.1", help="values of beta, such as 0.1,5e-4")
    parser.add_argument("--pressure", choices=["binary", "none"], default="binary")
    parser.add_argument("--interface", choices=["reward", "regularization"], default="reward")
    parser.add_argument("--results", default="results", help="coefficients go to RESULTS/calibration/")
    parser.add_argument(
        "--cell", type=Path, help="a resolved config whose tracking settings are used (default: no W&B)"
    )
    a = parser.parse_args(arguments)
    bank_id = read_json(a.bank / "manifest.json")["id"]
    ids, rewards = by_prompt(read_table(a.bank / "bank.parquet", BANK), "reward")
    cell = check(load(a.cell)) if a.cell else None
    tracking, study = (cell.tracking, cell.study) if cell else (Tracking("disabled"), "sweep")
    pressures: list[Pressure] = []
    for beta in _numbers(float, a.beta, "--beta"):
        for k in _numbers(int, a.k, "--k"):
            if a.pressure == "none" and k != 1:
                raise UserError(f"--k {k} with --pressure none: nothing would use k; drop one of the two")
            node = {"beta": beta} if a.pressure == "none" else {"k": k, "beta": beta}
            pressures.append(build(NoPressure if a.pressure == "none" else Binary, node))
    made = []
    for pressure in progress(pressures, "calibrate"):
        place = studies.calibration_place(a.results, bank_id, pressure, a.interface)
        tracker = Tracker(place.folder, tracking.mode, tracking.project, "calibrate", study, place.slice)
        calibration.calibrate(place, ids, rewards, pressure, a.interface, tracker)
        made.append(str(place.folder))
    print("\n".join(made))


def select(arguments: list[str]) -> None:
    from kappo.evaluation import choose
    from kappo.records import write_json

    parser = _parser(
        "select", "Choose each arm's configuration and checkpoint by pass@k_train on the validation split."
    )
    parser.add_argument("runs", nargs="+", type=Path, help="run folders")
    parser.add_argument("-o", "--output", type=Path, required=True)
    a = parser.parse_args(arguments)
    chosen = choose(a.runs)
    for row in chosen:
        print(
            f"{row['method']} k={row['k']}: step {row['step']} of {row['run']}, validation {100 * row['score']:.1f} %"
        )
    write_json(a.output, chosen)


def evaluate(arguments: list[str]) -> None:
    from kappo import compose, studies
    from kappo.config import check
    from kappo.evaluation import choose, curve, interval, successes
    from kappo.folders import MANIFEST
    from kappo.records import SAMPLES, read_json, read_table, write_json

    parser = _parser("evaluate", "Sample a test set with base models and runs (a run: its best validated checkpoint).")
    parser.add_argument("models", nargs="*", type=Path, help="folders of base models and runs")
    parser.add_argument("--set", nargs="*", default=[], help="Hydra overrides, such as data=rules_hard replicate=1")
    parser.add_argument("--cell", type=Path, help="a resolved config instead of overrides")
    parser.add_argument("--selection", type=Path, help="a file of `kappo select`: evaluate these checkpoints too")
    parser.add_argument("--index", type=Path, help="write what was evaluated, for `kappo tables`")
    a = parser.parse_args(arguments)
    config = check(compose.load(a.cell)) if a.cell else compose.compose(["data=rules_id", *a.set])
    data = cast(Any, config.data)
    runs = [m for m in a.models if (m / "validation.json").is_file()]
    models: list[dict[str, Any]] = []
    for folder in (m for m in a.models if m not in runs):
        arm = {"method": "base", "pressure": "none", "k": 0, "rollouts": 0, "bank_rollouts": 0}
        models.append({**arm, "id": read_json(folder / MANIFEST)["id"], "model": str(folder)})
    selected = [*(read_json(a.selection) if a.selection else []), *(choose(runs) if runs else [])]
    models += [{**row, "id": f"{row['run']}@{row['step']}"} for row in selected]
    if not models:
        raise UserError("nothing to evaluate: name folders of base models or runs, or a --selection")
    entries = []
    for row in models:
        place = studies.evaluation_place(config, row["id"])
        if not _finished(place):
            from kappo.evaluation import evaluate as evaluate_model

            evaluate_model(config, place, Path(row["model"]))
        about = {"task": data.task, "split": data.split, "replicate": config.replicate, "folder": str(place.folder)}
        kept = {name: row[name] for name in ("method", "pressure", "k", "rollouts", "bank_rollouts")}
        entries.append({**kept, **about})
        if not a.index:
            counts, n = successes(read_table(place.folder / "samples.parquet", SAMPLES))
            means, lows, highs = interval([curve(counts, n, config.eval.k)], config.eval.bootstrap)
            print(row["id"])
            for k, mean, low, high in zip(config.eval.k, means, lows, highs, strict=True):
                print(f"  pass@{k:<4} {100 * mean:5.1f} % [{100 * low:.1f}, {100 * high:.1f}]")
    if a.index:
        write_json(a.index, entries)


def tables(arguments: list[str]) -> None:
    from kappo.figures import at_k
    from kappo.records import write_text

    parser = _parser("tables", "Evaluations -> at_k.csv and a printed summary.")
    parser.add_argument("indexes", nargs="+", type=Path, help="index files of `kappo evaluate`")
    parser.add_argument("--k", default="1,2,4,8,16,32,64,128", help="values of k_eval")
    parser.add_argument("--bootstrap", type=int, default=2000, help="resamples of the intervals")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder")
    a = parser.parse_args(arguments)
    rows = at_k.at_k(a.indexes, _numbers(int, a.k, "--k"), a.bootstrap)
    text = at_k.summary(
        [{**r, "mean": float(r["mean"]), "low": float(r["low"]), "high": float(r["high"])} for r in rows]
    )
    write_text(a.output / "summary.txt", text + "\n")
    at_k.write(a.output / "at_k.csv", rows)
    print(text)


def figures(arguments: list[str]) -> None:
    from kappo.compose import load
    from kappo.config import check
    from kappo.figures import at_k
    from kappo.figures.pass_at_k import pass_at_k
    from kappo.tracking import Tracker, progress

    drawers = {"pass_at_k": pass_at_k}
    parser = _parser("figures", "at_k.csv -> figures: PDF, PNG and CSV each.")
    parser.add_argument("table", type=Path, help="at_k.csv")
    parser.add_argument("--figures", nargs="+", choices=sorted(drawers), default=sorted(drawers))
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder")
    parser.add_argument("--cell", type=Path, help="a resolved config whose tracking settings are used")
    a = parser.parse_args(arguments)
    rows = at_k.read(a.table)
    made = [path for name in progress(a.figures, "figures") for path in drawers[name](rows, a.output)]
    print("\n".join(map(str, made)))
    if a.cell:
        config = check(load(a.cell))
        with Tracker.of(config, a.output / "tracking", "figures", {"table": str(a.table)}).open() as tracker:
            means = {
                f"{r['split']}/{r['method']}-k{r['k']}/pass@{r['k_eval']}": r["mean"]
                for r in rows
                if r["replicate"] == "all"
            }
            tracker.log(0, means)
            for path in made:
                if path.suffix == ".png":
                    tracker.log_image(path.stem, path)


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "calibrate": calibrate,
    "select": select,
    "evaluate": evaluate,
    "tables": tables,
    "figures": figures,
}

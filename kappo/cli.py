"""`kappo <verb>`: the stages as commands. Verbs that need torch load it only when there is work to do."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

from kappo import __version__
from kappo.commands import COMMANDS
from kappo.errors import UserError, near_misses
from kappo.processes import end_with_parent

USAGE = """usage: kappo VERB ...

Stages of one run; they take Hydra overrides such as k=4 beta=0.1, and -m for sweeps:
  base        make the embedded base model
  bank        sample and grade the reference bank
  train       train one run and validate its checkpoints      kappo train -m method=apo k=1,4 train.steps=50

Plain commands:
  calibrate   rewards of a bank or of any file -> coefficients for each k and beta
  select      choose each arm's configuration and checkpoint on the validation split
  compare     validation scores of tuning runs by configuration
  evaluate    sample a test set with models or runs
  tables      evaluations -> at_k.csv, claims.csv and others
  figures     tables -> PDF, PNG, CSV
  theory      the papers' theory figures, fixed points and stated numbers
  show        problems of a data set as a model sees them     kappo show data=math500 n=3 tokenizer=FOLDER
  grade       grade a file of completions again               kappo grade math completions.jsonl -o verdicts.jsonl
  contamination
              test problems that stand in the training data   kappo contamination data=math_train against=math500

`kappo VERB --help` explains a verb. A whole study: snakemake --cores 2 --config study=embedded
"""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one verb and exit: 0 done, 2 an error that the user can mend, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if "KAPPO_WORKFLOW" in os.environ:
        end_with_parent()
    try:
        _dispatch(arguments)
    except UserError as error:
        _fail(error)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("torch", "transformers", "wandb", "matplotlib", "tokenizers"):
            raise
        _fail(UserError(f"this verb needs {error.name}: install it with pip install 'kappo[train]'"))
    except OSError as error:
        _fail(_disk(error))
    except KeyboardInterrupt:
        _fail(UserError("interrupted; run the same command again to go on from the last chunk or checkpoint"), 130)
    sys.exit(0)


def _disk(error: OSError) -> UserError:
    """A disk's fault as a UserError; others are raised."""
    from kappo.records import disk_error

    mended = disk_error(error, error.filename or "the results")
    if not isinstance(mended, UserError):
        raise error
    return mended


def _fail(error: UserError, code: int = 2) -> NoReturn:
    print(f"kappo: error: {error}", file=sys.stderr)
    sys.exit(code)


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


def _stage_verb(verb: str, rest: list[str]) -> None:
    from kappo.combinations import check
    from kappo.compose import load

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
    from kappo.combinations import check

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
        except OSError as error:
            _fail(_disk(error))

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
    from kappo import folders, places

    place = places.base_place(config)
    if not folders.renewed(place):
        from kappo.training.base import make_base

        make_base(config, place)
    print(place.folder)


def bank(config: Any, overrides: list[str]) -> None:
    """Sample bank.samples_per_prompt completions of every training prompt from the base model, and grade them."""
    from kappo import folders, places

    place, below = places.bank_place(config), places.base_place(config)
    if not folders.renewed(place):
        folders.require(below, _command("base", overrides))
        from kappo.reference import make_bank

        make_bank(config, place, below.folder)
    print(place.folder)


def train(config: Any, overrides: list[str]) -> None:
    """Train one run from the base model and its bank, then validate its checkpoints.

    Needs the base model (kappo base) and the bank (kappo bank); coefficients are computed on the spot.
    """
    from kappo import calibration, folders, places
    from kappo.records import BANK, by_prompt, read_json, read_table
    from kappo.tracking import Tracker

    cell = places.cell(config)
    if not folders.renewed(cell.run):
        folders.require(cell.base, _command("base", overrides))
        folders.require(cell.bank, _command("bank", overrides, "bank", "rollout"))
        ids, rewards = by_prompt(read_table(cell.bank.folder / "bank.parquet", BANK), "reward")
        if not cell.calibration.complete():
            tracker = Tracker.of(config, cell.calibration.folder, "calibrate", cell.calibration.slice)
            calibration.calibrate(cell.calibration, ids, rewards, config.pressure, config.method.interface, tracker)
        problems = [p.id for p in config.data.load(config.replicate)]
        rows = calibration.read(cell.calibration.folder / calibration.FILE, problems)
        from kappo.training.run import train as train_run

        train_run(config, cell.run, cell.base.folder, cell.bank.folder, rows)
    if "KAPPO_WORKFLOW" not in os.environ:
        _print_validation(read_json(cell.run.folder / "validation.json"))
    print(cell.run.folder)


def _print_validation(found: dict[str, Any]) -> None:
    for row in found["checkpoints"]:
        scores = "  ".join(f"{name} {100 * row[name]:.1f} %" for name in row if "@" in name)
        size = f"{row['n_problems']} problems x {row['n_samples']}"
        print(f"step {row['step']:>5}  validation: {scores}  KL {row['kl']:.2f} nats  ({size})")


STAGES: dict[str, Callable[[Any, list[str]], None]] = {"base": base, "bank": bank, "train": train}

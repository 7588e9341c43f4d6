"""Choose, compare and evaluate runs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from kappo.commands.parsing import command
from kappo.errors import UserError


def select(arguments: list[str]) -> None:
    from kappo.evaluation import choose
    from kappo.records import write_json

    parser = command("select", "Choose each arm's configuration and checkpoint by validation score at the trained k.")
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

    parser = command("compare", "Validation scores of tuning runs, mean over replicates; * marks each arm's best.")
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
    from kappo.combinations import check
    from kappo.evaluation import choose, curve, interval
    from kappo.records import SAMPLES, by_prompt, read_json, read_table, write_json

    parser = command("evaluate", "Sample a test set with base models and runs (a run: its best validated checkpoint).")
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

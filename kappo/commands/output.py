"""Tables from evaluations, figures from tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kappo.commands.parsing import command, numbers


def tables(arguments: list[str]) -> None:
    from kappo.config import build
    from kappo.figures import at_k, mechanism, pressure, training
    from kappo.figures.claims import claims, verdict
    from kappo.figures.rows import write
    from kappo.folders import vouch
    from kappo.records import read_json, write_text
    from kappo.study_file import Claim

    parser = command("tables", "Evaluations -> at_k.csv, claims.csv and others, and a printed summary.")
    parser.add_argument("indexes", nargs="+", type=Path, help="index files of `kappo evaluate`")
    parser.add_argument("--training-problems", nargs="*", default=[], type=Path, help="index files of these problems")
    parser.add_argument("--claims", type=Path, help="a JSON list of claims")
    parser.add_argument("--k", default="1,2,4,8,16,32,64,128", help="values of k_eval")
    parser.add_argument("--bootstrap", type=int, default=2000, help="resamples of the intervals")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where runs and coefficients lie")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder")
    a = parser.parse_args(arguments)
    rows = {"at_k": at_k.at_k(a.indexes, numbers(int, a.k, "--k"), a.bootstrap)}
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
    from kappo.combinations import check
    from kappo.compose import load
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
    parser = command("figures", "Tables -> figures: PDF, PNG and CSV each.")
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

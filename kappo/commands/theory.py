"""`kappo theory`: the papers' mathematics as tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kappo.commands.parsing import command, numbers
from kappo.config import build
from kappo.figures.rows import Row
from kappo.folders import vouch
from kappo.records import write_text
from kappo.study_file import Theory


def theory(arguments: list[str]) -> None:
    from kappo.figures.theory import banks, estimators, fixed_points, optimum, sharpening
    from kappo.figures.theory.numbers import numbers as stated
    from kappo.figures.theory.numbers import printed
    from kappo.tracking import progress

    parser = command("theory", "KAPPO's figures 1 and 5 to 7, the objectives' optima, fixed points, stated numbers.")
    parser.add_argument("--k", default="1,2,4,8", help="values of k")
    parser.add_argument("--beta", default="0.1,5e-4", help="values of beta that figures 5 to 7 are drawn at")
    parser.add_argument("--samples-per-prompt", type=int, default=30, help="completions a prompt of the bank, M")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for tables/ and figures/")
    a = parser.parse_args(arguments)
    node = {"k": numbers(int, a.k, "--k"), "beta": numbers(float, a.beta, "--beta")}
    settings: Theory = build(Theory, {**node, "samples_per_prompt": a.samples_per_prompt})
    figures, tables = a.output / "figures", a.output / "tables"
    made: list[Path] = []
    drawers = (
        optimum.adaptive_pressure,
        banks.optimal_success,
        banks.bank_error_binary,
        banks.bank_error_winrate,
        estimators.estimators,
        sharpening.four_objectives,
    )
    for draw in progress(drawers, "theory figures"):
        made += draw(settings, figures)
    trained, shared = _trained()
    made += fixed_points.fixed_points(trained, figures) + fixed_points.convergence(trained, figures)
    made += fixed_points.shared_parameters(shared, figures)
    rows = stated(settings)
    made += [_table(tables / "numbers.csv", rows), _table(tables / "fixed_points.csv", trained)]
    text = f"{printed(rows)}\n\n{_summary(trained)}"
    made.append(tables / "summary.txt")
    write_text(made[-1], text + "\n")
    vouch(a.output, "theory", {**node, "samples_per_prompt": a.samples_per_prompt}, [], made)
    print(text)


def _trained() -> tuple[list[Row], list[Row]]:
    import torch

    from kappo.tracking import progress
    from kappo.training import fixed_points, shared_parameters

    torch.set_num_threads(1)
    arms = fixed_points.arms()
    rows = [row for arm in progress(arms, "fixed points") for row in fixed_points.trajectory(arm)]
    return rows, list(shared_parameters.rows())


def _table(path: Path, rows: Sequence[Row]) -> Path:
    from kappo.figures.rows import write
    from kappo.figures.theory.optimum import digits

    write(path, digits(rows))
    return path


def _summary(rows: Sequence[Row]) -> str:
    """The last step of every arm."""
    last = {row["arm"]: row for row in rows}.values()
    head = f"{'fixed points (success probability)':52} {'theory':>8} {'exact':>8} {'sampled':>8} {'p*':>8}"
    lines = [
        f"{row['arm']:52} {row['expected']:8.4f} {row['exact']:8.4f} {row['sampled']:8.4f} {row['optimum']:8.4f}"
        for row in last
    ]
    return "\n".join([head, *lines, "1 and 0 are limits that no finite number of steps reaches"])

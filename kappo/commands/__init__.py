"""Plain commands, one function each: what users call, and what the workflow runs."""

from __future__ import annotations

from collections.abc import Callable

from kappo.commands.calibrate import calibrate
from kappo.commands.contamination import contamination
from kappo.commands.output import figures, tables
from kappo.commands.runs import compare, evaluate, select
from kappo.commands.show import show
from kappo.commands.theory import theory


def _grade(arguments: list[str]) -> None:
    """Imports the graders only when they are asked for: they would add a sixth of a second to every command."""
    from kappo.commands.grade import grade

    grade(arguments)


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "calibrate": calibrate,
    "select": select,
    "compare": compare,
    "evaluate": evaluate,
    "tables": tables,
    "figures": figures,
    "theory": theory,
    "show": show,
    "grade": _grade,
    "contamination": contamination,
}

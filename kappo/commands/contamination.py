"""`kappo contamination`: which test problems stand in the training data."""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from kappo.commands.parsing import command
from kappo.errors import UserError

ABOUT = """Test problems that share a run of n words with training problems.

  kappo contamination data=math_train against=math500 against=aime_2025 against.path=rows/aime_2025

data=, data.*: the training data. Each against= starts a test set; the against.* behind it are its settings. Case and
punctuation do not count, nor does the prompt template; a text of fewer than n words is looked for as a whole.
"same text": of the flagged problems, those whose text is the same but for case and white space."""

Settings = list[str]


def contamination(arguments: list[str]) -> None:
    from kappo.data.contamination import overlaps

    parser = command("contamination", ABOUT)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("overrides", nargs="+", metavar="KEY=VALUE", help="data=, data.*, against=, against.*")
    parser.add_argument("-n", type=int, default=13, help="words in a run (default 13)")
    parser.add_argument(
        "--threshold", type=float, default=0.0, help="flag only where more than this share of the runs is found"
    )
    parser.add_argument("--worst", type=int, default=5, help="pairs to print for each test set (default 5)")
    parser.add_argument("-o", "--output", type=Path, help="csv: all flagged pairs")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when any problem is flagged")
    a = parser.parse_args(arguments)
    if a.n < 1 or not 0 <= a.threshold < 1 or a.worst < 0:
        raise UserError(
            f"-n {a.n} --threshold {a.threshold:g} --worst {a.worst}: expected -n >= 1, 0 <= --threshold < 1, "
            "--worst >= 0"
        )
    if a.output:
        _check_output(a.output)
    common, targets = _split(a.overrides)
    sets = [_against(common, target) for target in targets]
    train = _texts(_config(common), "data")
    pairs: list[dict[str, Any]] = []
    print(f"{'test set':24} {'problems':>8} {'flagged':>8} {'share':>7} {'same text':>10}   runs of {a.n} words")
    shown = []
    for name, test in sets:
        found = [row for row in overlaps(test, train, a.n) if row.share > a.threshold]
        same = sum(row.same for row in found)
        print(f"{name:24} {len(test):8} {len(found):8} {len(found) / len(test):7.1%} {same:10}")
        pairs += [{"test_set": name, **vars(row)} for row in found]
        shown += [(dict(test), row) for row in found[: a.worst]]
    texts = dict(train)
    for asked, row in shown:
        print(f"\n{row.share:.0%} of {row.runs} runs, {row.shared} of them in one: {row.test_id} <- {row.train_id}")
        print(f"  test   {_line(asked[row.test_id])}\n  train  {_line(texts[row.train_id])}")
    if a.output:
        _write(a.output, pairs)
        print(a.output)
    if a.strict and pairs:
        sys.exit(1)


def _split(overrides: list[str]) -> tuple[Settings, list[Settings]]:
    """The training data's overrides, and those of each test set in the words of the validation data."""
    common: Settings = []
    targets: list[Settings] = []
    for override in overrides:
        key, _, value = override.partition("=")
        if key == "against":
            targets.append([f"data@validation={value}"])
        elif key.startswith("against.") and targets:
            targets[-1].append(f"validation.{override.removeprefix('against.')}")
        elif key.startswith("against"):
            raise UserError(f"{override}: expected against=NAME before the settings of a test set")
        else:
            common.append(override)
    if not targets:
        raise UserError("no test set: add one, such as against=math500")
    return common, targets


def _against(common: Settings, target: Settings) -> tuple[str, list[tuple[str, str]]]:
    """A test set's name and texts. Raises UserError in the words of against=."""
    try:
        config = _config([*common, *target])
    except UserError as error:
        raise UserError(_spoken(str(error).replace("data@validation", "against"), "validation", r"\.\w|: ")) from None
    name = target[0].partition("=")[2]
    settings = rf"\.({'|'.join(field.name for field in fields(config.validation))})\b(?!/)"
    try:
        return name, _texts(config, "validation")
    except UserError as error:
        raise UserError(f"against={name}: {_spoken(str(error), 'data', settings)}") from None


def _spoken(message: str, slot: str, behind: str) -> str:
    """The message with against for a slot with this pattern behind it; files of such names stay as they are."""
    return re.sub(rf"(?<![\w/.-]){slot}(?={behind})", "against", message)


def _config(overrides: Settings) -> Any:
    from kappo import compose

    return compose.compose(overrides)


def _texts(config: Any, slot: str) -> list[tuple[str, str]]:
    """(id, bare text) of each problem."""
    data = getattr(config, slot)
    if hasattr(data, "select"):
        selection = data.select()
        return [(p.id, q) for p, q in zip(selection.problems, selection.questions, strict=True)]
    return [(p.id, p.prompt) for p in data.load(config.replicate)]


def _check_output(path: Path) -> None:
    """Raises UserError, before any work, for a file that cannot be written."""
    if os.path.isdir(path):
        raise UserError(f"-o {path} is a folder: expected a csv file to be written, such as -o {path / 'pairs.csv'}")
    folder = next(parent for parent in path.absolute().parents if os.path.exists(parent))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"-o {path}: {folder} is no folder that you may write to; name a file in another one")


def _line(text: str, width: int = 150) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."


def _write(path: Path, pairs: list[dict[str, Any]]) -> None:
    import csv
    import io

    from kappo.records import write_text

    columns = ["test_set", "test_id", "train_id", "share", "shared", "runs", "same"]
    sink = io.StringIO()
    table = csv.DictWriter(sink, columns, lineterminator="\n")
    table.writeheader()
    table.writerows(pairs)
    write_text(path, sink.getvalue())

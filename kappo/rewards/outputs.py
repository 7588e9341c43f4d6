"""Whether what a program says is what was expected: text line by line, values by value."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

TEXT_TOLERANCE = Decimal("1e-6")
VALUE_TOLERANCE = 1e-5
WHOLE_TOLERANCE = 1e-6
EXACT = 2.0**53
NUMBER = re.compile(r"[+-]?(\d{1,400}\.?\d{0,400}|\.\d{1,400})([eE][+-]?\d{1,4})?", re.ASCII)
ZEROS = re.compile(r"[+-]?0[0-9]")
"""Digits that are a text, such as 0101: no number is written so."""
TAG = "kappo"


def same_text(found: str, expected: str) -> bool:
    """Lines agree when blanks at their ends do not count; case and blanks within do.

    A line of numbers agrees number by number: whole ones exactly, others within 1e-6, absolute or relative.
    """
    if found.strip() == expected.strip():
        return True
    ours, theirs = ([line.strip() for line in text.strip().split("\n")] for text in (found, expected))
    return len(ours) == len(theirs) and all(map(_same_line, ours, theirs))


def _same_line(found: str, expected: str) -> bool:
    if found == expected:
        return True
    ours, theirs = found.split(), expected.split()
    return len(ours) == len(theirs) and all(map(_same_number, ours, theirs))


def _same_number(found: str, expected: str) -> bool:
    if not (NUMBER.fullmatch(found) and NUMBER.fullmatch(expected)) or ZEROS.match(expected) or ZEROS.match(found):
        return False
    a, b = Decimal(found), Decimal(expected)
    if a == b:
        return True
    if not re.search(r"[.eE]", expected):
        return False
    return abs(a - b) <= TEXT_TOLERANCE * max(Decimal(1), abs(b))


def tagged(value: Any) -> Any:
    """A trusted Python value in the notation of `inside.values.encode`."""
    if isinstance(value, dict):
        return {TAG: "dict", "items": [[tagged(k), tagged(v)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return [tagged(v) for v in value]
    if isinstance(value, set | frozenset):
        return {TAG: "set", "items": [tagged(v) for v in value]}
    return value


def same_value(found: Any, expected: Any) -> bool:
    """Both in tagged notation. Numbers as Python compares them, True == 1; where a float is expected, within 1e-5,
    absolute or relative; a float for a whole number within 1e-6. Sets and dicts in any order, empty linked lists and
    trees are None.
    """
    if isinstance(found, dict) and found.get(TAG) == "int":
        found = int(found["items"], 16)
    if isinstance(found, dict) != isinstance(expected, dict):
        return _empty(found) and _empty(expected)
    if isinstance(expected, dict):
        return _same_tagged(found, expected)
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(same_value, found, expected))
    if isinstance(found, list):
        return False
    if isinstance(expected, float) or isinstance(found, float):
        return _same_float(found, expected)
    return bool(found == expected)


def _same_tagged(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    ours, theirs = found.get("items"), expected["items"]
    if found.get(TAG) != expected[TAG] or not isinstance(ours, list) or len(ours) != len(theirs):
        return False
    if expected[TAG] in ("list_node", "tree_node"):
        return same_value(ours, theirs)
    return all(same_value(a, b) for a, b in zip(sorted(ours, key=_order), sorted(theirs, key=_order), strict=True))


def _order(value: Any) -> tuple[Any, ...]:
    """A key that puts equal values in the same place, whatever their types."""
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, list):
        return (1, [_order(v) for v in value])
    if isinstance(value, dict) and isinstance(value.get("items"), list):
        return (2, sorted(map(_order, value["items"])))
    return (3, repr(value))


def _empty(value: Any) -> bool:
    return value is None or (
        isinstance(value, dict) and value.get(TAG) in ("list_node", "tree_node") and not value.get("items")
    )


def _same_float(found: Any, expected: Any) -> bool:
    if not isinstance(found, int | float) or not isinstance(expected, int | float):
        return False
    try:
        a, b = float(found), float(expected)
    except OverflowError:
        return False
    if isinstance(expected, int):
        return bool(found == expected) or (abs(b) < EXACT and abs(a - b) <= WHOLE_TOLERANCE)
    return a == b or (math.isfinite(a) and math.isfinite(b) and abs(a - b) <= VALUE_TOLERANCE * max(1.0, abs(b)))

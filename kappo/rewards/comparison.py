"""Do two answers of known shape say the same? Formulas are left to an oracle, the rest is decided here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from kappo.rewards import numerals
from kappo.rewards.notation import words
from kappo.rewards.structure import ANOTHER, ASSIGNED, LISTS, NAME, Shape, interval, regrouped

CHOSEN = re.compile(r"([A-Z])(?:[.):](.*))?", re.DOTALL)
FLIPPED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "=": "=", "\\ne": "\\ne", "\\equiv": "\\equiv"}


class Undecided(Exception):
    """Only values of formulas can tell."""


class Oracle(Protocol):
    """What is known of formulas."""

    def same(self, gold: Shape, found: Shape) -> bool: ...

    def factor_sign(self, gold: Shape, found: Shape) -> int:
        """Sign of the constant factor between the differences of two relations' sides, 0 where there is none."""
        ...


class NoFormulas:
    """The oracle that knows only what can be seen: equal texts are equal."""

    def same(self, gold: Shape, found: Shape) -> bool:
        raise Undecided

    def factor_sign(self, gold: Shape, found: Shape) -> int:
        raise Undecided


def equal(gold: Shape, found: Shape, oracle: Oracle) -> bool:
    """Is the found answer the gold one? Raises Undecided and what the oracle raises."""
    if not found.text:
        return False
    if gold.text == found.text and gold.unit in ("", found.unit):
        return True
    if "choice" in (gold.kind, found.kind) or (_letter(gold) and _letter(found)):
        return _choices(gold, found, oracle)
    if "relation" in (gold.kind, found.kind):
        return _relations(gold, found, oracle)
    if "text" in (gold.kind, found.kind):
        return bool(words(gold.text)) and words(gold.text) == words(found.text)
    if gold.name and found.name and gold.name != found.name:
        return False
    if gold.quantity and found.quantity:
        return numerals.equal(gold.quantity, found.quantity)
    if {gold.kind, found.kind} <= {"number", "formula"}:
        return _units_agree(gold, found) and oracle.same(gold, found)
    return _composite(gold, found, oracle)


def _choices(gold: Shape, found: Shape, oracle: Oracle) -> bool:
    """A choice's letter counts where both name one, else what the letter stands for."""
    letters = [shape.name if shape.kind == "choice" else _letter(shape) for shape in (gold, found)]
    values = [shape.items[0] if shape.kind == "choice" and shape.items else shape for shape in (gold, found)]
    if letters[0] and letters[1]:
        same = letters[0] == letters[1]
        return same and (not (gold.items and found.items) or equal(values[0], values[1], oracle))
    return "choice" not in (values[0].kind, values[1].kind) and equal(values[0], values[1], oracle)


def _letter(shape: Shape) -> str:
    """The letter of an answer such as `C` or `C. 15`."""
    found = CHOSEN.fullmatch(shape.text)
    return found[1] if found and not ANOTHER.match(found[2] or "") else ""


def _units_agree(gold: Shape, found: Shape) -> bool:
    ours, theirs = (shape.quantity.unit if shape.quantity else shape.unit for shape in (gold, found))
    return not ours or not theirs or ours == theirs


def _composite(gold: Shape, found: Shape, oracle: Oracle) -> bool:
    kinds = {gold.kind, found.kind}
    for one, other in ((gold, found), (found, gold)):
        if one.kind == "number" and other.kind in LISTS and (several := regrouped(one)):
            return _unordered(several.items, other.items, oracle)
        if one.kind == "set" and len(one.items) == 1 and other.kind in ("number", "formula"):
            return equal(one.items[0], other, oracle) if one is gold else equal(other, one.items[0], oracle)
        if one.kind == "time" and other.quantity and ":" not in one.text:
            return other.quantity.value == int(one.marks[0])
        if one.kind == "time" and other.kind in ("ratio", "number") and not one.marks[2]:
            hours, minutes = (Shape("number", mark, quantity=numerals.read(mark)) for mark in one.marks[:2])
            parts = Shape("ratio", one.text, (hours, minutes))
            return _composite(parts, other, oracle) if one is gold else _composite(other, parts, oracle)
        if one.kind == "base" and other.kind in ("number", "formula"):
            kept = one is gold or one.marks[1] == "10" or "base" not in one.text
            return kept and one.marks[0] == other.text.lstrip("0")
        if one.kind == "ratio" and other.kind == "number" and len(one.items) == 2:
            return _proportional(one.items, other)
        if one.kind == "record" and other.kind in ("tuple", "list"):
            values = [value for _, value in sorted(zip(one.marks, one.items, strict=True), key=lambda pair: pair[0])]
            return _ordered(values, other.items, oracle) if one is gold else _ordered(other.items, values, oracle)
    if found.kind == "list" and gold.kind in ("number", "formula"):
        return all(equal(gold, item, oracle) for item in found.items)
    if kinds <= {"list", "set", "union"}:
        distinct = gold.kind == found.kind == "set"
        ours, theirs = (_distinct(shape.items) if distinct else shape.items for shape in (gold, found))
        return _unordered(ours, theirs, oracle)
    if kinds <= {"list", "sequence", "tuple"} and (gold.kind != "tuple" or found.kind != "tuple"):
        plain = all(
            shape.kind != "tuple" or shape.marks == ("(", ")") or (shape.marks == ("[", "]") and len(shape.items) > 2)
            for shape in (gold, found)
        )
        return plain and _ordered(gold.items, found.items, oracle)
    if kinds == {"matrix", "tuple"}:
        return _vector(gold, found, oracle)
    if gold.kind != found.kind:
        return False
    return _alike(gold, found, oracle)


def _alike(gold: Shape, found: Shape, oracle: Oracle) -> bool:
    """Two shapes of one kind with ordered parts."""
    if gold.kind == "time":
        return gold.marks[:2] == found.marks[:2] and (gold.marks[2] in ("", found.marks[2]) or not found.marks[2])
    if gold.kind == "base":
        return gold.marks == found.marks
    if gold.kind == "tuple":
        sides = len(gold.items) == 2 and gold.marks != found.marks
        return (
            not sides
            and {gold.marks, found.marks} <= {("(", ")"), ("[", "]"), gold.marks}
            and _ordered(gold.items, found.items, oracle)
        )
    if gold.kind == "record":
        theirs = dict(zip(found.marks, found.items, strict=True))
        return {*gold.marks} == {*theirs} and all(
            equal(item, theirs[name], oracle) for name, item in zip(gold.marks, gold.items, strict=True)
        )
    if gold.kind == "ratio" and len(gold.items) == len(found.items):
        first, other = gold.items[0].quantity, found.items[0].quantity
        if first and other and first.value and other.value:
            scale = first.value / other.value
            return all(
                a.quantity and b.quantity and a.quantity.value == b.quantity.value * scale
                for a, b in zip(gold.items, found.items, strict=True)
            )
    return _ordered(gold.items, found.items, oracle)


def _proportional(ratio: Sequence[Shape], number: Shape) -> bool:
    top, bottom = ratio[0].quantity, ratio[1].quantity
    return bool(top and bottom and number.quantity and top.value == number.quantity.value * bottom.value)


def _vector(gold: Shape, found: Shape, oracle: Oracle) -> bool:
    def flat(shape: Shape) -> tuple[Shape, ...] | None:
        if shape.kind == "tuple":
            return shape.items if shape.marks in (("(", ")"), ("[", "]")) else None
        cells = tuple(cell for row in shape.items for cell in row.items)
        return cells if len(shape.items) == 1 or len(cells) == len(shape.items) else None

    ours, theirs = flat(gold), flat(found)
    return bool(ours and theirs) and _ordered(ours or (), theirs or (), oracle)


def _distinct(items: Sequence[Shape]) -> tuple[Shape, ...]:
    return tuple({item.text: item for item in items}.values())


def _ordered(gold: Sequence[Shape], found: Sequence[Shape], oracle: Oracle) -> bool:
    return len(gold) == len(found) and all(equal(a, b, oracle) for a, b in zip(gold, found, strict=True))


def _unordered(gold: Sequence[Shape], found: Sequence[Shape], oracle: Oracle) -> bool:
    if len(gold) != len(found):
        return False
    left = list(found)
    for item in gold:
        place = next((i for i, other in enumerate(left) if item.text == other.text), None)
        if place is None:
            place = next((i for i, other in enumerate(left) if equal(item, other, oracle)), None)
        if place is None:
            return False
        left.pop(place)
    return True


def _relations(gold: Shape, found: Shape, oracle: Oracle) -> bool:
    if gold.kind != found.kind:
        relation, other = (gold, found) if gold.kind == "relation" else (found, gold)
        if other.kind in ("tuple", "union") and (span := interval(relation)):
            return equal(span, other, oracle) if relation is gold else equal(other, span, oracle)
        value = _assigned(relation, oracle, names_only=relation is gold)
        if value is None or (other.name and other.name != relation.items[0].text):
            return False
        return equal(value, other, oracle) if relation is gold else equal(other, value, oracle)
    if {*gold.marks} == {*found.marks} == {"="}:
        return _equations(gold, found, oracle)
    spans = interval(gold), interval(found)
    if spans[0] and spans[1] and spans[0].name == spans[1].name:
        return equal(spans[0], spans[1], oracle)
    for items, signs in ((found.items, found.marks), (found.items[::-1], tuple(map(_flip, found.marks[::-1])))):
        if gold.marks == signs and len(gold.marks) > 1:
            return _ordered(gold.items, items, oracle)
        if gold.marks == signs and (sign := oracle.factor_sign(gold, Shape("relation", "", items, signs))):
            return sign > 0 or signs == ("\\ne",)
    return False


def _flip(sign: str) -> str:
    return FLIPPED.get(sign, "")


def _equations(gold: Shape, found: Shape, oracle: Oracle) -> bool:
    names = [shape.items[0].text if ASSIGNED.fullmatch(shape.items[0].text) else "" for shape in (gold, found)]
    if names[0] and names[0] == names[1]:
        return equal(gold.items[-1], found.items[-1], oracle)
    if len(gold.marks) > 1 or len(found.marks) > 1:
        return _ordered(gold.items, found.items, oracle)
    if any(side.kind not in ("number", "formula") for shape in (gold, found) for side in shape.items):
        return _ordered(gold.items, found.items, oracle)
    return oracle.factor_sign(gold, found) != 0


def _assigned(relation: Shape, oracle: Oracle, names_only: bool) -> Shape | None:
    """The value that `name = value` or an equality of numbers states; None where a relation states none."""
    if {*relation.marks} != {"="}:
        return None
    first, last = relation.items[0], relation.items[-1]
    if ASSIGNED.fullmatch(first.text):
        return None if names_only and re.fullmatch(r"[A-Za-z]+", last.text) else last
    if last.kind == "formula" and NAME.fullmatch(last.text) and first.kind == "number":
        return first
    if any(re.search(r"(?<!\\)\b[A-Za-df-hj-z]\b", side.text) for side in relation.items):
        return None
    pairs = zip(relation.items, relation.items[1:], strict=False)
    return last if all(equal(a, b, oracle) for a, b in pairs) else None

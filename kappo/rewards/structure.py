"""What an answer is made of: numbers, formulas, words; lists, tuples, sets, matrices, relations of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from kappo.rewards import numerals
from kappo.rewards.expressions import FUNCTIONS
from kappo.rewards.notation import split, wrapped
from kappo.rewards.numerals import Quantity
from kappo.rewards.units import counted, split_unit

MOST_ITEMS = 200
DEEPEST = 20
RELATIONS = {"=", "<", ">", "\\le", "\\ge", "\\ne", "\\approx", "\\equiv", "\\sim", "\\in", "\\notin", "\\subset"}
LETTER = r"(?:[A-Za-z]|\\(?:alpha|beta|gamma|delta|epsilon|theta|lambda|mu|phi|rho|sigma|tau|omega|psi|kappa|eta))"
SUBSCRIPT = r"(?:_(?:[A-Za-z0-9]|\{[^{}]*\}))?'*"
NAME = re.compile(rf"{LETTER}{SUBSCRIPT}")
ABSOLUTE = re.compile(rf"\|({LETTER}{SUBSCRIPT})\|")
ASSIGNED = re.compile(
    rf"{LETTER}{SUBSCRIPT}(?:\([^()]*\))?|[A-Za-z ]+|\\text\{{[^{{}}]*\}}|\|[A-Z]{{1,2}}\||\\#[A-Z]|\[[A-Z]+\]"
    r"|\\(?:overline|vec|hat|mathbf)\{[^{}]*\}"
    rf"|\([A-Za-z](?:, ?[A-Za-z])*\)|m?\\angle ?[A-Z]+|{LETTER}(?:[+:]{LETTER})+"
    rf"|\\(?:sin|cos|tan|cot|sec|csc) ?(?:{LETTER}|\({LETTER}\)|\\angle ?[A-Z]+)"
)
TIME = re.compile(r"([0-9]{1,2}):([0-5][0-9])(?: ?(?:\\text\{)? ?([AaPp])\.? ?[Mm]\.?\}?)?")
HOUR = re.compile(r"([0-9]{1,2}) ?(?:\\text\{)? ?([AaPp])\.? ?[Mm]\.?\}?")
TRIG = re.compile("|".join(name for name in FUNCTIONS if name.startswith(("sin", "cos", "tan", "cot", "sec", "csc"))))
LABELLED = re.compile(
    r"\\choice\{(?P<letter>[A-Z])\}(?P<after>.*)|\((?P<bare>[A-Z])\)[.:]? ?(?P<plain>(?:-?[0-9$]|-?\\frac).*)?"
    r"|(?P<before>.*)\\choice\{(?P<last>[A-Z])\}",
    re.DOTALL,
)
ANOTHER = re.compile(
    r"\s*(?:[,;/]|(?:\\text\{)?\s*\\?(?:or|and|nor|not|but|if|is|was|maybe|unless|perhaps|probably|possibly)\b)"
)
"""How what stands behind a choice goes on where it is not what the choice stands for."""
LISTS = ("list", "sequence")


@dataclass(frozen=True)
class Shape:
    """kind: number | formula | text | list | sequence | tuple | set | union | difference | relation | record |
    matrix | ratio | time | base | choice (a letter in name, with or without what it stands for).
    marks: a tuple's brackets, a relation's signs, a record's names, a base.
    """

    kind: str
    text: str
    items: tuple[Shape, ...] = ()
    marks: tuple[str, ...] = ()
    quantity: Quantity | None = None
    unit: str = ""
    name: str = ""


def read(text: str, depth: int = 0) -> Shape:
    """The shape of a canonical answer. What is nothing else is a formula, readable or not."""
    text = text.strip(" ;")
    if depth > DEEPEST:
        return Shape("formula", text)
    readers: tuple[Callable[[str, int], Shape | None], ...] = (
        _choice, _time, _number, _list, _relation, _union, _matrix, _bracketed, _ratio, _based, _both_signs, _words,
    )  # fmt: skip
    for reader in readers:
        if shape := reader(text, depth):
            return shape
    if TRIG.search(text):
        return Shape("formula", text)
    text, unit = split_unit(text)
    scale, unit = counted(unit)
    return Shape("formula", f"({text})10^{{{scale}}}" if scale else text.replace("°", ""), unit=unit)


def _choice(text: str, depth: int) -> Shape | None:
    found = LABELLED.fullmatch(text)
    if not found:
        return None
    rest = (found["after"] or found["plain"] or found["before"] or "").strip(" =:")
    if "\\choice" in rest or ANOTHER.match(rest):
        return None
    letter = found["letter"] or found["bare"] or found["last"]
    return Shape("choice", text, (read(rest, depth + 1),) if rest else (), name=letter)


def _time(text: str, depth: int) -> Shape | None:
    if hour := HOUR.fullmatch(text):
        return Shape("time", text, marks=(str(int(hour[1])), "00", hour[2].lower()))
    found = TIME.fullmatch(text)
    return Shape("time", text, marks=(str(int(found[1])), found[2], (found[3] or "").lower())) if found else None


def _number(text: str, depth: int) -> Shape | None:
    quantity = numerals.read(text)
    return Shape("number", text, quantity=quantity) if quantity else None


def _list(text: str, depth: int, grouping: bool = True) -> Shape | None:
    pieces, joints = split(text, {",", ";", "\\and", "\\or"}, grouping)
    pieces = [piece for piece in pieces if piece]
    if not 2 <= len(pieces) <= MOST_ITEMS or (text.startswith("\\text") and wrapped(text.removeprefix("\\text"))):
        return None
    items = [read(piece, depth + 1) for piece in pieces]
    dotted = any(item.text.strip(". ") == "\\dots" for item in items)
    names = [item.items[0].text if item.kind == "relation" and item.marks == ("=",) else "" for item in items]
    if all(names) and all(ASSIGNED.fullmatch(name) for name in names) and len(set(names)) == len(names):
        return Shape("record", text, tuple(item.items[1] for item in items), tuple(names))
    if names[0] and not any(name not in ("", names[0]) for name in names):
        items = [item.items[1] if name else item for item, name in zip(items, names, strict=True)]
        return Shape("sequence" if dotted else "list", text, _flat(items), name=names[0])
    intervals = [interval(item) for item in items]
    if joints == ["\\and"] and (both := _both(text, intervals)):
        return both
    if all(intervals) and len({item.name for item in intervals if item}) == 1:
        return Shape("union", text, _flat([item for item in intervals if item]), name=items[0].name)
    return Shape("sequence" if dotted else "list", text, _flat(items))


def _both(text: str, spans: list[Shape | None]) -> Shape | None:
    """What a bound from below and a bound from above hold together, where the two overlap."""
    if not all(span and span.kind == "tuple" for span in spans):
        return None
    low, high = sorted((span for span in spans if span), key=lambda span: span.items[0].text == "-\\infty")
    ends = low.items[0].quantity, high.items[1].quantity
    if low.name != high.name or low.items[1].text != "\\infty" or high.items[0].text != "-\\infty":
        return None
    if not ends[0] or not ends[1] or ends[0].value >= ends[1].value:
        return None
    return Shape("tuple", text, (low.items[0], high.items[1]), (low.marks[0], high.marks[1]), name=low.name)


def _flat(items: list[Shape]) -> tuple[Shape, ...]:
    """Items, with both values of a plus-minus and the parts of a union in their place."""
    parts: list[Shape] = []
    for item in items:
        parts += item.items if item.kind == "union" or (item.kind == "list" and "\\pm" in item.text) else [item]
    return tuple(parts)


def _relation(text: str, depth: int) -> Shape | None:
    sides, signs = split(text, RELATIONS)
    if signs == ["\\approx"] and not sides[0]:
        return read(sides[1], depth + 1)
    if not signs or not all(sides):
        return None
    if "\\approx" in signs:
        place = signs.index("\\approx")
        exact = place > 0 or not ASSIGNED.fullmatch(sides[0])
        return read(sides[place] if exact else sides[place + 1], depth + 1)
    if signs == ["\\in"]:
        return replace(read(sides[1], depth + 1), name=sides[0])
    return Shape("relation", text, tuple(read(side, depth + 1) for side in sides), tuple(signs))


def _union(text: str, depth: int) -> Shape | None:
    for kind, separators in (("union", {"\\cup"}), ("difference", {"\\setminus", "\\backslash"})):
        pieces, signs = split(text, separators)
        if signs:
            items = tuple(read(piece, depth + 1) for piece in pieces)
            return _punctured(text, items) or Shape(kind, text, items)
    return Shape("tuple", text, (read("-\\infty"), read("\\infty")), ("(", ")")) if text == "\\reals" else None


def _punctured(text: str, items: tuple[Shape, ...]) -> Shape | None:
    """\\reals without some numbers, as a union of intervals."""
    if len(items) != 2 or items[0].text != "\\reals" or items[1].kind != "set":
        return None
    points = [item for item in items[1].items if item.quantity]
    if len(points) != len(items[1].items):
        return None
    points.sort(key=lambda item: item.quantity.value if item.quantity else 0)
    ends = [read("-\\infty"), *points, read("\\infty")]
    spans = [Shape("tuple", text, pair, ("(", ")")) for pair in itertools.pairwise(ends)]
    return Shape("union", text, tuple(spans))


def _bracketed(text: str, depth: int) -> Shape | None:
    found = wrapped(text)
    if not found:
        return None
    opening, inside, closing = found
    if opening in ("\\lfloor", "\\lceil"):
        return None
    if opening == "{" and (number := _number(inside, depth)):
        return number
    curly = opening in ("{", "\\{")
    if opening == "\\{":
        condition, bars = split(inside, {"\\mid", "|", ":"})
        if len(bars) == 1:
            shape = read(condition[1], depth + 1)
            return interval(shape) or shape
    pieces, _ = split(inside, {",", ";"} | ({"\\and", "\\or"} if curly else set()), grouping=False)
    if len(pieces) == 1 and opening != "\\{":
        return read(inside, depth + 1)
    if len(pieces) > MOST_ITEMS:
        return None
    items = _flat([read(piece, depth + 1) for piece in pieces if piece])
    if curly:
        return Shape("set", text, items)
    angle = {"\\langle": "(", "\\rangle": ")"}
    return Shape("tuple", text, items, (angle.get(opening, opening), angle.get(closing, closing)))


def _matrix(text: str, depth: int) -> Shape | None:
    before, begin, _ = text.partition("\\begin{matrix}")
    found = wrapped(text[len(before) :]) if begin else None
    if not found or found[0] != "\\begin{matrix}":
        return None
    rows = [row for row in split(found[1], {"\\\\"})[0] if row]
    cells = [split(row.replace("\\hline", ""), {"&"})[0] for row in rows]
    if len({len(row) for row in cells}) != 1 or sum(map(len, cells)) > MOST_ITEMS:
        return None
    if before:
        factor = "-1" if before == "-" else re.sub(r"\\(?:cdot|times) ?$", "", before)
        cells = [[f"({factor})({cell})" for cell in row] for row in cells]
    lines = (Shape("row", "&".join(row), tuple(read(cell, depth + 1) for cell in row)) for row in cells)
    return Shape("matrix", text, tuple(lines))


def _ratio(text: str, depth: int) -> Shape | None:
    pieces, signs = split(text, {":"})
    return Shape("ratio", text, tuple(read(piece, depth + 1) for piece in pieces)) if signs and all(pieces) else None


def _based(text: str, depth: int) -> Shape | None:
    return Shape("base", text, marks=marks) if (marks := numerals.based(text)) else None


def _both_signs(text: str, depth: int) -> Shape | None:
    if "\\pm" not in text and "\\mp" not in text:
        return None
    plus, minus = (
        read(text.replace("\\pm", a).replace("\\mp", b).removeprefix("+").strip(), depth + 1) for a, b in ("+-", "-+")
    )
    return Shape("list", text, (plus, minus))


def _words(text: str, depth: int) -> Shape | None:
    rest = re.sub(r"\\text\{[^{}]*\}", "", text)
    held = "\\text{" in text and not re.search(r"[0-9\\=+<>^]", rest)
    bare = re.fullmatch(r"[A-Za-z.' -]*[A-Za-z]{2,} [A-Za-z.' -]*[A-Za-z]{2,}[A-Za-z.' -]*", text)
    return Shape("text", text) if held or (bare and not TRIG.search(text)) else None


def interval(shape: Shape) -> Shape | None:
    """A relation between one letter and bounds as an interval, or as a union where it excludes a point."""
    if shape.kind != "relation":
        return None
    places = [place for place, side in enumerate(shape.items) if NAME.fullmatch(side.text)]
    signs, sides = shape.marks, shape.items
    if len(sides) == 2 and (found := ABSOLUTE.fullmatch(sides[0].text)) and signs[0] in ("<", "\\le", ">", "\\ge"):
        low, high, strict = read(f"-({sides[1].text})"), sides[1], signs[0] in "<>"
        if signs[0] in ("<", "\\le"):
            return _span(shape, found[1], low, high, strict, strict)
        parts = (
            _span(shape, found[1], read("-\\infty"), low, True, strict),
            _span(shape, found[1], high, read("\\infty"), strict, True),
        )
        return Shape("union", shape.text, parts, name=found[1])
    if len(sides) == 3 and places == [1] and signs[0] in ("<", "\\le", ">", "\\ge"):
        up = signs[0] in ("<", "\\le")
        if {signs[0], signs[1]} - ({"<", "\\le"} if up else {">", "\\ge"}):
            return None
        low, high = (sides[0], sides[2]) if up else (sides[2], sides[0])
        first, last = signs if up else signs[::-1]
        return _span(shape, sides[1].text, low, high, first in "<>", last in "<>")
    if len(sides) != 2 or not places or NAME.fullmatch(sides[1 - places[0]].text):
        return None
    name, bound = sides[places[0]].text, sides[1 - places[0]]
    if re.search(rf"(?<![A-Za-z\\]){re.escape(name)}(?![A-Za-z])", bound.text):
        return None
    minus, plus, strict = read("-\\infty"), read("\\infty"), signs[0] in "<>"
    if signs[0] == "\\ne":
        parts = (_span(shape, name, minus, bound, True, True), _span(shape, name, bound, plus, True, True))
        return Shape("union", shape.text, parts, name=name)
    if signs[0] not in ("<", ">", "\\le", "\\ge"):
        return None
    below = (signs[0] in ("<", "\\le")) == (places[0] == 0)
    return _span(shape, name, *((minus, bound, True, strict) if below else (bound, plus, strict, True)))


def _span(shape: Shape, name: str, low: Shape, high: Shape, left_open: bool, right_open: bool) -> Shape:
    marks = ("(" if left_open else "[", ")" if right_open else "]")
    return Shape("tuple", shape.text, (low, high), marks, name=name)


def regrouped(shape: Shape) -> Shape | None:
    """100,200 as the list that it also may be."""
    return _list(shape.text, 0, grouping=False) if shape.kind == "number" and "," in shape.text else None


def is_list(shape: Shape) -> bool:
    """Does an answer hold several values?"""
    return shape.kind in (*LISTS, "set", "record")

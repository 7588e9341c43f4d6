"""Rational numbers as answers write them: read exactly, with percent sign and unit, and compared exactly."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from kappo.rewards.expressions import Node
from kappo.rewards.units import counted, split_unit

LARGEST_EXPONENT = 4_000
"""Powers of ten beyond this are not written out."""
LONGEST_EXACT = 40_000
"""Bits of the longest rational that is computed exactly."""
ALMOST_EXACT_DIGITS = 10
"""A decimal with at least so many significant digits stands for the exact value that it agrees with."""
FLOAT_DIGITS = 15

WHOLE = r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[1-9][0-9]{0,2}(?: [0-9]{3})+|[0-9]+)"
DECIMAL = rf"(?:{WHOLE}?\.[0-9]+|{WHOLE}\.?)"
REPEATING = re.compile(
    r"([0-9]*)\.([0-9]*)\\(?:overline|bar|dot)\{([0-9]+)\}|([0-9]*)\.([0-9]{0,20}?)([0-9]{1,20}?)\6{2,}\\dots"
)
SCIENTIFIC = re.compile(
    rf"({DECIMAL})(?:[eE]([-+]?[0-9]+)|(?:\\times|\\cdot|\*|x)?10\^(?:\{{([-+]?[0-9]+)\}}|\(([-+]?[0-9]+)\)|([-+]?[0-9])))"
)
POWER_OF_TEN = re.compile(r"10\^(?:\{([-+]?[0-9]+)\}|([0-9]))")
PLAIN = re.compile(DECIMAL)
FRACTION = re.compile(
    rf"\\frac\{{([-+]?{DECIMAL})\}}\{{([-+]?{DECIMAL})\}}|([-+]?{DECIMAL})/([-+]?{DECIMAL})|\(([-+]?{DECIMAL})\)/\(([-+]?{DECIMAL})\)"
)
MIXED = re.compile(r"([0-9]+)(?:\\frac\{([0-9]+)\}\{([0-9]+)\}| ([0-9]+)/([0-9]+))")
MONEY = re.compile(r"([-+]?)(?:\$|USD ?|\\pounds|£|€|\\euro)(?=[-+]?[0-9.\\])")

CHOSEN = re.compile(r"\\(gcd|max|min)(?:\(([^()]*)\)|\\\{([^{}]*)\\\}|\{([^{}]*)\})")
BASED = re.compile(r"([0-9A-Z]+)(?:_([0-9]{1,2}|[a-z]+)|(?:in)?base([0-9]{1,2}|[a-z]+))")
NUMERALS = "two three four five six seven eight nine ten eleven twelve"
BASES = {name: base for base, name in enumerate(NUMERALS.split(), 2)}


@dataclass(frozen=True)
class Quantity:
    """A rational with its unit ("" for none). digits: significant digits of a decimal, 0 for whole numbers and
    fractions; step: one in its last place.
    """

    value: Fraction
    percent: bool = False
    unit: str = ""
    digits: int = 0
    step: Fraction = Fraction(0)
    scientific: bool = False


def _whole(digits: str) -> int:
    return int(digits.replace(",", "").replace(" ", "") or "0")


def _decimal(text: str) -> Quantity:
    sign, text = (-1, text[1:]) if text.startswith("-") else (1, text.lstrip("+"))
    whole, point, rest = text.partition(".")
    value = Fraction(_whole(whole) * 10 ** len(rest) + _whole(rest), 10 ** len(rest))
    digits = len((whole.replace(",", "") + rest).lstrip("0")) if point and rest else 0
    return Quantity(sign * value, digits=digits, step=Fraction(1, 10 ** len(rest)) if digits else Fraction(0))


def _unsigned(text: str) -> Quantity | None:
    if PLAIN.fullmatch(text):
        return _decimal(text)
    if found := FRACTION.fullmatch(text):
        top, bottom = (part for part in found.groups() if part is not None)
        under = _decimal(bottom).value
        return Quantity(_decimal(top).value / under) if under else None
    if found := MIXED.fullmatch(text):
        ones, over, parts = (int(part) for part in found.groups() if part is not None)
        return Quantity(ones + Fraction(over, parts)) if 0 < over < parts else None
    if found := SCIENTIFIC.fullmatch(text):
        head, exponent = _decimal(found[1]), next(int(part) for part in found.groups()[1:] if part is not None)
        if abs(exponent) > LARGEST_EXPONENT:
            return None
        scale = Fraction(10) ** exponent
        shown = head.digits or len(found[1].replace(",", "").lstrip("0"))
        return Quantity(head.value * scale, digits=shown, step=(head.step or 1) * scale, scientific=True)
    if found := POWER_OF_TEN.fullmatch(text):
        exponent = int(found[1] or found[2])
        return Quantity(Fraction(10) ** exponent) if abs(exponent) <= LARGEST_EXPONENT else None
    if found := REPEATING.fullmatch(text):
        whole, fixed, period = (part for part in found.groups() if part is not None)
        start = Fraction(_whole(whole + fixed), 10 ** len(fixed))
        return Quantity(start + Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(fixed)))
    return _selected(text)


def _selected(text: str) -> Quantity | None:
    """\\gcd, \\max, \\min of written numbers; \\gcd of whole ones only."""
    found = CHOSEN.fullmatch(text)
    read_all = [read(part.strip()) for part in (found[2] or found[3] or found[4] or "").split(",")] if found else []
    values = [part.value for part in read_all if part and not part.unit and not part.percent]
    if not found or len(values) < len(read_all):
        return None
    if found[1] != "gcd":
        return Quantity(max(values) if found[1] == "max" else min(values))
    whole = all(value.denominator == 1 for value in values)
    return Quantity(Fraction(math.gcd(*(value.numerator for value in values)))) if whole else None


def based(text: str) -> tuple[str, str] | None:
    """(numeral, base) of a canonical numeral with its base behind it; None for what is none."""
    found = BASED.fullmatch(re.sub(r"\\text|\\overline|[{}() ]", "", text))
    if not found:
        return None
    written = found[2] or found[3]
    base = int(written) if written.isdigit() else BASES.get(written, 0)
    if not 2 <= base <= 36 or not (any(c.isdigit() for c in found[1]) or (base > 10 and len(found[1]) > 1)):
        return None
    return (found[1].lstrip("0"), str(base)) if all(int(c, 36) < base for c in found[1]) else None


def read(text: str) -> Quantity | None:
    """A canonical answer as a rational; None where it is not one."""
    if not re.match(r"[-+$(]?[-+$£€({]?(?:[0-9.]|\\frac|\\pounds|USD|\\gcd|\\max|\\min)", text):
        return None
    money = MONEY.match(text)
    head, unit = split_unit(text[: money.start()] + money[1] + text[money.end() :] if money else text)
    unit = "$" if money and unit in ("", "$") else unit
    scale, unit = counted(unit)
    percent = head.endswith("%") or unit == "%"
    head = head[:-1].strip() if head.endswith("%") else head
    sign, body = (-1, head[1:]) if head.startswith("-") else (1, head.removeprefix("+"))
    if body.startswith("(") and body.endswith(")") and body.count("(") == 1 and "," not in body:
        body = body[1:-1]
        sign, body = (-sign, body[1:]) if body.startswith("-") else (sign, body)
    found = _unsigned(body.strip())
    if found is None or (percent and unit not in ("", "%")):
        return None
    return Quantity(
        sign * found.value * 10**scale, percent, "" if percent else unit, found.digits, found.step * 10**scale,
        found.scientific,
    )  # fmt: skip


def agree(shown: Quantity, exact: Fraction, terminates: bool) -> bool:
    """Is a long decimal the exact value, rounded or cut after its last digit? Digits past 15 are noise of floats,
    unless the exact value is itself a short decimal.
    """
    if shown.digits < ALMOST_EXACT_DIGITS:
        return False
    step = shown.step
    if not terminates and shown.digits > FLOAT_DIGITS:
        step *= 10 ** (shown.digits - FLOAT_DIGITS)
    gap = abs(exact) - abs(shown.value)
    return (exact < 0) == (shown.value < 0) and (0 <= gap < step or abs(gap) <= step / 2)


def _terminates(value: Fraction) -> bool:
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def _same(gold: Quantity, found: Quantity, factor: Fraction) -> bool:
    value = found.value * factor
    if gold.value == value:
        return True
    if gold.scientific and gold.digits >= 2 and abs(value - gold.value) <= gold.step / 2:
        return True
    if found.digits and not gold.digits:
        return factor == 1 and agree(found, gold.value, _terminates(gold.value))
    return bool(gold.digits and not found.digits and factor == 1 and agree(gold, value, _terminates(value)))


def equal(gold: Quantity, found: Quantity) -> bool:
    """Exactly equal, or a long decimal of the other. A unit may be missing on one side, never differ.

    A percent sign is read as a hundredth or as a mere unit; two percentages compare as they are. A gold in
    scientific notation with two digits or more is taken as rounded: what rounds to it is right.
    """
    if gold.unit and found.unit and gold.unit != found.unit and "unit" not in (gold.unit.split("^")[0], found.unit):
        return False
    factors = [Fraction(1)]
    if gold.percent and not found.percent:
        factors.append(Fraction(100))
    if found.percent and not gold.percent:
        factors.append(Fraction(1, 100))
    return any(_same(gold, found, factor) for factor in factors)


def _small(exponent: Fraction, base: Fraction) -> bool:
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    return exponent.denominator == 1 and abs(exponent) * bits <= LONGEST_EXACT


def rational(tree: Node) -> Fraction | None:
    """The exact value of a tree of whole numbers, decimals, + - * / and whole powers; None for others and huge ones."""
    kind, *parts = tree
    if kind == "num":
        return Fraction(parts[0]) if len(parts[0]) < LONGEST_EXACT // 4 else None
    if kind not in ("add", "mul", "neg", "div", "pow"):
        return None
    values = []
    for part in parts:
        value = rational(part)
        if value is None or max(value.numerator.bit_length(), value.denominator.bit_length()) > LONGEST_EXACT:
            return None
        values.append(value)
    if kind == "add":
        return sum(values, Fraction(0))
    if kind == "mul":
        return math.prod(values, start=Fraction(1))
    if kind == "neg":
        return -values[0]
    if kind == "div":
        return values[0] / values[1] if values[1] else None
    whole = _small(values[1], values[0]) and (values[0] or values[1] > 0)
    return values[0] ** values[1].numerator if whole else None

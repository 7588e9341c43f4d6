"""Rational numbers as answers write them: read exactly, with percent sign and unit, and compared exactly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

LARGEST_EXPONENT = 4_000
"""Powers of ten beyond this are not written out."""
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
UNIT_POWER = r"(?:\^(?:\{?-?[0-9]\}?|\\text\{[a-z]+\}|\{\\text\{[a-z]+\}\}))?"
UNIT_PART = rf"(?:\\text\{{[^{{}}]*\}}|°[CF]?|''?|[A-Za-z]{{2,}}+\.?){UNIT_POWER}"
UNIT = re.compile(rf"(?<=[0-9A-Za-z}}.)°%!])\s*({UNIT_PART}(?:[/ ]?{UNIT_PART})*)$")
MONEY = re.compile(r"([-+]?)(?:\$|USD ?|\\pounds|£|€|\\euro)(?=[-+]?[0-9.\\])")

NAMES = {
    "°": "degree degrees deg", "%": "percent percentage pct", "$": "dollar dollars usd", "¢": "cent cents",
    "cm": "cm centimeter centimeters centimetre centimetres", "mm": "mm millimeter millimeters",
    "m": "m meter meters metre metres", "km": "km kilometer kilometers kilometre kilometres",
    "in": "in inch inches", "ft": "ft foot feet", "yd": "yd yds yard yards", "mi": "mi mile miles",
    "s": "s sec secs second seconds", "min": "min mins minute minutes", "h": "h hr hrs hour hours",
    "d": "day days", "week": "week weeks", "month": "month months", "year": "yr yrs year years",
    "g": "g gram grams", "kg": "kg kilogram kilograms", "lb": "lb lbs pound pounds", "oz": "oz ounce ounces",
    "L": "l liter liters litre litres", "mL": "ml milliliter milliliters", "mph": "mph", "Hz": "hz hertz",
    "N": "newton newtons", "J": "joule joules", "W": "watt watts", "rad": "rad radian radians", "unit": "unit units",
    "gal": "gal gallon gallons", "th": "th st nd rd",
}  # fmt: skip
UNITS = {name: unit for unit, names in NAMES.items() for name in names.split()}
COUNTING = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
NOT_UNITS = """
and or not no nor is are was be but if else maybe either neither wrong correct true false answer the that this should
return gold i my none any all only then to more less least most probably perhaps possibly possible likely guess sure
unsure uncertain think approximately approx about around roughly nearly almost exceed over under above below between
versus vs through unless when otherwise instead except without would could might may can must anything everything
something whatever fewer higher lower larger smaller greater other another both number zero one two three four five
six seven eight nine ten plus minus times alpha beta gamma delta theta lambda sigma omega infinity pi sqrt sin cos tan
log ln exp cot sec csc e x y z
"""
NOT_A_UNIT = set(NOT_UNITS.split())


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
    return None


def unit_name(text: str) -> str:
    """One name for a unit's spellings; plural s and case do not count. "" for no unit."""
    words = text.replace(r"\text", " ").replace("{", " ").replace("}", " ").replace("''", "in").replace("'", "ft")
    words = re.sub(r"\s*\^\s*", "^", words.replace("/", " / ").replace(" per ", " / "))
    power, names = "", []
    for word in words.split():
        name, _, exponent = word.strip(".,").partition("^")
        plain = name.lower()
        if plain in ("square", "sq", "cubic", "cu"):
            power = "^2" if plain.startswith("sq") else "^3"
            continue
        known = UNITS.get(name) or UNITS.get(plain) or (plain[:-1] if plain.endswith("s") else plain)
        if exponent.strip("{}").startswith("-"):
            names.append("/")
            exponent = exponent.strip("{}")[1:].removeprefix("1")
        names.append(known + (f"^{exponent}" if exponent else power))
        power = ""
    return " ".join(names)


def split_unit(text: str) -> tuple[str, str]:
    """(what stands before the unit, the unit's name); an explicit \\text or a known unit counts, others are no unit."""
    found = UNIT.search(text)
    if not found:
        return text, ""
    unit = found[1]
    bare = re.sub(r"\\text\{[^{}]*\}|\^\{?[^{}]*\}?", " ", unit)
    apart = text[: found.start(1)].endswith(" ")
    if any(
        word.strip(".").lower() not in UNITS and word not in "°°C°F/''" and not (apart and len(word) > 3)
        for word in bare.split()
    ):
        return text, ""
    words = re.findall(r"[a-z]+", unit.replace(r"\text", " ").lower())
    digits = re.search(r"[0-9=<>]", re.sub(r"\^\{?-?[0-9]\}?", "", unit))
    if digits or (not words and unit[0] not in "°'") or len(words) > 5 or NOT_A_UNIT & set(words):
        return text, ""
    return text[: found.start()].strip(), unit_name(unit)


def read(text: str) -> Quantity | None:
    """A canonical answer as a rational; None where it is not one."""
    if not re.match(r"[-+$(]?[-+$£€({]?(?:[0-9.]|\\frac|\\pounds|USD)", text):
        return None
    money = MONEY.match(text)
    head, unit = split_unit(text[: money.start()] + money[1] + text[money.end() :] if money else text)
    unit = "$" if money and unit in ("", "$") else unit
    scale = next((COUNTING[word] for word in unit.split() if word in COUNTING), 0)
    unit = " ".join(word for word in unit.split() if word not in COUNTING)
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

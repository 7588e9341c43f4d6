"""Units behind a number: what is one, and one name for each."""

from __future__ import annotations

import re

UNIT_POWER = r"(?:\^(?:\{?-?[0-9]\}?|\\text\{[a-z]+\}|\{\\text\{[a-z]+\}\}))?"
UNIT_PART = rf"(?:\\text\{{[^{{}}]*\}}|°[CF]?|''?|[A-Za-z]{{2,}}+\.?){UNIT_POWER}"
UNIT = re.compile(rf"(?<=[0-9A-Za-z}}.)°%!])\s*({UNIT_PART}(?:[/ ]?{UNIT_PART})*)$")

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
COUNTING = {
    "hundred": 2, "thousand": 3, "lakh": 5, "million": 6, "crore": 7, "billion": 9, "trillion": 12, "quadrillion": 15,
    "quintillion": 18,
}  # fmt: skip
NOT_UNITS = """
and or not no nor is are was be but if else maybe either neither wrong correct true false answer the that this should
return gold i my none any all only then to more less least most probably perhaps possibly possible likely guess sure
unsure uncertain think approximately approx about around roughly nearly almost exceed over under above below between
versus vs through unless when otherwise instead except without would could might may can must anything everything
something whatever fewer higher lower larger smaller greater other another both number zero one two three four five
six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty
forty fifty sixty seventy eighty ninety plus minus times alpha beta gamma delta theta lambda sigma omega infinity pi
sqrt sin cos tan log ln exp cot sec csc e x y z incorrect invalid untrue undefined unknown estimate estimated
approximate rounded truncated repeating repeated recurring periodic ish minimum maximum upwards onwards tens dozen
dozens gross score grand googol mln bn half halves halved double doubled triple tripled twice thrice quadruple
quadrupled quarter quarters negative negated opposite conjugate imaginary inverse inverted reciprocal root rooted
radical cube factorial subfactorial primorial power powers raised exponent exponential logarithm sine cosine tangent
mod modulo modulus congruent divided multiplied added subtracted increased decreased reduced choose base binary
ternary octal hexadecimal hex third thirds fourth fourths fifth fifths sixth sixths seventh sevenths eighth eighths
ninth ninths tenth tenths eleventh elevenths twelfth twelfths thirteenth thirteenths fourteenth fourteenths fifteenth
fifteenths sixteenth sixteenths twentieth twentieths thirtieth thirtieths fortieth fortieths fiftieth fiftieths
sixtieth sixtieths hundredth hundredths thousandth thousandths millionth millionths billionth billionths trillionth
trillionths ths rds nds
"""
NOT_A_UNIT = set(NOT_UNITS.split())
BEFORE = {"square": "^2", "sq": "^2", "cubic": "^3", "cu": "^3"}
BEHIND = {"squared": "^2", "cubed": "^3"}


def unit_name(text: str) -> str:
    """One name for a unit's spellings; plural s and case do not count. "" for no unit."""
    words = text.replace(r"\text", " ").replace("{", " ").replace("}", " ").replace("''", "in").replace("'", "ft")
    words = words.replace("per cent", "percent").replace("/", " / ").replace(" per ", " / ")
    words = re.sub(r"\s*\^\s*", "^", words)
    power, names = "", list[str]()
    for word in words.split():
        name, _, exponent = word.strip(".,").partition("^")
        plain = name.lower()
        if plain in BEFORE:
            power = BEFORE[plain]
            continue
        if plain in BEHIND and names:
            names[-1] += BEHIND[plain]
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
    if words and (words[-1] in BEFORE or words[0] in BEHIND):
        return text, ""
    return text[: found.start()].strip(), unit_name(unit)


def counted(unit: str) -> tuple[int, str]:
    """(power of ten, what is left) of a unit with counting words."""
    names = unit.split()
    return sum(COUNTING.get(name, 0) for name in names), " ".join(name for name in names if name not in COUNTING)

"""Are two formulas the same function? Decided by values at fixed points, to many digits, relative to their size."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from kappo.rewards.expressions import Node, Unreadable, parse, symbols
from kappo.rewards.numerals import ALMOST_EXACT_DIGITS, Quantity, agree

DIGITS = 60
CLOSE = 40
"""Digits that must agree where DIGITS are carried."""
MORE = 400
POINTS = (1, 1, 1, -1, -1, 0, 0, 0)
"""Signs of the letters at the points, 0 for mixed: a positive point must agree, others where both sides are real."""
LONGEST_EXACT = 12_000
"""Bits of the longest rational that is computed exactly."""
HIGHEST_TOWER = 300
"""Digits of the largest exponent that is followed."""


class TooLarge(Exception):
    """A number whose size cannot be written down."""


def letter(name: str, point: int) -> Any:
    """The value of a letter at a point: positive in the first points, negative in the last, never special."""
    from mpmath import mpf

    number = int.from_bytes(hashlib.sha256(f"{name} {point}".encode("utf-8", "replace")).digest(), "big")
    return (POINTS[point] or (-1) ** (sum(map(ord, name)) >> point % 3)) * (
        mpf(number) / mpf(2) ** 256 * 2 + mpf(1) / 3
    )


def evaluate(tree: Node, point: int) -> Any:
    """Value of a tree at a point, an mpf or mpc. Raises TooLarge, and what mpmath raises where it is undefined."""
    import mpmath as mp

    kind, *parts = tree
    if kind == "num":
        return mp.mpf(parts[0])
    if kind == "const":
        return {"pi": +mp.pi, "e": +mp.e, "i": mp.mpc(0, 1), "oo": mp.inf}[parts[0]]
    if kind == "sym":
        return letter(parts[0], point)
    if kind == "pow" and (degree := _odd_root(parts[1])):
        return _power(_root(evaluate(parts[0], point), degree[1]), degree[0])
    if kind == "apply":
        return _generic(parts[0], [evaluate(part, point) for part in parts[1:]])
    values = [evaluate(part, point) for part in parts]
    if kind == "add":
        return mp.fsum(values)
    if kind == "mul":
        return mp.fprod(values)
    value = _operations()[kind](*values)
    if POINTS[point] < 1 and mp.im(value) != 0 and not any(mp.im(operand) for operand in values):
        raise ValueError("not real")
    return value


def _odd_root(exponent: Node) -> tuple[int, int] | None:
    """(5, 3) for the exponent 5/3: a power that is real for negative numbers too. None for other exponents."""
    if exponent[0] != "div" or not all(part[0] == "num" and part[1].isdigit() for part in exponent[1:]):
        return None
    top, bottom = (int(part[1]) for part in exponent[1:])
    return (top, bottom) if bottom % 2 and bottom < 1000 else None


def _generic(name: str, values: list[Any]) -> Any:
    """A function nobody knows, the same wherever its name and arguments are."""
    import mpmath as mp

    total = mp.mpf(0)
    for place, value in enumerate(values):
        total += (place + 2) * value + mp.mpf(place + 3) * value**2 / 7
    return letter(name, 0) + mp.sqrt(2) * total**3 / (1 + abs(total) ** 2)


def _operations() -> dict[str, Callable[..., Any]]:
    import mpmath as mp

    return {
        "neg": lambda a: -a, "div": lambda a, b: a / b, "pow": _power, "root": _root, "fact": _factorial,
        "abs": abs, "floor": mp.floor, "ceil": mp.ceil, "binom": mp.binomial, "exp": lambda a: _power(mp.e, a),
        "ln": mp.log, "log": mp.log, "lg": mp.log10, "sin": _wave(mp.sin), "cos": _wave(mp.cos), "tan": _wave(mp.tan),
        "cot": _wave(mp.cot), "sec": _wave(mp.sec), "csc": _wave(mp.csc), "sinh": mp.sinh, "cosh": mp.cosh,
        "tanh": mp.tanh, "coth": mp.coth, "arcsin": mp.asin, "arccos": mp.acos, "arctan": mp.atan, "arccot": mp.acot,
        "arcsec": mp.asec, "arccsc": mp.acsc, "arcsinh": mp.asinh, "arccosh": mp.acosh, "arctanh": mp.atanh,
    }  # fmt: skip


def _size(value: Any) -> int:
    """Binary exponent, 0 for zero and for infinities."""
    import mpmath as mp

    size = mp.mag(value)
    return int(size) if mp.isfinite(size) else 0


def _wave(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def bounded(value: Any) -> Any:
        if _size(value) > 4 * HIGHEST_TOWER:
            raise TooLarge
        return function(value)

    return bounded


def _power(base: Any, exponent: Any) -> Any:
    import mpmath as mp

    if _size(exponent) > 3.4 * HIGHEST_TOWER:
        raise TooLarge
    return mp.power(base, exponent)


def _root(value: Any, degree: Any) -> Any:
    """Principal root; the real one of a negative number where the degree is odd."""
    import mpmath as mp

    if mp.im(value) == 0 and mp.re(value) < 0 and mp.im(degree) == 0 and degree == int(degree) and int(degree) % 2:
        return -mp.power(-mp.re(value), 1 / mp.mpf(degree))
    return mp.power(value, 1 / mp.mpf(1) / degree)


def _factorial(value: Any) -> Any:
    import mpmath as mp

    if _size(value) > 60:
        raise TooLarge
    return mp.factorial(value)


def _near(a: Any, b: Any, digits: int) -> bool:
    import mpmath as mp

    if mp.isinf(a) or mp.isinf(b):
        return bool(a == b)
    return bool(abs(a - b) <= max(abs(a), abs(b)) * mp.mpf(10) ** -digits)


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


def _same_at(trees: tuple[Node, Node], point: int) -> bool | None:
    """Equal at a point; None where a side is undefined there, or not real at a negative point."""
    import mpmath as mp

    def both(digits: int) -> tuple[Any, Any]:
        with mp.workdps(digits):
            return evaluate(trees[0], point), evaluate(trees[1], point)

    try:
        a, b = both(DIGITS)
        if mp.isnan(a) or mp.isnan(b) or (POINTS[point] < 1 and any(abs(mp.im(v)) > 1e-30 * abs(v) for v in (a, b))):
            return None
        size = max(_size(a), _size(b), 0) * 0.30103
        near = _near(a, b, CLOSE)
        if near:
            size = max(size, *(_hidden(tree, point) for tree in trees))
        if near and size < CLOSE - 5:
            return True
        if not near and not _near(a, b, 8) and max(abs(a), abs(b)) > mp.mpf(10) ** (10 - DIGITS):
            return False
        digits = MORE + int(min(size, 5_000))
        exact = both(digits)
        with mp.workdps(digits):
            if _near(*exact, digits - MORE // 2):
                return True
            # both are rounding noise of zero where more digits make them that much smaller
            least = mp.mpf(10) ** -(digits - 100)
            return all(abs(v) < least and _shrinks(v, w) for v, w in zip(exact, (a, b), strict=True))
    except (ZeroDivisionError, ValueError):
        return None


def _hidden(tree: Node, point: int) -> int:
    """Decimal digits between the largest and the smallest term of the sums in a tree."""
    import mpmath as mp

    parts = [part for part in tree[1:] if isinstance(part, tuple)]
    here = 0
    if tree[0] == "add":
        sizes = [int(size) for part in parts if mp.isfinite(size := mp.mag(evaluate(part, point)))]
        here = int((max(sizes) - min(sizes)) * 0.30103) if sizes else 0
    return max([here, *(_hidden(part, point) for part in parts)])


def _shrinks(exact: Any, rough: Any) -> bool:
    import mpmath as mp

    return bool(exact == 0 or abs(exact) < abs(rough) * mp.mpf(10) ** -(DIGITS // 2))


def same_formula(gold: str, found: str) -> bool:
    """Are two canonical formulas equal wherever their letters are positive, and where both are real elsewhere?

    Raises Unreadable for what is no formula, or is undefined at every positive point.
    """
    trees = parse(gold), parse(found)
    same = _same_trees(trees)
    return same or ("\\log" in gold + found and _same_trees((_decadic(trees[0]), _decadic(trees[1]))))


def _decadic(tree: Node) -> Node:
    """The tree with `log` read as the logarithm to base ten."""
    return (
        "lg" if tree[0] == "log" else tree[0],
        *(_decadic(part) if isinstance(part, tuple) else part for part in tree[1:]),
    )


def _beyond(tree: Node) -> bool:
    """Is there arithmetic with infinity? The bounds of sums and integrals are none."""
    inside = [part for part in tree[1:] if isinstance(part, tuple)] if tree[0] != "apply" else []
    return any(part == ("const", "oo") or _beyond(part) for part in inside)


def _same_trees(trees: tuple[Node, Node]) -> bool:
    if any(_beyond(tree[1] if tree[0] == "neg" else tree) for tree in trees):
        return False
    exact = rational(trees[0]), rational(trees[1])
    if exact[0] is not None and exact[1] is not None:
        return exact[0] == exact[1]
    letters = [symbols(tree) for tree in trees]
    points = range(len(POINTS)) if letters[0] | letters[1] else range(1)
    try:
        verdicts = []
        for point in points:
            verdicts.append(_same_at(trees, point))
            if verdicts[-1] is False:
                return False
    except TooLarge:
        return False
    if True not in verdicts:
        raise Unreadable("undefined")
    return True


def is_decimal_of(shown: Quantity, formula: str) -> bool:
    """Is a long decimal the value of a formula without letters, in all its digits?"""
    import mpmath as mp

    tree = parse(formula)
    if shown.digits < ALMOST_EXACT_DIGITS or symbols(tree):
        return False
    with mp.workdps(DIGITS + shown.digits):
        try:
            value = evaluate(tree, 0)
        except (TooLarge, ZeroDivisionError, ValueError):
            return False
        if mp.im(value) != 0 or not mp.isfinite(value) or abs(_size(value)) > 10_000:
            return False
        sign, mantissa, exponent, _ = mp.re(value)._mpf_
        exact = Fraction(int(mantissa)) * Fraction(2) ** exponent * (-1 if sign else 1)
    return agree(shown, exact, terminates=False)


def ratio(gold: Node, found: Node) -> Any:
    """The constant factor between two formulas; None where there is none, or it is zero."""
    import mpmath as mp

    factor = None
    with mp.workdps(DIGITS):
        for point in range(len(POINTS)):
            try:
                a, b = evaluate(gold, point), evaluate(found, point)
                here = a / b
            except (ZeroDivisionError, ValueError):
                continue
            except TooLarge:
                return None
            if not mp.isfinite(here) or here == 0 or (POINTS[point] < 1 and abs(mp.im(here)) > 1e-30):
                continue
            if max(_size(a), _size(b)) < -100 or (factor is not None and not _near(factor, here, CLOSE // 2)):
                return None
            factor = here
    return factor

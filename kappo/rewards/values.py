"""Are two formulas the same function? Decided by values at fixed points, to many digits, relative to their size."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

from kappo.rewards.expressions import Node, parse, symbols
from kappo.rewards.numerals import rational

DIGITS = 60
CLOSE = 40
"""Digits that must agree where DIGITS are carried."""
MORE = 400
GROWTH = 100
"""Bits by which more digits make a value at a pole larger."""
POINTS = (1, 1, 1, -1, -1, 0, 0, 0)
"""Signs of the letters at the points, 0 for mixed: a positive point must agree, others where both sides are real."""
FOLLOWED = 10_000
"""Decimal digits of the largest or the smallest value that a comparison carries digits for."""
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
    return _measured(tree, point, [])


def _measured(tree: Node, point: int, sizes: list[float]) -> Any:
    """The value; sizes gets the binary exponents of all values in the tree, -inf for zero."""
    import mpmath as mp

    values = [_measured(part, point, sizes) for part in tree[1:] if isinstance(part, tuple)]
    value = _value(tree, values, point)
    sizes.append(_magnitude(value))
    if tree[0] in ("tanh", "coth"):  # how near to one they are
        sizes.append(_magnitude(_power(mp.e, 2 * values[0])))
    return value


def _value(tree: Node, values: list[Any], point: int) -> Any:
    """The value of a tree whose parts have these values."""
    import mpmath as mp

    kind, *parts = tree
    if kind == "num":
        return mp.mpf(parts[0])
    if kind == "const":
        return {"pi": +mp.pi, "e": +mp.e, "i": mp.mpc(0, 1), "oo": mp.inf}[parts[0]]
    if kind == "sym":
        return letter(parts[0], point)
    if kind == "pow" and (degree := _odd_root(parts[1])):
        return _power(_root(values[0], degree[1]), degree[0])
    if kind == "apply":
        return _generic(parts[0], values)
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
    return int(size) if math.isfinite(size := _magnitude(value)) else 0


def _magnitude(value: Any) -> float:
    """Binary exponent, -inf for zero; where it is itself huge, some huge number."""
    import mpmath as mp

    size = mp.mag(value)
    return float(max(min(size, 10**15), -(10**15))) if isinstance(size, int) else float(size)


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


def _both(trees: tuple[Node, Node], point: int, digits: int) -> tuple[Any, Any, list[float]]:
    """The values of two trees, and the sizes of all values in them."""
    import mpmath as mp

    sizes: list[float] = []
    with mp.workdps(digits):
        return _measured(trees[0], point, sizes), _measured(trees[1], point, sizes), sizes


def _digits(sizes: list[float]) -> int:
    """Digits to carry so that the smallest of these values counts beside the largest, 0 where DIGITS do.

    Raises TooLarge where they are too many.
    """
    reach = int(max(abs(size) if math.isfinite(size) else 0 for size in sizes) * 0.30103)
    if reach > FOLLOWED:
        raise TooLarge
    return 0 if 2 * reach < CLOSE - 5 else MORE + 2 * reach


def _exact(trees: tuple[Node, Node], point: int, digits: int, rough: list[float]) -> tuple[Any, Any]:
    """The values to these digits. Raises ValueError where one grows with the digits: there is a pole."""
    a, b, sizes = _both(trees, point, digits)
    if any(math.isfinite(size) and grown > max(size, 0) + GROWTH for size, grown in zip(rough, sizes, strict=True)):
        raise ValueError("pole")
    return a, b


def _same_at(trees: tuple[Node, Node], point: int) -> bool | None:
    """Equal at a point; None where a side is undefined there, or not real at a negative point."""
    import mpmath as mp

    try:
        a, b, sizes = _both(trees, point, DIGITS)
        if mp.isnan(a) or mp.isnan(b) or (POINTS[point] < 1 and any(abs(mp.im(v)) > 1e-30 * abs(v) for v in (a, b))):
            return None
        near = _near(a, b, CLOSE)
        if not near and not _near(a, b, 8) and max(abs(a), abs(b)) > mp.mpf(10) ** (10 - DIGITS):
            return False
        digits = _digits(sizes)
        if near and not digits:
            return True
        digits = digits or MORE
        exact = _exact(trees, point, digits, sizes)
        with mp.workdps(digits):
            if _near(*exact, digits - MORE // 2):
                return True
            # both are rounding noise of zero where more digits make them that much smaller
            least = mp.mpf(10) ** -(digits - 100)
            return all(abs(v) < least and _shrinks(v, w) for v, w in zip(exact, (a, b), strict=True))
    except (ZeroDivisionError, ValueError):
        return None


def _shrinks(exact: Any, rough: Any) -> bool:
    import mpmath as mp

    return bool(exact == 0 or abs(exact) < abs(rough) * mp.mpf(10) ** -(DIGITS // 2))


def same_formula(gold: str, found: str) -> bool:
    """Are two canonical formulas equal wherever their letters are positive, and where both are real elsewhere?

    Formulas that are undefined at every point, or too large to carry digits for, are equal only where their trees are.
    Raises Unreadable for what is no formula.
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
    if trees[0] == trees[1]:
        return True
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
    return True in verdicts


def ratio(gold: Node, found: Node) -> Any:
    """The constant factor between two formulas; None where there is none, or it is zero."""
    import mpmath as mp

    factor, known = None, MORE + 2 * FOLLOWED
    for point in range(len(POINTS)):
        try:
            a, b, sizes = _both((gold, found), point, DIGITS)
            digits = _digits(sizes)
            if digits:
                a, b = _exact((gold, found), point, digits, sizes)
            with mp.workdps(digits or DIGITS):
                here = a / b
        except (ZeroDivisionError, ValueError):
            continue
        except TooLarge:
            return None
        if not mp.isfinite(here) or here == 0 or (POINTS[point] < 1 and abs(mp.im(here)) > 1e-30):
            continue
        with mp.workdps(digits or DIGITS):
            known = min(known, max(digits - MORE // 2, CLOSE // 2))
            if max(_size(a), _size(b)) < -100 or (factor is not None and not _near(factor, here, known)):
                return None
        factor = here
    return factor

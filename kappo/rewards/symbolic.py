"""The worker that decides answers no exact rule settles: values of formulas first, then Math-Verify with vetoes."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from fractions import Fraction
from typing import Any

from kappo.rewards.comparison import Undecided, equal
from kappo.rewards.expressions import TooDeep, Unreadable, parse, symbols
from kappo.rewards.notation import canonical, words
from kappo.rewards.numerals import ALMOST_EXACT_DIGITS, Quantity, agree
from kappo.rewards.structure import Shape, read
from kappo.rewards.values import DIGITS, TooLarge, evaluate, ratio, same_formula

LARGEST_MEMORY = 2 * 1024**3


class Values:
    """The oracle that evaluates formulas."""

    def same(self, gold: Shape, found: Shape) -> bool:
        for shown, other in ((found, gold), (gold, found)):
            if shown.quantity and shown.quantity.digits and _is_decimal_of(shown.quantity, other.text):
                return True
        return same_formula(_formula(gold), _formula(found))

    def factor_sign(self, gold: Shape, found: Shape) -> int:
        factor = ratio(*(parse("(" + ")-(".join(map(_formula, shape.items)) + ")") for shape in (gold, found)))
        return 0 if factor is None else 1 if complex(factor).real > 0 else -1


def _is_decimal_of(shown: Quantity, formula: str) -> bool:
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
        if mp.im(value) != 0 or not mp.isfinite(value) or abs(mp.mag(value)) > 10_000:
            return False
        sign, mantissa, exponent, _ = mp.re(value)._mpf_
        exact = Fraction(int(mantissa)) * Fraction(2) ** exponent * (-1 if sign else 1)
    return agree(shown, exact, terminates=False)


def _formula(shape: Shape) -> str:
    """The text that the formula reader takes for a shape."""
    if shape.quantity:
        value = shape.quantity.value / (100 if shape.quantity.percent else 1)
        return f"({value.numerator})/({value.denominator})" if abs(value) < 10**300 else shape.text
    if shape.kind != "formula":
        raise Unreadable(shape.kind)
    return shape.text


def decide(gold: str, found: str) -> bool:
    """Is the found answer the gold one? Both as they were written. May take any time and memory."""
    ours, theirs = canonical(gold), canonical(found)
    try:
        return equal(read(ours), read(theirs), Values())
    except (Unreadable, Undecided):
        return _math_verify(ours, theirs)
    except TooDeep:
        return False


def _math_verify(gold: str, found: str) -> bool:
    """Math-Verify's verdict on what only it can read, where nothing that it overlooks speaks against."""
    from math_verify import LatexExtractionConfig, parse, verify

    if _vetoed(gold, found):
        return False
    targets = [LatexExtractionConfig()]
    ours, theirs = (
        parse(f"${text}$", targets, fallback_mode="no_fallback", parsing_timeout=None) for text in (gold, found)
    )
    return bool(ours and theirs and verify(ours, theirs, timeout_seconds=None))


def _vetoed(gold: str, found: str) -> bool:
    """Words on one side only, a relation or a list on one side only, or characters no formula has."""
    plain = [re.sub(r"\\[A-Za-z]+", " ", words(text)) for text in (gold, found)]
    texts = [sorted(re.findall(r"\\text\{([^{}]*)\}", text)) for text in (gold, found)]
    runs = [sorted(re.findall(r"[a-z]{3,}", text)) for text in plain]
    marks = [[text.count(mark) for mark in (",", "=", "\\and", "\\or", "\\pm", "%")] for text in (gold, found)]
    strange = re.search(r"[^\x20-\x7e°＄]", found)
    return bool(strange) or texts[0] != texts[1] or runs[0] != runs[1] or marks[0] != marks[1]


def serve() -> None:
    """Answer requests, one JSON line each, until standard input ends or the parent is gone."""
    import contextlib
    import resource

    from kappo.processes import end_with_parent

    end_with_parent(int(sys.argv[1]) if len(sys.argv) > 1 else None)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (LARGEST_MEMORY, LARGEST_MEMORY))
    with contextlib.suppress(ImportError):
        import math_verify  # noqa: F401
        import mpmath  # noqa: F401
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        _limit_processor(request["seconds"])
        print(json.dumps(_verdict(request)), file=answers, flush=True)


def _verdict(request: dict[str, Any]) -> str:
    try:
        return "right" if decide(request["gold"], request["found"]) else "wrong"
    except Exception:  # whatever a formula does to the libraries is a crash of this item
        return "crash"


def _limit_processor(seconds: float) -> None:
    """End this process by the system where neither the parent nor a thread can: in one long integer operation."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds) + 5
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


if __name__ == "__main__":
    serve()

"""Errors that a user can cause and mend: printed without a traceback, exit code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Names the setting or file, its value, what was expected, and the way out."""


def near_misses(word: str, choices: Iterable[str], shown: int = 12) -> str:
    """A half-sentence that proposes what may have been meant, or lists what there is."""
    names = sorted(set(choices))
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(repr(name) for name in close)}?"
    more = "" if len(names) <= shown else f", ... ({len(names)} in all)"
    return f"there are: {', '.join(names[:shown])}{more}"

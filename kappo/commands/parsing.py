"""What the plain commands share in reading their arguments."""

from __future__ import annotations

import argparse
from typing import Any

from kappo.errors import UserError


def command(verb: str, text: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog=f"kappo {verb}", description=text, allow_abbrev=False)


def numbers(kind: type, text: str, name: str) -> list[Any]:
    """Numbers with commas between them, each once. Raises UserError that names the option."""
    try:
        return list(dict.fromkeys(kind(part) for part in text.split(",")))
    except ValueError:
        raise UserError(f"{name} = {text!r}: expected numbers with commas between them, such as 1,2,4") from None

"""What tests of the sandbox share: whether one works here, a quick one, and how to ask it."""

from __future__ import annotations

import pytest

from kappo.errors import UserError
from kappo.rewards.sandbox import Sandbox

QUICK = Sandbox(seconds=1.0, total_seconds=5.0)
TOKEN = "kappo-secret-7361"


def missing() -> str:
    """Why programs cannot be run here, '' where they can."""
    try:
        Sandbox().command()
    except UserError as error:
        return f"no sandbox works here: {str(error).splitlines()[1].removeprefix('  - ')}"
    return ""


MISSING = missing()
needs_sandbox = pytest.mark.skipif(bool(MISSING), reason=MISSING)


def ask(source, tests=("",), box=QUICK):
    """The answers of a program to inputs."""
    tests = [{"input": text} for text in tests]
    return box.run({"mode": "stdin", "source": source, "setup": "", "entry": "", "tests": tests})


def said(source, box=QUICK):
    """What a program prints; it must end well."""
    ((kind, text),) = ask(source, box=box)
    assert kind == "text", (kind, text)
    return text.strip()

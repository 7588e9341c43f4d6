"""LiveCodeBench's private tests: JSON, or base64 of zlib of a pickle of a JSON text. Nothing in them is ever run."""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
import pickletools
import zlib
from typing import Any

from kappo.errors import UserError

MAX_BYTES = 2**30
"""Of the unpacked tests of one problem; the largest known are a tenth of it."""

HARMLESS = {
    "PROTO", "FRAME", "STOP", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT",
    "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
}  # fmt: skip
"""The opcodes of a pickled text. No other is looked at: whatever imports, calls or builds is refused unread."""


def decode(text: str, where: str) -> list[dict[str, Any]]:
    """The tests as objects. Raises UserError, naming `where`, for anything but a list of them."""
    tests = _json(text)
    if tests is None:
        tests = _json(_unpickled(_inflated(_decoded(text, where), where), where))
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise UserError(f"{where}: private_test_cases hold no list of tests: the row is broken, get the file again")
    return tests


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None


def _decoded(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UserError(
            f"{where}: private_test_cases are neither JSON nor base64 ({error}): get the file again"
        ) from None


def _inflated(data: bytes, where: str) -> bytes:
    """At most MAX_BYTES are ever unpacked."""
    stream = zlib.decompressobj()
    try:
        unpacked = stream.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise UserError(f"{where}: private_test_cases are not zlib data ({error}): get the file again") from None
    if stream.unconsumed_tail or (not stream.eof and len(unpacked) >= MAX_BYTES):
        raise UserError(f"{where}: private_test_cases unpack to more than {MAX_BYTES} bytes: no real tests do, refused")
    if not stream.eof or stream.unused_data:
        raise UserError(f"{where}: private_test_cases are cut off or padded: get the file again")
    return unpacked


class _TextOnly(pickle.Unpickler):
    """A second lock behind the opcodes: no name is ever looked up."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it asks for an outside object")


def _unpickled(data: bytes, where: str) -> str:
    """The one text that the pickle holds. Raises UserError for every other pickle, before any of it takes effect."""
    try:
        strange = next((op.name for op, _, _ in pickletools.genops(data) if op.name not in HARMLESS), None)
        value = None if strange else _TextOnly(io.BytesIO(data)).load()
    except Exception as error:  # a hostile pickle may raise anything
        raise UserError(f"{where}: private_test_cases are no readable pickle ({error}): get the file again") from None
    if strange or not isinstance(value, str):
        what = f"opcode {strange}" if strange else type(value).__name__
        raise UserError(
            f"{where}: private_test_cases are a pickle of something else than a text ({what}): refused, it could run "
            "code; get the file from livecodebench/code_generation_lite"
        )
    return value

"""Values of programs as JSON, and back."""

from __future__ import annotations

import sys
from typing import Any

PLAIN = {bool, int, float, str, type(None)}
TAG = "kappo"
LONGEST_INT = 10_000
"""Bits of the largest int that is written in decimal digits, which Python limits."""


class NotPlain(Exception):
    """A value that is no data: an object with equality of its own, a function."""


def encode(value: Any) -> Any:
    """A value as JSON that says what it is: tuples are lists; sets, dicts, linked lists and trees are tagged."""
    kind: Any = type(value)
    if kind is int and value.bit_length() > LONGEST_INT:
        return {TAG: "int", "items": hex(value)}
    if kind in PLAIN:
        return value
    if isinstance(value, dict) and kind.__eq__ in (dict.__eq__, _eq("collections", "Counter"), _ordered()):
        return {TAG: "dict", "items": [[encode(k), encode(v)] for k, v in dict.items(value)]}
    if isinstance(value, list | tuple) and kind.__eq__ in (list.__eq__, tuple.__eq__):
        return [encode(v) for v in value]
    if isinstance(value, set | frozenset) and kind.__eq__ in (set.__eq__, frozenset.__eq__):
        return {TAG: "set", "items": [encode(v) for v in value]}
    if kind.__module__ == "collections" and kind.__name__ == "deque":
        return [encode(v) for v in value]
    if kind.__module__.split(".")[0] == "numpy" and hasattr(value, "tolist"):
        return encode(value.tolist())
    if (kind.__module__, kind.__name__) in (("decimal", "Decimal"), ("fractions", "Fraction")):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, str) and kind.__eq__ is str.__eq__:
        return str.__str__(value)
    for base in (int, float):
        if isinstance(value, base) and kind.__eq__ is base.__eq__:
            return encode(base(value))
    if hasattr(value, "val") and hasattr(value, "next"):
        return {TAG: "list_node", "items": _chain(value)}
    if hasattr(value, "val") and hasattr(value, "left") and hasattr(value, "right"):
        return {TAG: "tree_node", "items": _levels(value)}
    if hasattr(value, "__next__"):
        raise NotPlain(f"returned a {kind.__name__}, which is no value")
    raise NotPlain(f"returned a {kind.__name__}, which is not plain data")


def _eq(module: str, name: str) -> Any:
    found = getattr(sys.modules.get(module), name, None)
    return getattr(found, "__eq__", dict.__eq__)


def _ordered() -> Any:
    return _eq("collections", "OrderedDict")


def _chain(node: Any) -> list[Any]:
    items = []
    while node is not None:
        items.append(encode(node.val))
        if len(items) > 1_000_000:
            raise NotPlain("returned a linked list with a cycle")
        node = node.next
    return items


def _levels(root: Any) -> list[Any]:
    items, row = [], [root]
    while row:
        below = []
        for node in row:
            items.append(None if node is None else encode(node.val))
            if node is not None:
                below += [node.left, node.right]
        if len(items) > 1_000_000:
            raise NotPlain("returned a tree with a cycle")
        row = below
    while items and items[-1] is None:
        items.pop()
    return items


def decode(value: Any, names: dict[str, Any]) -> Any:
    """The value that `encode` wrote; linked lists and trees by the constructors in `names`."""
    if isinstance(value, list):
        return [decode(v, names) for v in value]
    if not isinstance(value, dict):
        return value
    kind = value[TAG]
    if kind == "int":
        return int(value["items"], 16)
    items = decode(value["items"], names)
    if kind in ("list_node", "tree_node"):
        return names[kind](items)
    return set(items) if kind == "set" else dict(items)

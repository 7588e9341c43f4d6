"""What a program's source tells before it runs: the names that it misses, and whether it aims at its judge."""

from __future__ import annotations

import ast
import builtins
import contextlib
import sys
from typing import Any

PRELUDE = (
    "typing", "collections", "heapq", "bisect", "itertools", "functools", "math", "string", "operator", "copy",
    "random", "statistics", "re", "datetime", "decimal", "fractions", "json", "io", "queue",
)  # fmt: skip
"""Modules whose public names a program may use without importing them, as judges of such problems let it."""

PACKAGES = ("numpy", "sortedcontainers")
REACHING = {
    "_getframe", "_current_frames", "currentframe", "f_back", "f_locals", "f_globals", "tb_frame", "gi_frame",
    "getppid",
}  # fmt: skip
REACHING_OF = {"inspect": {"stack", "trace"}, "gc": {"get_objects", "get_referrers", "get_referents"}}
"""Names that tell nothing by themselves, by the module they are taken from."""


def supply(source: str) -> dict[str, Any]:
    """PRELUDE's modules and public names that the source uses and binds nowhere; what it imports is loaded early."""
    tree = ast.parse(source)
    used, loaded = set[str](), set[str]()
    bound = set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
            loaded.add(node.name.split(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.module:
            loaded.add(node.module.split(".")[0])
    for module in loaded & {*PRELUDE, *PACKAGES, "threading"}:
        with contextlib.suppress(Exception):
            __import__(module)
    missing = {name for name in used - bound if not name.startswith("_")}
    names = {"sys": sys} if "sys" in missing else {}
    for module in PRELUDE:
        if missing <= set(names):
            break
        found = __import__(module)
        names |= {module: found} if module in missing else {}
        names |= {name: getattr(found, name) for name in missing - set(names) if hasattr(found, name)}
    return names


def reach(source: str, judge: str = "") -> str:
    """What only a program that aims at its judge names: its frames, its parent, the judge's function; '' if nothing."""
    tree = ast.parse(source)
    if judge and _replaces(tree, judge):
        return judge
    modules = {name: name for name in REACHING_OF}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {a.asname: a.name for a in node.names if a.asname and a.name in REACHING_OF}
    for node in ast.walk(tree):
        names, more = list[str](), set[str]()
        if isinstance(node, ast.Attribute):
            names = [node.attr]
            more = REACHING_OF.get(modules.get(node.value.id, ""), more) if isinstance(node.value, ast.Name) else more
        elif isinstance(node, ast.ImportFrom):
            names, more = [a.name for a in node.names], REACHING_OF.get(node.module or "", more)
        for name in names:
            if name in REACHING or name in more:
                return name
    return ""


def _replaces(tree: ast.Module, judge: str) -> bool:
    """Whether the module binds the judge's name to a function of `candidate` or *args that it never uses itself."""
    if any(isinstance(n, ast.Name) and n.id == judge and isinstance(n.ctx, ast.Load) for n in ast.walk(tree)):
        return False
    for node in _module_level(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == judge:
            found = node.args
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Lambda):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if not any(isinstance(t, ast.Name) and t.id == judge for t in targets):
                continue
            found = node.value.args
        else:
            continue
        names = [a.arg for a in found.posonlyargs + found.args]
        if names == ["candidate"] or (not names and found.vararg):
            return True
    return False


def _module_level(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements that run in the module's own scope, those inside if, try, with and loops too."""
    found = []
    for node in body:
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for name in ("body", "orelse", "finalbody"):
                found += _module_level(getattr(node, name, []))
            for handler in getattr(node, "handlers", []):
                found += _module_level(handler.body)
    return found

"""A code problem's tests: what goes into the sandbox, and what is expected to come out, which stays outside."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kappo.errors import UserError
from kappo.rewards.outputs import tagged

NODES = {"is_same_list": "list_node", "is_same_tree": "tree_node"}


@dataclass(frozen=True)
class Test:
    """calls: what the sandbox is asked, each an entry of its request. Without a `condition` there is one call, whose
    answer is compared with `expected`; else the condition, over value_0, value_1, ..., must be true of the answers.
    """

    calls: tuple[dict[str, Any], ...]
    expected: Any = None
    condition: str = ""


@dataclass(frozen=True)
class CodeTests:
    """mode: stdin | functional | leetcode. setup: code before the program; entry: the expression of what is called."""

    mode: str
    tests: tuple[Test, ...]
    setup: str = ""
    entry: str = ""

    @staticmethod
    def parse(document: str, where: str) -> CodeTests:
        """Problem.answer as tests. Raises UserError that names `where` and the fault."""
        try:
            row = json.loads(document)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}: its tests are no JSON text ({error})") from None
        if not isinstance(row, dict):
            raise UserError(f"{where}: its tests are {document[:80]!r}: expected an object with mode and tests")
        return from_columns(row, where)


def from_columns(row: Mapping[str, Any], where: str) -> CodeTests:
    """Columns mode and tests (stdin), + fn_name (functional), or entry_point, test, prompt (leetcode)."""
    mode = row.get("mode")
    if not isinstance(mode, str) or mode not in MODES:
        raise UserError(f"{where}: mode = {mode!r}: expected stdin, functional or leetcode")
    missing = [name for name in MODES[mode][1] if not row.get(name)]
    if missing:
        raise UserError(f"{where}: mode {mode} needs {', '.join(missing)}; found {', '.join(sorted(row))}")
    return MODES[mode][0](row, where)


def _cases(row: Mapping[str, Any], where: str) -> list[Mapping[str, str]]:
    for i, case in enumerate(row["tests"]):
        if not isinstance(case, dict) or not all(isinstance(case.get(k), str) for k in ("input", "output")):
            raise UserError(f"{where}: tests[{i}] = {str(case)[:80]!r}: expected input and output, both text")
    return list(row["tests"])


def _stdin(row: Mapping[str, Any], where: str) -> CodeTests:
    return CodeTests("stdin", tuple(Test(({"input": c["input"]},), c["output"]) for c in _cases(row, where)))


def _functional(row: Mapping[str, Any], where: str) -> CodeTests:
    name, tests = row["fn_name"], []
    if not str(name).isidentifier():
        raise UserError(f"{where}: fn_name = {name!r}: expected the name of a function")
    for i, case in enumerate(_cases(row, where)):
        try:
            arguments = [tagged(json.loads(line)) for line in case["input"].split("\n") if line.strip()]
            expected = tagged(json.loads(case["output"]))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}: tests[{i}]: expected one JSON value a line ({error})") from None
        tests.append(Test((_call("candidate(*arguments)", {"arguments": arguments}),), expected))
    entry = f"getattr(Solution(), {name!r}) if hasattr(globals().get('Solution'), {name!r}) else {name}"
    return CodeTests("functional", tuple(tests), entry=entry)


def _leetcode(row: Mapping[str, Any], where: str) -> CodeTests:
    tests, setup = [], row.get("prompt") or ""
    _parsed(setup, "exec", f"{where}: its prompt")
    _parsed(row["entry_point"], "eval", f"{where}: entry_point = {row['entry_point']!r}")
    source = row["test"] if isinstance(row["test"], str) else ""
    lines = [] if "\r" in source else source.encode().split(b"\n")
    for i, test in enumerate(_asserts(row["test"], where)):
        simple = _simple(test)
        if simple:
            tests.append(Test((_call(_text(simple[0], lines), {}),), simple[1]))
            continue
        if _looped(test):
            raise UserError(f"{where}: assert {i + 1} of its test calls candidate in a loop: write one assert a call")
        calls = _Calls()
        condition = ast.unparse(calls.visit(test))
        if not calls.found:
            raise UserError(f"{where}: assert {i + 1} of its test calls no candidate: {condition[:80]}")
        tests.append(Test(tuple(_call(call, {}) for call in calls.found), condition=condition))
    return CodeTests("leetcode", tuple(tests), setup, row["entry_point"])


def _call(expression: str, bindings: dict[str, Any]) -> dict[str, Any]:
    return {"expression": expression, "bindings": bindings}


class _Calls(ast.NodeTransformer):
    """Replaces the calls of candidate by value_0, value_1, ..., and notes them."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not _is_call(node, "candidate"):
            return self.generic_visit(node)
        self.found.append(ast.unparse(node))
        return ast.Name(f"value_{len(self.found) - 1}", ast.Load())


def _text(node: ast.expr, lines: list[bytes]) -> str:
    """The node as its source has it, where that is one line; `ast.unparse` takes ten times as long."""
    if not lines or node.lineno != node.end_lineno:
        return ast.unparse(node)
    return lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()


def _looped(test: ast.expr) -> bool:
    """Whether a call of candidate may depend on a name that the condition binds itself."""
    loops = ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp | ast.Lambda
    outer = [node for node in ast.walk(test) if isinstance(node, loops)]
    return any(_is_call(inner, "candidate") for node in outer for inner in ast.walk(node))


def _parsed(source: Any, mode: str, what: str) -> ast.AST:
    """The syntax tree of a text of Python. Raises UserError for anything else."""
    try:
        return ast.parse(source, mode=mode)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise UserError(f"{what} is no Python ({error})") from None


def _asserts(source: str, where: str) -> list[ast.expr]:
    """The conditions of check's asserts. Raises UserError where the test is no list of asserts."""
    tree = _parsed(source, "exec", f"{where}: its test")
    checks = [node for node in ast.iter_child_nodes(tree) if isinstance(node, ast.FunctionDef) and node.name == "check"]
    statements = [s for node in checks for s in node.body if not isinstance(s, ast.Pass) and not _is_text(s)]
    strange = [s for s in statements if not isinstance(s, ast.Assert)]
    if not statements or strange:
        found = ast.unparse(strange[0])[:80] if strange else "nothing"
        raise UserError(f"{where}: expected a check(candidate) that holds asserts only, found {found}")
    return [s.test for s in statements if isinstance(s, ast.Assert)]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_call(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _simple(test: ast.expr) -> tuple[ast.expr, Any] | None:
    """(call, expected value) of `candidate(...) == literal` and `is_same_list(candidate(...), list_node(literal))`."""
    try:
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) and len(test.ops) == 1:
            for call, other in ((test.left, test.comparators[0]), (test.comparators[0], test.left)):
                if _is_call(call, "candidate"):
                    return call, tagged(ast.literal_eval(other))
        for same, node in NODES.items():
            if isinstance(test, ast.Call) and _is_call(test, same) and len(test.args) == 2:
                call, other = test.args
                if _is_call(call, "candidate") and isinstance(other, ast.Call) and _is_call(other, node):
                    return call, {"kappo": node, "items": _trimmed(tagged(ast.literal_eval(other.args[0])), node)}
    except (ValueError, TypeError):
        pass
    return None


def _trimmed(items: Any, node: str) -> Any:
    """A tree's levels without the empty places at their end."""
    while node == "tree_node" and items and items[-1] is None:
        items = items[:-1]
    return items


MODES: dict[str, tuple[Callable[[Mapping[str, Any], str], CodeTests], Sequence[str]]] = {
    "stdin": (_stdin, ("tests",)),
    "functional": (_functional, ("tests", "fn_name")),
    "leetcode": (_leetcode, ("test", "entry_point")),
}

"""Formulas as answers write them, LaTeX or plain: read to a tree, without sympy and without evaluating anything."""

from __future__ import annotations

import re
from typing import Any

DEEPEST = 120
TOKEN = re.compile(r"\\[A-Za-z]+|\\[{}|]|[0-9]+(?:\.[0-9]+)?|\.[0-9]+|[A-Za-z]+|\S")
FUNCTION_NAMES = """
arcsinh arccosh arctanh arcsin arccos arctan arccot arcsec arccsc sinh cosh tanh coth sin cos tan cot sec csc
asin acos atan ln log lg exp sqrt cbrt abs floor ceil
"""
FUNCTIONS = FUNCTION_NAMES.split()
INVERSE = {name: f"arc{name}" for name in ("sin", "cos", "tan", "cot", "sec", "csc")}
ALIASES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
CONSTANTS = {"\\pi": "pi", "pi": "pi", "\\infty": "oo", "infinity": "oo", "inf": "oo", "e": "e", "i": "i"}
LETTERS = """
alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi omega
Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell hbar dots emptyset odot reals partial circ star Box
triangle angle aleph nabla perp parallel
"""
GREEK = set(LETTERS.split())
WRITTEN_OUT = {"alpha", "beta", "gamma", "delta", "theta", "lambda", "sigma", "omega"}
MARKED = "vec hat bar overline dot ddot tilde underline widehat overrightarrow mathcal mathbb boldsymbol pmb"
ACCENTS = set(MARKED.split())
BIG = ("\\sum", "\\prod", "\\int")
CLOSERS = {"(": ")", "[": "]", "{": "}", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil"}
OPERATORS = {"\\cdot": "*", "\\times": "*", "*": "*", "/": "/", "\\div": "/"}
GENERIC = ("f", "g", "h", "F", "G")
WORD = re.compile("|".join([*FUNCTIONS, "infinity", "pi", "."]))

Node = tuple[Any, ...]
"""("num", digits) | ("const", name) | ("sym", name) | (operation, operand, ...)"""


class Unreadable(Exception):
    """Not a formula this grammar knows."""


class TooDeep(Exception):
    """More nesting than any answer has."""


def tokens(text: str) -> list[str]:
    """Tokens of a canonical formula; a run of letters becomes function names and single letters."""
    found: list[str] = []
    for token in TOKEN.findall(text):
        if token in WRITTEN_OUT:
            found.append(f"\\{token}")
        else:
            found += WORD.findall(token) if token.isalpha() and token.isascii() else [token]
    return found


def parse(text: str) -> Node:
    """The tree of a canonical formula. Raises Unreadable, TooDeep."""
    reader = _Reader(tokens(text))
    tree = reader.sum()
    if reader.next is not None:
        raise Unreadable(reader.next)
    return tree


def symbols(tree: Node) -> set[str]:
    """Names of the free letters."""
    if tree[0] == "sym":
        return {tree[1]}
    return set().union(*(symbols(part) for part in tree[1:] if isinstance(part, tuple)), set())


class _Reader:
    def __init__(self, found: list[str]) -> None:
        self.found, self.at, self.depth, self.bars = found, 0, 0, 0

    @property
    def next(self) -> str | None:
        return self.found[self.at] if self.at < len(self.found) else None

    def take(self) -> str:
        if self.at >= len(self.found):
            raise Unreadable("end")
        self.at += 1
        return self.found[self.at - 1]

    def skip(self, token: str) -> bool:
        hit = self.next == token
        self.at += hit
        return hit

    def expect(self, token: str) -> None:
        if not self.skip(token):
            raise Unreadable(f"{token} expected")

    def sum(self) -> Node:
        self.deeper()
        terms = []
        sign = self.sign()
        while True:
            term = self.product()
            terms.append(("neg", term) if sign < 0 else term)
            if self.next not in ("+", "-"):
                break
            sign = self.sign()
        self.depth -= 1
        return terms[0] if len(terms) == 1 else ("add", *terms)

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise TooDeep

    def sign(self) -> int:
        sign = 1
        while self.next in ("+", "-"):
            sign *= -1 if self.take() == "-" else 1
        return sign

    def product(self) -> Node:
        result = self.factor()
        factors, before = [result], self.found[self.at - 1]
        while (token := self.next) is not None:
            if token in OPERATORS:
                divide = OPERATORS[self.take()] == "/"
                sign = self.sign()
                part = self.factor()
                part = ("neg", part) if sign < 0 else part
                factors[-1:] = [("div", factors[-1], part)] if divide else [factors[-1], part]
            elif self.starts(token):
                if token[0].isdigit() and before[0].isdigit():
                    raise Unreadable("two numbers side by side")
                part = self.factor()
                factors[-1:] = _mixed(factors[-1], part) or [factors[-1], part]
            else:
                break
            before = self.found[self.at - 1]
        return factors[0] if len(factors) == 1 else ("mul", *factors)

    def starts(self, token: str) -> bool:
        if token == "|":
            return self.bars == 0
        return token[0].isalnum() or token in ("(", "[", "{", ".") or (token[0] in "\\." and token not in _ENDS)

    def factor(self) -> Node:
        before = self.depth
        self.deeper()
        base = self.base()
        while True:
            if self.skip("!"):
                self.deeper()
                base = ("fact", base)
            elif self.skip("^"):
                base = ("pow", base, self.exponent())
            elif self.skip("°"):
                base = ("mul", base, ("div", ("const", "pi"), ("num", "180")))
            else:
                self.depth = before
                return base

    def exponent(self) -> Node:
        self.deeper()
        exponent = self.argument()
        return ("pow", exponent, self.exponent()) if self.skip("^") else exponent

    def argument(self) -> Node:
        """What stands behind ^ or a command: a group, or one sign and token."""
        before = self.depth
        self.deeper()
        sign = self.sign()
        value = self.base()
        self.depth = before
        return ("neg", value) if sign < 0 else value

    def group(self) -> Node:
        opener = self.take()
        bars, self.bars = self.bars, 0
        inner = self.sum()
        self.bars = bars
        self.expect(CLOSERS[opener])
        return inner

    def base(self) -> Node:
        token = self.next
        if token is None:
            raise Unreadable("end")
        if token in ("(", "[", "{"):
            return self.group()
        if token in ("\\lfloor", "\\lceil"):
            return (token[2:], self.group())
        self.take()
        if token[0].isdigit() or (token[0] == "." and len(token) > 1):
            return ("num", token)
        if token == "|":
            self.bars += 1
            inner = self.sum()
            self.bars -= 1
            self.expect("|")
            return ("abs", inner)
        name = token.removeprefix("\\")
        if token in ("\\frac", "\\binom"):
            return ("div" if token == "\\frac" else "binom", self.argument(), self.argument())
        if name in FUNCTIONS:
            return self.call(name)
        if token in BIG:
            return self.big(token)
        if token in CONSTANTS and self.next != "_":
            return ("const", CONSTANTS[token])
        return self.symbol(token, name)

    def call(self, name: str) -> Node:
        if name in ("sqrt", "cbrt"):
            degree: Node = ("num", "3" if name == "cbrt" else "2")
            if self.next == "[":
                degree = self.group()
            return ("root", self.argument(), degree)
        power = base = None
        while self.next in ("^", "_"):
            if self.take() == "^":
                power = self.argument()
            else:
                base = self.argument()
        if power == ("neg", ("num", "1")) and name in INVERSE:
            name, power = INVERSE[name], None
        inner = self.group() if self.next in ("(", "[", "{") else self.bare_argument()
        name = ALIASES.get(name, name)
        value: Node = (name, inner) if base is None else ("div", ("ln", inner), ("ln", base))
        return value if power is None else ("pow", value, power)

    def bare_argument(self) -> Node:
        parts = [self.factor()]
        while (token := self.next) is not None and self.starts(token) and token not in ("(", "[", "{"):
            if token.removeprefix("\\") in FUNCTIONS or token in BIG:
                break
            parts.append(self.factor())
        return parts[0] if len(parts) == 1 else ("mul", *parts)

    def big(self, token: str) -> Node:
        """A sum, product or integral, equal to another only where bounds and body are."""
        parts: list[Node] = []
        while self.next in ("_", "^"):
            self.take()
            if not self.skip("{"):
                parts.append(self.argument())
                continue
            parts.append(self.sum())
            if self.skip("="):
                parts.append(self.sum())
            self.expect("}")
        return ("apply", token, *parts, self.product())

    def symbol(self, token: str, name: str) -> Node:
        if token[0] == "\\" and name in ACCENTS:
            inner = self.argument()
            name = f"{name} {inner}" if inner[0] != "sym" or name != "vec" else inner[1]
        elif not (token[0].isalpha() or (token[0] == "\\" and name in GREEK)):
            raise Unreadable(token)
        while self.next in ("_", "'"):
            name += self.take()
            if name[-1] == "_":
                name += self.subscript()
        at_zero = self.found[self.at : self.at + 3] == ["(", "0", ")"]
        if (name.rstrip("'") in GENERIC and self.next == "(") or at_zero:
            self.take()
            parts = [self.sum()]
            while self.skip(","):
                parts.append(self.sum())
            self.expect(")")
            return ("apply", name, *parts)
        return ("sym", name)

    def subscript(self) -> str:
        if not self.skip("{"):
            return self.take()
        raw, depth = "", 1
        while True:
            token = self.take()
            depth += {"{": 1, "}": -1}.get(token, 0)
            if depth == 0:
                return raw
            raw += token


_ENDS = {"\\}", "\\rfloor", "\\rceil", "\\cdot", "\\times", "\\div", "\\|"}


def _mixed(whole: Node, part: Node) -> list[Node] | None:
    """3\\frac{1}{2} is a sum: a whole number before a proper fraction of whole numbers."""
    if whole[0] == "num" and whole[1].isdigit() and part[0] == "div":
        top, bottom = part[1:]
        if top[0] == bottom[0] == "num" and top[1].isdigit() and bottom[1].isdigit() and int(top[1]) < int(bottom[1]):
            return [("add", whole, part)]
    return None

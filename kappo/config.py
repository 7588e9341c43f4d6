"""Typed configs: types, ranges and combinations are checked here, before anything runs. No torch, no Hydra."""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, Literal, Union

from kappo.errors import UserError, near_misses

TARGET = "_target_"


@dataclass(frozen=True)
class Range:
    """Bounds of a number; `above` and `below` are exclusive."""

    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None

    def holds(self, x: float) -> bool:
        return (
            (self.at_least is None or x >= self.at_least)
            and (self.at_most is None or x <= self.at_most)
            and (self.above is None or x > self.above)
            and (self.below is None or x < self.below)
        )

    def __str__(self) -> str:
        bounds = ((">=", self.at_least), (">", self.above), ("<=", self.at_most), ("<", self.below))
        return " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)


def within(default: Any = MISSING, **bounds: float) -> Any:
    """A dataclass field whose number, or each of whose numbers, lies in a Range."""
    metadata = {"range": Range(**bounds)}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


class Plug:
    """Marks a field that is built from a node with `_target_`: the dotted name of a dataclass."""


@dataclass(frozen=True)
class Warmup:
    """Supervised warm-up that makes the base model (embedded models only)."""

    steps: int = within(320, at_least=1)
    batch_size: int = within(128, at_least=1)
    lr: float = within(5e-3, above=0)


@dataclass(frozen=True)
class Model:
    """A small Qwen3 that `kappo base` makes from nothing."""

    name: str
    hidden_size: int = within(64, at_least=8)
    intermediate_size: int = within(192, at_least=8)
    layers: int = within(2, at_least=1)
    heads: int = within(4, at_least=1)
    kv_heads: int = within(2, at_least=1)
    head_dim: int = within(16, at_least=2)
    max_positions: int = within(64, at_least=8)
    init_std: float = within(0.05, above=0)
    warmup: Warmup = field(default_factory=Warmup)


@dataclass(frozen=True)
class Bank:
    """The reference bank: M completions a training prompt, in chunks that survive a kill."""

    samples_per_prompt: int = within(30, at_least=1)
    prompts_per_chunk: int = within(64, at_least=1)


@dataclass(frozen=True)
class Train:
    """fixed_length: rollouts go on past the end of sequence to max_new_tokens, and all tokens count in log-likelihoods;
    the reward still reads up to the first end of sequence.
    """

    steps: int = within(100, at_least=1)
    prompts_per_step: int = within(128, at_least=1)
    lr: float = within(6e-4, above=0)
    warmup_share: float = within(0.03, at_least=0, below=1)
    betas: list[float] = within([0.9, 0.99], at_least=0, below=1)
    eps: float = within(1e-8, above=0)
    weight_decay: float = within(0.0, at_least=0)
    max_grad_norm: float = within(1.0, above=0)
    checkpoint_every: int = within(10, at_least=1)
    validate_every: int = within(25, at_least=1)
    fixed_length: bool = False


@dataclass(frozen=True)
class Eval:
    samples_per_problem: int = within(256, at_least=1)
    problems_per_chunk: int = within(8, at_least=1)
    k: list[int] = within([1, 2, 4, 8, 16, 32, 64, 128], at_least=1)
    validation_samples: int = within(32, at_least=1)
    train_samples: int = within(16, at_least=1)
    bootstrap: int = within(2000, at_least=100)
    max_failed_share: float = within(0.5, at_least=0, at_most=1)


@dataclass(frozen=True)
class Tracking:
    mode: Literal["offline", "online", "disabled"] = "offline"
    project: str = "kappo"


@dataclass(frozen=True)
class Paths:
    results: str = "results"


@dataclass(frozen=True)
class Runtime:
    """How a run is carried out; changes nothing of what is computed, and reruns nothing."""

    threads: int = within(1, at_least=1)
    micro_batch_size: int = within(256, at_least=1)


@dataclass(frozen=True)
class Config:
    """Everything one run needs. data trains, validation selects; evaluation jobs take a test set as data."""

    model: Model
    data: Plug
    validation: Plug
    method: Plug
    pressure: Plug
    objective: Plug
    rollout: Plug
    bank: Bank
    train: Train
    eval: Eval
    tracking: Tracking
    paths: Paths
    runtime: Runtime
    k: int = within(1, at_least=1, at_most=1000)
    beta: float = within(0.1, at_least=1e-6, at_most=100)
    lr: float = within(6e-4, above=0)
    replicate: int = within(0, at_least=0)
    seed: int = within(0, at_least=0)
    study: str = "sweep"


def choice_name(plug: object) -> str:
    """A plug's name in tables and ids: its class in lower case, but `none`, `raw_reward`, `task_reward`."""
    name = type(plug).__name__.lower()
    return {"nopressure": "none", "rawreward": "raw_reward", "taskreward": "task_reward"}.get(name, name)


def plain(value: Any) -> Any:
    """A typed config node as nested dicts and lists; plugs carry their `_target_`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        node = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
        own = type(value).__module__ != __name__
        return {TARGET: f"{type(value).__module__}.{type(value).__qualname__}", **node} if own else node
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def build(kind: type, node: Any, where: str = "") -> Any:
    """A plain node -> an instance of the dataclass `kind`. Raises UserError that lists every fault found."""
    faults: list[str] = []
    made = _build(kind, node, where, faults)
    if faults:
        raise UserError("the configuration is not valid:\n" + "\n".join(f"  - {fault}" for fault in faults))
    return made


def _build(kind: type, node: Any, where: str, faults: list[str]) -> Any:
    if not isinstance(node, Mapping):
        faults.append(f"{where or 'config'} = {node!r}: expected settings ({', '.join(_names(kind))})")
        return None
    known = {f.name: f for f in dataclasses.fields(kind) if f.init}
    before = len(faults)
    for key in node:
        if key not in known and key != TARGET:
            faults.append(f"{_join(where, key)} = {node[key]!r}: no such setting; {near_misses(str(key), known)}")
    hints = typing.get_type_hints(kind)
    values = {}
    for name, spec in known.items():
        path = _join(where, name)
        if name in node:
            values[name] = _value(hints[name], node[name], path, spec.metadata.get("range"), faults)
        elif spec.default is MISSING and spec.default_factory is MISSING:
            faults.append(f"{path}: missing, expected {_expected(hints[name], spec.metadata.get('range'))}")
    if len(faults) > before:
        return None
    try:
        return kind(**values)
    except ValueError as error:
        faults.append(f"{where or 'config'}: {error}")
        return None


def _value(hint: Any, value: Any, path: str, bounds: Range | None, faults: list[str]) -> Any:
    origin = typing.get_origin(hint)
    if hint is Any:
        return value
    if origin is dict and isinstance(value, Mapping):
        return {str(k): v for k, v in value.items()}
    if hint is Plug:
        return _plug(value, path, faults)
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type, hint), value, path, faults)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in typing.get_args(hint):
            return None
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
        return _value(hint, value, path, bounds, faults)
    if origin is list and isinstance(value, list | tuple):
        (inner,) = typing.get_args(hint)
        return [_value(inner, v, f"{path}[{i}]", bounds, faults) for i, v in enumerate(value)]
    ok = {
        int: isinstance(value, int) and not isinstance(value, bool),
        float: isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf"),
        str: isinstance(value, str),
        bool: isinstance(value, bool),
    }.get(hint, origin is Literal and value in typing.get_args(hint))
    if not ok or (bounds and hint in (int, float) and not bounds.holds(value)):
        hint_at = (
            f"; {near_misses(value, typing.get_args(hint))}" if origin is Literal and isinstance(value, str) else ""
        )
        faults.append(f"{path} = {value!r}: expected {_expected(hint, bounds)}{hint_at}")
        return None
    return float(value) if hint is float else value


def _plug(node: Any, path: str, faults: list[str]) -> Any:
    target = node.get(TARGET) if isinstance(node, Mapping) else None
    if not isinstance(target, str) or "." not in target:
        faults.append(f"{path} = {node!r}: expected a choice of conf/{path}/ (its file names a `_target_`)")
        return None
    module, name = target.rsplit(".", 1)
    if os.getcwd() not in sys.path:  # a user's own module lies where they work, beside their conf/
        sys.path.append(os.getcwd())
    try:
        kind = getattr(importlib.import_module(module), name)
    except Exception as error:  # a user's module may raise anything when it is imported
        faults.append(f"{path}.{TARGET} = {target!r}: cannot be imported ({error}); expected a dataclass's dotted name")
        return None
    if not dataclasses.is_dataclass(kind):
        faults.append(f"{path}.{TARGET} = {target!r}: expected a dataclass, found {kind!r}")
        return None
    return _build(typing.cast(type, kind), node, path, faults)


def _names(kind: type) -> list[str]:
    return [f.name for f in dataclasses.fields(kind) if f.init]


def _join(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)


def _expected(hint: Any, bounds: Range | None) -> str:
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, typing.get_args(hint)))
    if typing.get_origin(hint) is list:
        return f"a list, each {_expected(typing.get_args(hint)[0], bounds)}"
    words = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false"}
    return words.get(hint, "settings") + (f" {bounds}" if bounds else "")

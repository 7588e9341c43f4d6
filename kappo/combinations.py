"""Settings that are each valid, but do not go together. The only way to a Config that may run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from kappo.config import Config, build, choice_name
from kappo.errors import UserError


def check(node: Mapping[str, Any]) -> Config:
    """A resolved plain node -> a Config whose parts also fit together. Raises UserError."""
    config: Config = build(Config, node)
    faults = [text for broken, text in _combinations(config) if broken]
    if faults:
        raise UserError("these settings do not go together:\n" + "\n".join(f"  - {fault}" for fault in faults))
    return config


def _combinations(c: Config) -> list[tuple[bool, str]]:
    samples, rollout = c.eval.samples_per_problem, cast(Any, c.rollout)
    pressure, method = cast(Any, c.pressure), cast(Any, c.method)
    supported = getattr(method, "pressures", ())
    name, objective = choice_name(pressure), cast(Any, c.objective)
    aim, own_kl = choice_name(objective), getattr(method, "kl_coef", None)
    plain_aim = aim == "tilted" and objective.alpha == 1
    return [
        (
            c.k > 1 and not hasattr(pressure, "k") and not hasattr(method, "k"),
            f"k = {c.k} with pressure = none: nothing would use k; set k=1, or pressure=binary",
        ),
        (
            getattr(method, "k", c.k) != c.k,
            f"k = {c.k} with method.k = {getattr(method, 'k', None)}: set k, the method's own follows",
        ),
        (
            getattr(pressure, "k", c.k) != c.k or pressure.beta != c.beta,
            f"k = {c.k}, beta = {c.beta:g} with pressure.k = {getattr(pressure, 'k', 1)}, pressure.beta = "
            f"{pressure.beta:g}: set k and beta, it follows",
        ),
        (
            not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", c.model.name),
            f"model.name = {c.model.name!r}: expected letters, digits, '_', '-' and '.': it names a folder",
        ),
        (not c.paths.results.strip(), "paths.results = '': expected a folder, such as results"),
        (
            bool(supported) and name not in supported,
            f"pressure = {name} with method = {choice_name(method)}: set pressure={' or '.join(supported)}",
        ),
        (
            name in ("winrate", "raw_reward") and method.interface == "regularization",
            f"pressure = {name} with method.interface = regularization: it transforms rewards; "
            "set method.interface=reward, or pressure=binary",
        ),
        (
            method.interface == "regularization"
            and (getattr(pressure, "zero", "paper"), getattr(pressure, "estimator", "plug_in")) != ("paper", "plug_in"),
            f"pressure.zero, pressure.estimator with {choice_name(method)} on the regularization side: they speak of "
            "a_k, which that side does not use; set pressure.zero=paper pressure.estimator=plug_in",
        ),
        (
            getattr(pressure, "estimator", "") == "online" and method.source != "policy",
            f"pressure.estimator = online with method = {choice_name(method)}, which samples nothing: set plug_in",
        ),
        (
            not plain_aim and own_kl is None,
            f"objective = {aim} with method = {choice_name(method)}: only methods with a KL term of their own take it; "
            "set method=rloo or reinforce, or objective=tilted objective.alpha=1",
        ),
        (
            own_kl is not None and own_kl != objective.kl_coef,
            f"method.kl_coef = {own_kl} with objective = {aim}, whose kl_coef = {objective.kl_coef}: set "
            "objective.kl_coef, the method's follows",
        ),
        (
            not plain_aim and method.interface == "regularization",
            f"objective = {aim} with method.interface = regularization: set method.interface=reward",
        ),
        (
            c.k > 1 and not objective.uses_task,
            f"k = {c.k} with objective = {aim}: it does not use the task's reward; set k=1",
        ),
        (
            max(c.eval.k, default=0) > samples,
            f"eval.k = {c.eval.k} with eval.samples_per_problem = {samples}: unbiased pass@k needs n >= k; "
            "raise eval.samples_per_problem or drop the larger k",
        ),
        (
            not c.eval.k or len(set(c.eval.k)) < len(c.eval.k),
            f"eval.k = {c.eval.k}: expected at least one k, each once",
        ),
        (
            rollout.max_new_tokens >= c.model.max_positions,
            f"rollout.max_new_tokens = {rollout.max_new_tokens} with model.max_positions = {c.model.max_positions}: "
            "no room for a prompt; lower the one or raise the other",
        ),
        (c.model.head_dim % 2 != 0, f"model.head_dim = {c.model.head_dim}: rotary embeddings need an even number"),
        (
            c.k > c.eval.validation_samples,
            f"k = {c.k} with eval.validation_samples = {c.eval.validation_samples}: selection needs pass@k on the "
            "validation split, hence validation_samples >= k",
        ),
        (
            c.model.heads % c.model.kv_heads != 0,
            f"model.heads = {c.model.heads} with model.kv_heads = {c.model.kv_heads}: heads must be a multiple",
        ),
        (
            len(c.train.betas) != 2,
            f"train.betas = {c.train.betas}: expected the two moments' decay rates, such as [0.9, 0.99]",
        ),
    ]

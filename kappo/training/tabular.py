"""Methods on a tabular softmax policy: where theory can say to the digit what they converge to.

A "prompt" has m completions of one token each; the policy's logits are the reference's plus parameters, one a prompt
and completion, or shared between prompts. Method, pressure and objective are those that train language models; only the
model is a table. Gradients are exact (the expectation over all groups of N completions) or sampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kappo import streams
from kappo.methods.base import BankMethod, Batch, Method
from kappo.methods.objectives import Objective, Tilted
from kappo.pressure.base import Floats, Pressure, Rows
from kappo.pressure.binary import Binary


@dataclass(frozen=True)
class Table:
    """P prompts of m completions: reference (P, m), probabilities above 0; rewards (P, m)."""

    reference: Floats
    rewards: Floats

    @property
    def log_reference(self) -> Floats:
        return np.log(self.reference)


@dataclass(frozen=True)
class Problem:
    """What is trained on a table. rows: the pressure's coefficients of the prompts. behaviour: who samples, the policy
    or the reference. shared: one parameter vector for all prompts. online: a_k of the policy's own success rate.
    """

    table: Table
    method: Method
    pressure: Pressure
    rows: Rows
    objective: Objective = Tilted()
    behaviour: str = "policy"
    shared: bool = False
    online: bool = False

    def start(self) -> Tensor:
        prompts, m = self.table.reference.shape
        return torch.zeros((1 if self.shared else prompts, m), dtype=torch.float64)

    def policy(self, parameters: Tensor) -> Floats:
        """(P, m) probabilities."""
        return np.exp(self._log_policy(parameters).detach().numpy())

    def success(self, parameters: Tensor) -> Floats:
        """Expected reward of each prompt, (P,)."""
        return (self.policy(parameters) * self.table.rewards).sum(axis=1)

    def _log_policy(self, parameters: Tensor) -> Tensor:
        return torch.log_softmax(torch.from_numpy(self.table.log_reference) + parameters, -1)

    def loss(self, parameters: Tensor, groups: NDArray[np.int64], weights: Floats) -> Tensor:
        """The weighted sum over groups of the method's mean loss; its gradient is what one step sees.

        groups: (P, G, N) completions of each prompt; weights: (P, G).
        """
        prompts, count, n = groups.shape
        log_policy = self._log_policy(parameters)
        flat = np.array(groups).reshape(prompts, -1)
        chosen = log_policy.gather(1, torch.from_numpy(flat)).reshape(-1, 1)
        own = chosen.detach().numpy()
        reference = np.take_along_axis(self.table.log_reference, flat, axis=1).reshape(-1, 1)
        rewards = np.take_along_axis(self.table.rewards, flat, axis=1).reshape(-1, n)
        rows = self._renewed(parameters).take(np.repeat(np.arange(prompts), count))
        adapted = self.pressure.adapt(rewards, rows, self.method.interface)
        adapted = self.objective.apply(adapted, reference.reshape(rewards.shape))
        behaviour = own if self.behaviour == "policy" and self.method.source == "policy" else reference
        signal = self.method.signal(Batch(np.ones_like(own), reference, behaviour, adapted))
        made = {name: torch.tensor(np.array(value), dtype=torch.float64) for name, value in signal.items()}
        losses = self.method.loss(chosen, torch.ones_like(chosen), made)
        units = losses.reshape(prompts * count, -1).mean(1)
        return (units * torch.from_numpy(np.ravel(weights))).sum() / prompts

    def _renewed(self, parameters: Tensor) -> Rows:
        if not self.online:
            return self.rows
        return cast(Binary, self.pressure).at_rate(self.rows, self.success(parameters))

    def _source(self, parameters: Tensor) -> Floats:
        """Who samples: the bank is the reference's."""
        on_policy = self.behaviour == "policy" and self.method.source == "policy"
        return self.policy(parameters) if on_policy else self.table.reference

    def groups(self) -> NDArray[np.int64]:
        """All multisets of N completions, (G, N); for a method of the bank the pairs of one right and one wrong."""
        m, n = self.table.reference.shape[1], self.method.samples_per_prompt
        if self.method.source == "bank":
            return np.array([[m - 1, 0]]) if n == 2 else np.arange(m)[:, None]
        return np.array(list(combinations_with_replacement(range(m), n)))

    def exact(self, parameters: Tensor) -> Tensor:
        """The expected loss; the chances of the groups carry no gradient."""
        groups = self.groups()
        prompts, m = self.table.reference.shape
        source = self._source(parameters)
        if self.method.source == "bank" and groups.shape[1] == 2:
            weights = np.ones((prompts, 1))
        else:
            counts = (groups[:, :, None] == np.arange(m)).sum(axis=1)
            log_ways = math.lgamma(groups.shape[1] + 1) - np.vectorize(math.lgamma)(counts + 1.0).sum(axis=1)
            weights = np.exp(log_ways + np.log(np.maximum(source, 1e-300)) @ counts.T)
        return self.loss(parameters, np.broadcast_to(groups, (prompts, *groups.shape)), weights)

    def sampled(self, parameters: Tensor, step: int, count: int, seed: int) -> Tensor:
        """The loss of `count` sampled groups a prompt."""
        n = self.method.samples_per_prompt
        source = self._source(parameters)
        u = streams.uniform(seed, "tabular", np.arange(len(source))[:, None], step, np.arange(count * n))
        if self.method.source == "bank" and n == 2:
            shown = np.broadcast_to(self.table.rewards, source.shape)
            picked = cast(BankMethod, self.method).select(np.repeat(shown, count, 0), u.reshape(-1, n))
            groups = picked.reshape(len(source), count, n)
        else:
            edges = np.cumsum(source, axis=1)
            drawn = (u[:, :, None] > edges[:, None, :-1]).sum(axis=2)
            groups = drawn.reshape(len(source), count, n)
        return self.loss(parameters, groups, np.full(groups.shape[:2], 1 / count))


def train(
    problem: Problem, loss: Callable[[Tensor, int], Tensor], steps: int, lr: float
) -> Iterator[tuple[int, Tensor]]:
    """Adam with a cosine schedule: the parameters before every step and after the last one."""
    parameters = problem.start().requires_grad_()
    optimizer = torch.optim.Adam([parameters], lr=lr, betas=(0.9, 0.99), eps=1e-12)
    for step in range(steps):
        yield step, parameters.detach().clone()
        for group in optimizer.param_groups:
            group["lr"] = lr * 0.5 * (1 + math.cos(math.pi * step / steps))
        optimizer.zero_grad()
        loss(parameters, step).backward()
        optimizer.step()
    yield steps, parameters.detach().clone()


def exact(problem: Problem, steps: int = 1500, lr: float = 0.05) -> Iterator[tuple[int, Tensor]]:
    """Training with exact gradients."""
    return train(problem, lambda parameters, step: problem.exact(parameters), steps, lr)


def sampled(
    problem: Problem, steps: int = 1500, lr: float = 0.05, count: int = 64, seed: int = 0
) -> Iterator[tuple[int, Tensor]]:
    """Training with the gradients of `count` sampled groups a prompt and step."""
    return train(problem, lambda parameters, step: problem.sampled(parameters, step, count, seed), steps, lr)

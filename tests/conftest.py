"""Shared fixtures: one tiny model with its tokenizer, made once."""

from __future__ import annotations

import copy

import pytest
from hypothesis import settings

from kappo.config import Model
from kappo.data.embedded import Rules

settings.register_profile("kappo", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("kappo")

TINY = Model("t", hidden_size=16, intermediate_size=32, layers=2, heads=2, kv_heads=1, head_dim=8, init_std=0.3)


@pytest.fixture(scope="session")
def tokenizer():
    from kappo.models import fresh_tokenizer

    return fresh_tokenizer(Rules.vocabulary(), TINY.max_positions)


@pytest.fixture(scope="session")
def model(tokenizer):
    """Read only: tests that train take `trainable`."""
    import torch

    from kappo.models import fresh_model

    torch.set_num_threads(1)
    return fresh_model(TINY, tokenizer, seed=0)


@pytest.fixture
def trainable(model):
    """Makes fresh copies of the tiny model."""
    return lambda: copy.deepcopy(model)

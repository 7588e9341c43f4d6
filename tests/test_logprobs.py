import numpy as np
import pytest
import torch

from kappo import logprobs
from kappo.logprobs import pack, token_logprobs

PROMPTS = [[3, 4, 5], [6], [7, 8, 9, 10, 11, 12]]
COMPLETIONS = [[13, 14], [15, 16, 17, 18, 1], [19]]


@pytest.fixture
def batch(tokenizer):
    return pack(PROMPTS, COMPLETIONS, tokenizer.pad_token_id)


def plain(model, temperature=1.0):
    """Row by row, without padding, from the model's own logits: log-probs and entropies."""
    found = []
    for prompt, completion in zip(PROMPTS, COMPLETIONS, strict=True):
        logits = model(torch.tensor([prompt + completion])).logits[0].double() / temperature
        rows = torch.log_softmax(logits, -1)[len(prompt) - 1 : -1]
        entropy = -(rows.exp() * rows).sum(-1)
        found.append((rows[torch.arange(len(completion)), torch.tensor(completion)], entropy))
    return found


def test_pack(batch):
    np.testing.assert_array_equal(batch.ids[1], [6, 15, 16, 17, 18, 1, 0])
    assert batch.starts.tolist() == [3, 1, 6]
    np.testing.assert_array_equal(batch.mask, [[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]])
    part = batch.rows(2, 3)
    assert (part.starts.tolist(), part.lengths.tolist(), part.mask.shape) == ([6], [1], (1, 1))


@pytest.mark.parametrize("temperature", [1.0, 0.6, 2.0])
def test_values_of_ragged_rows(model, batch, temperature):
    with torch.no_grad():
        values, entropy = token_logprobs(model, batch, temperature)
        want = plain(model, temperature)
    assert values.shape == entropy.shape == (3, 5)
    for row, (expected, expected_entropy) in enumerate(want):
        n = len(expected)
        np.testing.assert_allclose(values[row, :n], expected, atol=1e-5)
        np.testing.assert_allclose(entropy[row, :n], expected_entropy, atol=1e-5)
        assert not values[row, n:].any()
        assert not entropy[row, n:].any()


def test_width_pads_with_zeros(model, batch):
    with torch.no_grad():
        narrow, wide = token_logprobs(model, batch)[0], token_logprobs(model, batch, width=9)[0]
    np.testing.assert_array_equal(wide[:, :5], narrow)
    assert wide.shape == (3, 9)
    assert not wide[:, 5:].any()


def gradients(model, values):
    model.zero_grad()
    weights = torch.arange(1.0, values.numel() + 1).reshape(values.shape)
    (values * weights).sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize("size", [1, 3, 7])
def test_chunking_changes_neither_values_nor_gradients(trainable, batch, monkeypatch, size):
    model = trainable()
    values, entropy = token_logprobs(model, batch, 0.7)
    want = gradients(model, values)
    monkeypatch.setattr(logprobs, "TOKENS_PER_CHUNK", size)
    chunked, chunked_entropy = token_logprobs(model, batch, 0.7)
    np.testing.assert_allclose(chunked.detach(), values.detach(), atol=1e-6)
    np.testing.assert_allclose(chunked_entropy, entropy, atol=1e-6)
    for name, gradient in gradients(model, chunked).items():
        np.testing.assert_allclose(gradient, want[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_gradient_is_that_of_a_plain_forward_pass(trainable, batch):
    model = trainable()
    got = gradients(model, token_logprobs(model, batch)[0])
    rows = [values for values, _ in plain(model)]
    want = gradients(model, torch.nn.utils.rnn.pad_sequence(rows, batch_first=True))
    for name, gradient in got.items():
        np.testing.assert_allclose(gradient, want[name], rtol=1e-3, atol=1e-4, err_msg=name)


def test_entropy_carries_no_gradient(trainable, batch):
    values, entropy = token_logprobs(trainable(), batch)
    assert values.requires_grad
    assert not entropy.requires_grad

from pathlib import Path

import numpy as np
import pytest
import torch

import kappo.methods
from kappo.methods.sft import SFT
from kappo.training.learner import reduce

MASK = torch.tensor([[1.0, 1, 1], [1, 0, 0]], dtype=torch.float64)
LOGPROBS = torch.tensor([[-0.5, -1.0, -2.0], [-4.0, -9.0, 3.0]], dtype=torch.float64)


def test_loss_is_the_negative_log_prob_of_completion_tokens():
    np.testing.assert_array_equal(SFT().loss(LOGPROBS, MASK, {}), [[0.5, 1.0, 2.0], [4.0, 0.0, 0.0]])


def test_reduced_loss_and_gradient_weigh_every_token_the_same():
    logprobs = LOGPROBS.clone().requires_grad_()
    loss = reduce(SFT().loss(logprobs, MASK, {}), units=2, tokens=float(MASK.sum()))
    loss.backward()
    assert loss.item() == (0.5 + 1.0 + 2.0 + 4.0) / 4
    np.testing.assert_array_equal(logprobs.grad, [[-0.25, -0.25, -0.25], [-0.25, 0.0, 0.0]])


def test_gradient_on_logits_is_softmax_minus_one_hot():
    logits = torch.tensor([[0.3, -1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    SFT().loss(torch.log_softmax(logits, -1)[:, 1:2], torch.ones(1, 1), {}).sum().backward()
    np.testing.assert_allclose(
        logits.grad, torch.softmax(logits.detach(), -1) - torch.tensor([[0.0, 1, 0]]), rtol=1e-12
    )


FILES = sorted(Path(kappo.methods.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_method_is_at_most_100_lines(path):
    assert len(path.read_text().splitlines()) <= 100

import numpy as np
import torch

from kappo.methods.apo import APO
from kappo.methods.base import Batch
from kappo.methods.qrpo import QRPO
from kappo.pressure.winrate import WinRate

RNG = np.random.default_rng(0)
BANK = RNG.normal(size=(5, 8))


def test_at_k_1_it_is_the_papers_loss():
    """(R - beta log Z - beta log-ratio)^2 with R uniform on (0, 1]: Z = beta (exp(1 / beta) - 1)."""
    method, beta = QRPO(), 0.4
    chosen = method.select(BANK, RNG.random((5, 1)))
    assert chosen.shape == (5, 1)
    rewards = np.take_along_axis(BANK, chosen, axis=1)
    pressure = WinRate(1, beta)
    adapted = pressure.adapt(rewards, pressure.fit(BANK))
    logprobs, reference = (-RNG.exponential(size=(5, 3)) for _ in range(2))
    batch = Batch(np.ones((5, 3)), reference, reference, adapted)
    signal = {name: torch.tensor(np.array(value)) for name, value in method.signal(batch).items()}
    got = method.loss(torch.tensor(logprobs), torch.ones(5, 3, dtype=torch.float64), signal)
    quantile = (rewards >= BANK).mean(axis=1)
    log_z = np.log(beta * np.expm1(1 / beta))
    ratio = (logprobs - reference).sum(axis=1)
    np.testing.assert_allclose(got, (quantile - beta * log_z - beta * ratio) ** 2, rtol=1e-12)


def test_every_prompt_and_completion_can_be_drawn():
    method = QRPO()
    assert method.usable(BANK).all()
    u = (np.arange(8) + 0.5)[None, :] / 8
    for i in range(8):
        assert (method.select(BANK, np.repeat(u[:, i : i + 1], 5, 0)) == i).all()
    assert method.source == "bank"
    assert APO.source == "policy"

"""RLOO against TRL's RLOOTrainer: the same advantages, KL in the reward, and the same gradient on policy."""

import numpy as np
import pytest
import torch

from kappo.methods.base import Batch
from kappo.methods.rloo import RLOO
from kappo.pressure.none import NoPressure
from tests.methods.test_trl_parity import TOLERANCE, common, cut, gradients, mean_loss, model, ours, texts, tokenizer

pytestmark = pytest.mark.slow
trl = pytest.importorskip("trl", reason="the peer is not installed")
datasets = pytest.importorskip("datasets")

BETA, N = 0.3, 4


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    """One step of RLOOTrainer, its policy moved off the reference: trainer, its scored batch, rewards, both models."""
    folder = tmp_path_factory.mktemp("rloo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        torch.set_num_threads(1)
        model().save_pretrained(folder / "model")
        tokenizer().save_pretrained(folder / "model")
        rewards = []

        def reward(completion_ids, **_):
            rewards.extend(float(np.mean([token % 7 < 3 for token in row])) for row in completion_ids)
            return rewards[-len(completion_ids) :]

        settings = common(folder / "out", 16)
        args = trl.RLOOConfig(beta=BETA, num_generations=N, max_completion_length=12, temperature=1.0, **settings)
        data = datasets.Dataset.from_dict({"prompt": texts(8, 1)})
        trainer = trl.RLOOTrainer(model=str(folder / "model"), args=args, train_dataset=data, reward_funcs=reward)
        with torch.no_grad():
            for p in trainer.model.parameters():
                p.add_(0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())))
        seen, compute = [], trainer._compute_loss

        def spy(network, inputs):
            loss = compute(network, inputs)
            seen.append(({k: v.clone() for k, v in inputs.items() if torch.is_tensor(v)}, gradients(loss, network)))
            return compute(network, inputs)

        trainer._compute_loss = spy
        policy = model()
        policy.load_state_dict(trainer.model.state_dict())
        trainer.train()
    return seen[0], np.array(rewards[:16]), policy, model()


def test_advantages_and_gradient(step):
    (scored, theirs), rewards, policy, reference = step
    prompts = cut(scored["prompt_ids"], scored["prompt_mask"])
    completions = cut(scored["completion_ids"], scored["completion_mask"])
    groups = [tuple(p) for p in prompts]
    order = sorted(range(16), key=lambda i: (groups.index(groups[i]), i))  # TRL shuffles a generated batch
    prompts, completions = [prompts[i] for i in order], [completions[i] for i in order]
    assert [prompts[i] == prompts[i - i % N] for i in range(16)] == [True] * 16
    earned = np.array([np.mean([token % 7 < 3 for token in row]) for row in completions]).reshape(-1, N)
    assert sorted(earned.ravel()) == pytest.approx(sorted(rewards))

    logprobs, mask = ours(policy, prompts, completions)
    ref = ours(reference, prompts, completions)[0].detach().double().numpy()
    behaviour = logprobs.detach().double().numpy()
    assert np.abs(((behaviour - ref) * mask.numpy()).sum(1)).max() > 0.1
    pressure = NoPressure(BETA)
    adapted = pressure.adapt(earned, pressure.fit(np.array([[0.0, 0.5]] * len(earned))))
    method = RLOO(N, BETA)
    batch = Batch(mask.numpy().astype(float), ref, behaviour, adapted)
    want = scored["advantages"].numpy()[order]
    np.testing.assert_allclose(method.signal(batch)["advantage"], want, rtol=1e-4, atol=1e-5)

    mine = gradients(mean_loss(method, logprobs, mask, batch), policy)
    assert max(float(g.abs().max()) for g in theirs.values()) > 1e-3
    for name, gradient in theirs.items():
        np.testing.assert_allclose(mine[name], gradient, err_msg=name, rtol=1e-3, atol=TOLERANCE["atol"] * 10)

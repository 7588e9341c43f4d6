import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kappo.config import Train
from kappo.errors import UserError
from kappo.logprobs import pack, token_logprobs
from kappo.methods.apo import APO
from kappo.methods.dpo import DPO
from kappo.methods.grpo import GRPO
from kappo.methods.sft import SFT
from kappo.training import checkpoint
from kappo.training.learner import Learner, Units, learning_rate, optimizer_tensors, reduce, restore_optimizer

STEPS = 10


def units(step=0, target=None):
    """Six ragged units with the signal of A*PO; another batch for every step."""
    rng = np.random.default_rng(step)
    prompts = [rng.integers(3, 20, size).tolist() for size in (3, 1, 4, 2, 3, 5)]
    completions = [rng.integers(3, 20, size).tolist() for size in (2, 5, 1, 3, 5, 4)]
    sequences = pack(prompts, completions, 0)
    mask = sequences.mask.numpy()
    signal = {
        "target": np.linspace(-1, 1, 6) if target is None else np.full(6, target),
        "beta": np.full(6, 0.5),
        "ref_logprobs": -rng.exponential(size=mask.shape) * mask,
    }
    return Units(sequences, signal)


def learner(model, micro_batch_size=100, temperature=1.0, **settings):
    train = Train(**{"steps": STEPS, "lr": 1e-2, "max_grad_norm": 1e9, **settings})
    return Learner(model, train, temperature, micro_batch_size)


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def equal(one, other):
    return all(torch.equal(value, other[name]) for name, value in one.items())


def test_learning_rate_schedule():
    found = [learning_rate(step, 100, 2.0, 0.03) for step in range(100)]
    np.testing.assert_allclose(found[:4], [2 / 3, 4 / 3, 2, 2], rtol=1e-12)
    np.testing.assert_allclose(found[3:], [1 + math.cos(math.pi * i / 97) for i in range(97)], rtol=1e-12)
    assert 0 < found[-1] < 0.001
    assert learning_rate(0, 100, 2.0, 0.0) == 2.0
    assert learning_rate(50, 100, 2.0, 0.0) == pytest.approx(1.0)
    assert learning_rate(0, 1, 2.0, 0.03) == 2.0


def test_learning_rate_is_used_and_reported(trainable):
    made = learner(trainable(), warmup_share=0.5)
    for step in (0, 3, 7):
        metrics = made.step(units(step), SFT(), step)
        want = learning_rate(step, STEPS, 1e-2, 0.5)
        assert metrics["lr"] == made.optimizer.param_groups[0]["lr"] == want


@pytest.mark.parametrize("method", [APO(), SFT()])
@pytest.mark.parametrize("size", [1, 2, 4, 5])
def test_micro_batches_give_the_same_gradient(trainable, method, size):
    whole, parts = learner(trainable()), learner(trainable(), size)
    want, got = whole.step(units(), method, 0), parts.step(units(), method, 0)
    scale = max(float(g.abs().max()) for g in gradients(whole.model).values())
    for name, gradient in gradients(whole.model).items():
        np.testing.assert_allclose(gradients(parts.model)[name], gradient, atol=1e-6 * max(scale, 1), err_msg=name)
    for name in want:
        assert got[name] == pytest.approx(want[name], rel=1e-5)


def pairs():
    made = units()
    sums = made.signal["ref_logprobs"].sum(axis=1)
    return Units(made.sequences, {"ref_logprob": sums.reshape(3, 2), "beta": np.array([0.1, 0.5, 2.0])})


@pytest.mark.parametrize("size", [1, 2, 3])
def test_units_of_two_sequences_give_the_same_step_and_are_never_split(trainable, size):
    shapes, dpo = [], DPO(label_smoothing=0.2)

    def loss(logprobs, mask, signal):
        shapes.append((len(logprobs), len(mask), len(signal["beta"]), len(signal["ref_logprob"])))
        return dpo.loss(logprobs, mask, signal)

    whole, parts = learner(trainable()), learner(trainable(), size)
    want = whole.step(pairs(), dpo, 0)
    got = parts.step(pairs(), SimpleNamespace(sequences_per_unit=2, loss=loss), 0)
    assert shapes == [(2, 2, 1, 1)] * 3
    assert got == pytest.approx(want, rel=1e-5)
    for name, gradient in gradients(whole.model).items():
        np.testing.assert_allclose(gradients(parts.model)[name], gradient, atol=1e-6, err_msg=name)


def test_loss_of_pairs_is_the_mean_over_pairs(trainable):
    made, batch = learner(trainable()), pairs()
    values = token_logprobs(made.model, batch.sequences)[0].detach().double().sum(-1).numpy().reshape(3, 2)
    log_ratio = values - batch.signal["ref_logprob"]
    margins = batch.signal["beta"] * (log_ratio[:, 0] - log_ratio[:, 1])
    assert made.step(batch, DPO(), 0)["loss"] == pytest.approx(np.log1p(np.exp(-margins)).mean(), rel=1e-5)


BINS = {
    "one": np.array([True, False, False, True, True, False]),
    "other": np.array([False, True, False, False, False, True]),
    "empty": np.zeros(6, dtype=bool),
}


@pytest.mark.parametrize("size", [1, 4, 100])
def test_pull_of_apo_is_twice_beta_times_the_residual(trainable, size):
    made, batch = learner(trainable(), size), units()
    values = token_logprobs(made.model, batch.sequences)[0].detach().double().numpy()
    metrics = made.step(Units(batch.sequences, batch.signal, BINS), APO(), 0)
    lengths = batch.sequences.lengths.tolist()
    for name, rows in BINS.items():
        pulls = []
        for i in np.flatnonzero(rows):
            log_ratio = sum(values[i, t] - batch.signal["ref_logprobs"][i, t] for t in range(lengths[i]))
            residual = batch.signal["target"][i] - 0.5 * log_ratio
            pulls += [2 * 0.5 * abs(residual)] * lengths[i]
        if pulls:
            assert metrics[f"pull/{name}"] == pytest.approx(np.mean(pulls), rel=1e-5)
    assert {name for name in metrics if name.startswith("pull/")} == {"pull/one", "pull/other"}


def test_pull_of_grpo_is_the_advantage_over_the_length(trainable):
    made, batch = learner(trainable(), 4), units()
    behaviour = token_logprobs(made.model, batch.sequences)[0].detach().double().numpy()
    advantage = np.array([1.0, -0.5, 0.0, 2.0, -3.0, 0.1])
    signal = {"advantage": advantage, "behaviour_logprobs": behaviour}
    metrics = made.step(Units(batch.sequences, signal, BINS), GRPO(), 0)
    lengths = batch.sequences.lengths.tolist()
    for name in ("one", "other"):
        pulls = [abs(advantage[i]) / lengths[i] for i in np.flatnonzero(BINS[name]) for _ in range(lengths[i])]
        assert metrics[f"pull/{name}"] == pytest.approx(np.mean(pulls), rel=1e-4)


def test_pull_of_a_loss_by_token_is_one(trainable):
    batch = units()
    metrics = learner(trainable(), 4).step(Units(batch.sequences, {}, BINS), SFT(), 0)
    assert [metrics["pull/one"], metrics["pull/other"]] == pytest.approx([1, 1])


def test_bins_change_nothing(trainable):
    plain, binned = learner(trainable()), learner(trainable())
    plain.step(units(), APO(), 0)
    binned.step(Units(units().sequences, units().signal, BINS), APO(), 0)
    assert equal(weights(plain.model), weights(binned.model))


@pytest.mark.parametrize("method", [APO(), SFT()])
def test_loss_and_entropy_are_means_over_global_counts(trainable, method):
    made, batch = learner(trainable(), micro_batch_size=4, temperature=0.8), units()
    mask = batch.sequences.mask
    with torch.no_grad():
        values, entropy = token_logprobs(made.model, batch.sequences, 0.8)
    signal = {name: torch.tensor(value, dtype=torch.float32) for name, value in batch.signal.items()}
    loss = method.loss(values, mask, signal)
    metrics = made.step(batch, method, 0)
    want = float(loss.sum() / (6 if loss.dim() == 1 else mask.sum()))
    assert metrics["loss"] == pytest.approx(want, rel=1e-5)
    assert metrics["entropy"] == pytest.approx(float(entropy.sum() / mask.sum()), rel=1e-5)


def test_reduce():
    assert reduce(torch.tensor([2.0, 4.0]), 8, 99.0) == 0.75
    assert reduce(torch.tensor([[2.0, 4.0]]), 99, 8.0) == 0.75


def test_training_lowers_the_loss(trainable):
    made = learner(trainable())
    losses = [made.step(units(), SFT(), step)["loss"] for step in range(STEPS)]
    assert losses[-1] < 0.7 * losses[0]


def test_clip(trainable):
    free, clipped = learner(trainable()), learner(trainable(), max_grad_norm=1e-3)
    one, other = free.step(units(), SFT(), 0), clipped.step(units(), SFT(), 0)
    norm = math.sqrt(sum(float(g.double().square().sum()) for g in gradients(free.model).values()))
    assert one["grad_norm"] == pytest.approx(norm, rel=1e-5)
    assert other["grad_norm"] == pytest.approx(norm, rel=1e-5)
    assert (one["clipped"], other["clipped"]) == (0.0, 1.0)
    for name, gradient in gradients(clipped.model).items():
        np.testing.assert_allclose(gradient, gradients(free.model)[name] * 1e-3 / norm, rtol=1e-2, atol=1e-9)


@pytest.mark.parametrize("target", [np.inf, np.nan, 1e30])
def test_divergence_is_an_error_that_leaves_the_weights(trainable, target):
    made = learner(trainable())
    made.step(units(0), APO(), 0)
    before, optimizer = weights(made.model), {k: v.clone() for k, v in optimizer_tensors(made).items()}
    with pytest.raises(UserError, match=r"training diverged at step 2: loss (inf|nan).*Lower lr \(now 0\.01\)"):
        made.step(units(1, target), APO(), 1)
    assert equal(before, weights(made.model))
    assert equal(optimizer, optimizer_tensors(made))


def test_restored_run_goes_on_bit_by_bit(trainable, tokenizer, tmp_path):
    straight = learner(trainable(), weight_decay=0.1)
    for step in range(4):
        straight.step(units(step), SFT(), step)
    broken = learner(trainable(), weight_decay=0.1)
    for step in range(2):
        broken.step(units(step), SFT(), step)
    state = checkpoint.State(2, 12, 345)
    rate = np.linspace(0, 1, 5)
    checkpoint.save(tmp_path, broken, tokenizer, state, [], {"rate": rate})
    resumed = learner(trainable(), weight_decay=0.1)
    assert checkpoint.latest(tmp_path) == state
    carried = np.zeros(5)
    checkpoint.restore(tmp_path, resumed, state, {"rate": carried})
    np.testing.assert_array_equal(carried, rate)
    for step in (2, 3):
        resumed.step(units(step), SFT(), step)
    assert equal(weights(straight.model), weights(resumed.model))
    assert equal(optimizer_tensors(straight), optimizer_tensors(resumed))


def test_weights_without_optimizer_state_would_differ(trainable):
    whole, forgetful = learner(trainable()), learner(trainable())
    for made in (whole, forgetful):
        made.step(units(0), SFT(), 0)
    fresh = learner(forgetful.model)
    whole.step(units(1), SFT(), 1)
    fresh.step(units(1), SFT(), 1)
    assert not equal(weights(whole.model), weights(fresh.model))


def test_missing_optimizer_state_is_named(trainable):
    made = learner(trainable())
    made.step(units(), SFT(), 0)
    tensors = optimizer_tensors(made)
    tensors.pop("exp_avg/model.norm.weight")
    with pytest.raises(UserError, match=r"lacks exp_avg/model\.norm\.weight"):
        restore_optimizer(learner(trainable()), tensors)

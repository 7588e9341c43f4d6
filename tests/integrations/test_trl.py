import functools

import numpy as np
import pytest
import torch
from torch.nn.functional import logsigmoid

from kappo.errors import UserError
from kappo.pressure.winrate import WinRate
from tests.methods.test_trl_parity import agree, common, cut, model, offline, ours, texts, tokenizer

pytestmark = pytest.mark.slow
trl = pytest.importorskip("trl", reason="TRL, whose trainers are extended, is not installed")
datasets = pytest.importorskip("datasets", reason="datasets, which TRL trains on, is not installed")
integration = pytest.importorskip("kappo.integrations.trl")

__all__ = ["offline"]

PROMPTS, GROUP = texts(4, 1), 4
A = {f"p{i}": a for i, a in enumerate([3.5, 0.02, 1.0, 0.0])}
ONES = dict.fromkeys(A, 1.0)
TOLERANCE = {"rtol": 2e-5, "atol": 2e-6}
AT_K = {"grpo": "AtKGRPOTrainer", "rloo": "AtKRLOOTrainer", "dpo": "AtKDPOTrainer"}
PLAIN = {"grpo": ("GRPOTrainer", "GRPOConfig"), "rloo": ("RLOOTrainer", "RLOOConfig")}


def share(row):
    return float(np.mean([token % 7 < 3 for token in row]))


def graded(completion_ids, **_):
    return [share(row) for row in completion_ids]


def data(**columns):
    return datasets.Dataset.from_dict({"prompt": PROMPTS, "prompt_id": list(A), **columns})


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a model: TRL loads the reference from it."""
    folder = tmp_path_factory.mktemp("model")
    model().save_pretrained(folder)
    return str(folder)


def config(kind, folder, batch=GROUP, steps=1, **settings):
    settings = {"num_generations": GROUP, "max_completion_length": 6, **settings}
    return getattr(trl, PLAIN[kind][1])(**{**common(folder, batch), "max_steps": steps, **settings})


def build(kind, saved, args, coefficients=None, rewards=graded, **more):
    made = getattr(trl, PLAIN[kind][0]) if coefficients is None else getattr(integration, AT_K[kind])
    more = more if coefficients is None else {**more, "coefficients": coefficients}
    given = {"train_dataset": data(), "processing_class": tokenizer(), **more}
    return made(model=saved, reward_funcs=rewards, args=args, **given)


def timeless(log):
    return {name: value for name, value in log.items() if "time" not in name and "second" not in name}


def move(network):
    """Away from the reference, so that there is a KL to see."""
    with torch.no_grad():
        for p in network.parameters():
            p.add_(0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())))


def losses_of(trainer):
    """What the loss is given, batch by batch, and what comes out."""
    seen, compute = [], trainer._compute_loss

    def spy(network, inputs, *rest):
        loss = compute(network, inputs, *rest)
        seen.append((inputs, loss.detach()))
        return loss

    trainer._compute_loss = spy
    return seen


def stored(batches, reference):
    """Rows of the batches: prompt number, reward, advantage, KL of the sequence and the mean of k3."""
    prompt_of = {tuple(tokenizer()(text)["input_ids"]): i for i, text in enumerate(PROMPTS)}
    rows = []
    for inputs, _ in batches:
        prompts = cut(inputs["prompt_ids"], inputs["prompt_mask"])
        completions = cut(inputs["completion_ids"], inputs["completion_mask"])
        ref, mask = ours(reference, prompts, completions)
        width = inputs["completion_mask"].shape[1] - ref.shape[1]
        ref = torch.nn.functional.pad(ref.detach() * mask, (0, width))
        for i, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
            row = {"x": prompt_of[tuple(prompt)], "r": share(completion), "advantage": float(inputs["advantages"][i])}
            row["ref"] = ref[i]
            row["old_logp"] = float(inputs["old_logps"][i]) if "old_logps" in inputs else None
            rows.append(row)
    return rows


def leave_one_out(values):
    return [v - (sum(values) - v) / (len(values) - 1) for v in values]


@pytest.mark.parametrize(
    "settings",
    [{}, {"num_iterations": 2, "steps_per_generation": 2}, {"gradient_accumulation_steps": 2, "beta": 0.2}],
    ids=["plain", "two iterations", "accumulation, KL"],
)
@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_ones_are_the_plain_trainer(kind, settings, saved, tmp_path):
    found = []
    for coefficients in (None, ONES):
        args = config(kind, tmp_path, 2 * GROUP, steps=2, **settings)
        trainer = build(kind, saved, args, coefficients)
        trainer.train()
        found.append((trainer.model.state_dict(), [timeless(log) for log in trainer.state.log_history]))
    (plain, log), (at_k, at_k_log) = found
    assert any(not torch.equal(plain[name], value) for name, value in model().state_dict().items())
    assert all(torch.equal(plain[name], at_k[name]) for name in plain)
    assert len(log) == 3
    assert at_k_log == log


@pytest.mark.parametrize("scale_rewards", ["group", "batch", "none"])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_grpo_multiplies_after_standardising(training, scale_rewards, saved, tmp_path):
    settings = {"steps_per_generation": 4, "gradient_accumulation_steps": 2, "num_iterations": 2}
    args = config("grpo", tmp_path, GROUP, 2, scale_rewards=scale_rewards, per_device_eval_batch_size=16, **settings)
    trainer = build("grpo", saved, args, A, eval_dataset=data())
    seen = losses_of(trainer)
    trainer.train() if training else trainer.evaluate()
    rows = stored(seen[:4] if training else seen, model())
    assert len(rows) == 16
    if training:
        assert [row["x"] for row in rows] != sorted(row["x"] for row in rows)
    spread = np.std([row["r"] for row in rows], ddof=1)
    for x, a in enumerate(A.values()):
        group = [row for row in rows if row["x"] == x]
        r = np.array([row["r"] for row in group])
        by = {"group": r.std(ddof=1) + 1e-4, "batch": spread + 1e-4, "none": 1.0}[scale_rewards]
        assert len(group) == GROUP
        np.testing.assert_allclose([row["advantage"] for row in group], a * (r - r.mean()) / by, **TOLERANCE)
    assert max(abs(row["advantage"]) for row in rows) > 0.3
    a_of = dict(zip(PROMPTS, A.values(), strict=True))
    assert list(trainer._logs["extra"]["a_k"]) == pytest.approx([a_of[prompt] for prompt in trainer._logs["prompt"]])


def test_grpo_leaves_the_kl_alone(saved, tmp_path):
    args = config("grpo", tmp_path, 16, loss_type="grpo", beta=0.7)
    trainer = build("grpo", saved, args, A)
    move(trainer.model)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    seen = losses_of(trainer)
    trainer.train()
    inputs, loss = seen[0]
    prompts = cut(inputs["prompt_ids"], inputs["prompt_mask"])
    completions = cut(inputs["completion_ids"], inputs["completion_mask"])
    policy = model()
    policy.load_state_dict(before)
    ref, mask = ours(model(), prompts, completions)
    gap = ref.detach() - ours(policy, prompts, completions)[0].detach()
    k3 = ((gap.exp() - gap - 1) * mask).sum(1) / mask.sum(1)
    assert float(k3.mean()) > 0.01
    np.testing.assert_allclose(loss, (0.7 * k3 - inputs["advantages"]).mean(), **TOLERANCE)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_rloo_multiplies_the_reward_and_not_the_kl(training, saved, tmp_path):
    beta, weights = 0.3, [2.0, 0.5]
    settings = {"steps_per_generation": 4, "gradient_accumulation_steps": 2, "reward_weights": weights}
    args = config("rloo", tmp_path, GROUP, 2, beta=beta, per_device_eval_batch_size=16, **settings)

    def short(completion_ids, **_):
        return [None if len(row) > 5 else 1.0 for row in completion_ids]

    trainer = build("rloo", saved, args, A, rewards=[graded, short], eval_dataset=data())
    move(trainer.model)
    seen = losses_of(trainer)
    trainer.train() if training else trainer.evaluate()
    batches = seen[:4] if training else seen
    rows = stored(batches, model())
    completions = [row for inputs, _ in batches for row in cut(inputs["completion_ids"], inputs["completion_mask"])]
    for row, completion in zip(rows, completions, strict=True):
        row["R"] = weights[0] * row["r"] + weights[1] * (len(completion) <= 5)
        row["kl"] = row["old_logp"] - float(row["ref"].sum())
    assert max(abs(row["kl"]) for row in rows) > 0.1
    for x, a in enumerate(A.values()):
        group = [row for row in rows if row["x"] == x]
        wanted = leave_one_out([a * row["R"] - beta * row["kl"] for row in group])
        np.testing.assert_allclose([row["advantage"] for row in group], wanted, rtol=1e-4, atol=2e-5)
    log = trainer.state.log_history[0]
    prefix = "" if training else "eval_"
    assert log[f"{prefix}rewards/graded/mean"] == pytest.approx(np.mean([row["r"] for row in rows]), rel=1e-5)
    a = list(A.values())
    assert log[f"{prefix}reward"] == pytest.approx(np.mean([a[row["x"]] * row["R"] for row in rows]), rel=1e-5)


def pairs():
    columns = {"chosen": [" " + t for t in texts(4, 2)], "rejected": [" " + t for t in texts(4, 3)]}
    return data(**columns)


def dpo(folder, beta_eff=None, **settings):
    made = trl.DPOTrainer if beta_eff is None else functools.partial(integration.AtKDPOTrainer, beta_eff=beta_eff)
    args = trl.DPOConfig(**{**common(folder, 4), **settings})
    given = {"train_dataset": pairs(), "eval_dataset": pairs(), "processing_class": tokenizer()}
    return made(model=model(0), ref_model=model(1), args=args, **given)


def test_dpo_gives_each_pair_its_beta(tmp_path):
    betas = {"p0": 0.05, "p1": 2.0, "p2": 0.4, "p3": 0.9}
    trainer = dpo(tmp_path, betas, beta=17.0)
    inputs = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    prompts = cut(inputs["input_ids"], inputs["attention_mask"] * (1 - inputs["completion_mask"]))
    completions = cut(inputs["input_ids"], inputs["completion_mask"])
    id_of = {tuple(tokenizer()(text)["input_ids"]): id for text, id in zip(PROMPTS, betas, strict=True)}
    ids = [id_of[tuple(prompt)] for prompt in prompts[:4]]
    assert ids != list(betas)
    beta = torch.tensor([betas[id] for id in ids])
    logprobs, mask = ours(trainer.model, prompts, completions)
    ref = ours(model(1), prompts, completions)[0].detach()
    chosen, rejected = ((logprobs - ref) * mask).sum(1).chunk(2)
    loss = trainer._compute_loss(trainer.model, inputs, False)
    agree(loss, -logsigmoid(beta * (chosen - rejected)).mean(), trainer.model)
    logged = trainer._metrics["eval"]
    np.testing.assert_allclose(logged["rewards/chosen"][0], (beta * chosen).mean().item(), rtol=1e-4)
    np.testing.assert_allclose(logged["rewards/margins"][0], (beta * (chosen - rejected)).mean().item(), rtol=1e-4)
    assert trainer.beta == 17.0


@pytest.mark.parametrize("settings", [{}, {"precompute_ref_log_probs": True}, {"gradient_accumulation_steps": 2}])
def test_dpo_with_one_beta_is_the_plain_trainer(settings, tmp_path):
    found = []
    for beta_eff in (None, dict.fromkeys(A, 0.3)):
        trainer = dpo(tmp_path, beta_eff, beta=0.3, max_steps=2, per_device_train_batch_size=2, **settings)
        trainer.train()
        found.append((trainer.model.state_dict(), timeless(trainer.evaluate(pairs()))))
    (plain, plain_metrics), (at_k, metrics) = found
    assert any(not torch.equal(plain[name], value) for name, value in model(0).state_dict().items())
    assert all(torch.equal(plain[name], at_k[name]) for name in plain)
    assert metrics == plain_metrics


def test_adapted_rewards_train(saved, tmp_path):
    bank = {id: [0.0, 0.2, 0.5, 0.6, 1.0] for id in A}
    pressure, kept = WinRate(4, 0.1), []

    def remembered(completion_ids, **_):
        kept.extend(graded(completion_ids))
        return kept[-16:]

    adapted = integration.at_k_reward(remembered, pressure, bank)
    trainer = build("rloo", saved, config("rloo", tmp_path, 16, beta=0.0), rewards=adapted)
    trainer.train()
    wanted = pressure.adapt(np.array([kept]), pressure.fit(np.array([bank["p0"]]))).reward
    assert trainer.state.log_history[0]["rewards/remembered/mean"] == pytest.approx(wanted.mean(), rel=1e-5)


def test_streams_and_dropped_columns(saved, tmp_path):
    args = config("grpo", tmp_path, 16, remove_unused_columns=True)
    trainer = build("grpo", saved, args, A)
    trainer.train()
    stream = data().to_iterable_dataset()
    trainer = build("grpo", saved, config("grpo", tmp_path, 16), {"p0": 1.0}, train_dataset=stream)
    with pytest.raises(UserError, match=r"none for 12 of 16 prompts of the batch, such as 'p\d' in column 'prompt_id'"):
        trainer.train()


def test_errors_come_before_the_model(tmp_path):
    def refused(kind, coefficients, words, settings=None, **more):
        given = {"beta_eff" if kind == "dpo" else "coefficients": coefficients, "train_dataset": data(), **more}
        if kind == "dpo":
            given["args"] = trl.DPOConfig(**common(tmp_path, 4), **(settings or {}))
        else:
            given |= {"args": config(kind, tmp_path, 4, **(settings or {})), "reward_funcs": graded}
        with pytest.raises(UserError, match=words):
            getattr(integration, AT_K[kind])(model="no such model", **given)

    few = {"p0": 1.0, "p1": 1.0}
    for kind in AT_K:
        refused(kind, few, "none for 2 of 4 prompts of train_dataset, such as 'p2' in column 'prompt_id'")
        refused(kind, ONES, "no column 'id' of prompt ids.*id_column=", id_column="id")
        refused(kind, {**ONES, "p1": -0.5}, "-0.5 for prompt 'p1'; expected a number")
        refused(kind, {**ONES, "p1": float("inf")}, "inf for prompt 'p1'")
        held_out = datasets.DatasetDict({"held_out": data(prompt_id=["p0", "p1", "p2", "new"])})
        refused(kind, ONES, r"eval_dataset\['held_out'\], such as 'new'", eval_dataset=held_out)
    refused("dpo", {**ONES, "p1": 0.0}, "0 for prompt 'p1'; expected a number above 0.*--interface regularization")
    refused("dpo", ONES, r"loss_type = \['ipo'\]: expected \['sigmoid'\]", {"loss_type": "ipo"})
    refused("dpo", ONES, "f_divergence_type = 'forward_kl'", {"f_divergence_type": "forward_kl"})
    refused("rloo", ONES, "normalize_advantages = True: expected False", {"normalize_advantages": True})
    refused("rloo", ONES, "reward_clip_range = .*: expected None", {"reward_clip_range": (-1.0, 1.0)})

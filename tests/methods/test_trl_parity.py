import copy

import numpy as np
import pytest
import torch

from kappo.logprobs import pack, token_logprobs
from kappo.methods.apo import APO
from kappo.methods.base import Batch
from kappo.methods.dpo import DPO
from kappo.methods.grpo import GRPO
from kappo.pressure.none import NoPressure

pytestmark = pytest.mark.slow
trl = pytest.importorskip("trl", reason="the peer is not installed")
datasets = pytest.importorskip("datasets")

WORDS, EOS = 20, 2
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    torch.set_num_threads(1)


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<bos>", "<eos>", "<unk>"]
    vocabulary = {word: i for i, word in enumerate(special + [f"w{i}" for i in range(4, WORDS)])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=made, padding_side="left", **names)


def model(seed=0):
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "head_dim": 8,
        "initializer_range": 0.3,
    }
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}
    ids = {"bos_token_id": 1, "eos_token_id": EOS, "pad_token_id": 0}
    return Qwen3ForCausalLM(Qwen3Config(vocab_size=WORDS, tie_word_embeddings=True, **sizes, **heads, **ids)).eval()


def texts(count, seed, longest=6):
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{i}" for i in rng.integers(4, WORDS, rng.integers(2, longest))) for _ in range(count)]


def common(folder, batch):
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "logging_steps": 1, "max_steps": 1}
    plain = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "per_device_train_batch_size": batch}
    return {"output_dir": str(folder), "learning_rate": 1e-3, **quiet, **plain}


def ours(network, prompts, completions):
    """Packed rows, their mask and the log-probs that kappo computes for them, with gradient."""
    sequences = pack(prompts, completions, 0)
    return token_logprobs(network, sequences)[0], sequences.mask


def cut(ids, mask):
    return [row[keep.bool()].tolist() for row, keep in zip(ids, mask, strict=True)]


def mean_loss(method, logprobs, mask, batch):
    signal = {name: torch.tensor(value, dtype=torch.float32) for name, value in method.signal(batch).items()}
    return method.loss(logprobs, mask, signal).mean()


def gradients(loss, network):
    network.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in network.named_parameters()}


def agree(theirs, mine, network):
    np.testing.assert_allclose(float(mine.detach()), float(theirs.detach()), **TOLERANCE)
    want, got = gradients(theirs, network), gradients(mine, network)
    assert max(float(g.abs().max()) for g in want.values()) > 1e-3
    for name, gradient in want.items():
        np.testing.assert_allclose(got[name], gradient, err_msg=name, rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def grpo_step(tmp_path_factory):
    """One step of GRPOTrainer: the trainer, what it generated and scored, and the rewards it was given."""
    kept = {}

    def reward(completion_ids, **_):
        kept["rewards"] = [float(np.mean([token % 7 < 3 for token in row])) for row in completion_ids]
        return kept["rewards"]

    settings = common(tmp_path_factory.mktemp("grpo"), 16)
    args = trl.GRPOConfig(
        loss_type="grpo", beta=0.0, num_generations=8, max_completion_length=12, temperature=1.0, **settings
    )
    data = datasets.Dataset.from_dict({"prompt": texts(8, 1)})
    trainer = trl.GRPOTrainer(
        model=model(), args=args, train_dataset=data, reward_funcs=reward, processing_class=tokenizer()
    )
    score = trainer._generate_and_score_completions

    def spy(inputs):
        kept["scored"] = {name: value.clone() for name, value in score(inputs).items() if torch.is_tensor(value)}
        return kept["scored"]

    trainer._generate_and_score_completions = spy
    trainer.train()
    return trainer, kept["scored"], np.array(kept["rewards"]).reshape(-1, 8)


@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_grpo(grpo_step, noise):
    trainer, scored, rewards = grpo_step
    network, method = trainer.model, GRPO(samples_per_prompt=8, eps=1e-4)
    prompts = cut(scored["prompt_ids"], scored["prompt_mask"])
    completions = cut(scored["completion_ids"], scored["completion_mask"])
    logprobs, mask = ours(network, prompts, completions)
    assert len(set(map(len, completions))) > 1
    np.testing.assert_array_equal(mask, scored["completion_mask"])
    generator = torch.Generator().manual_seed(0)
    behaviour = logprobs.detach() + noise * torch.randn(logprobs.shape, generator=generator) * mask
    ratio = (logprobs.detach() - behaviour).exp()
    assert bool(((ratio - 1).abs() > 0.2).any()) == (noise > 0)

    pressure = NoPressure(0.1)
    adapted = pressure.adapt(rewards, pressure.fit(np.array([[0.0, 0.5]] * len(rewards))))
    batch = Batch(mask.numpy().astype(float), np.zeros(mask.shape), behaviour.double().numpy(), adapted)
    np.testing.assert_allclose(method.signal(batch)["advantage"], scored["advantages"], **TOLERANCE)
    inputs = {**scored, "old_per_token_logps": behaviour} if noise else scored
    agree(trainer._compute_loss(network, inputs), mean_loss(method, logprobs, mask, batch), network)


@pytest.mark.parametrize(("loss_type", "smoothing"), [("sigmoid", 0.0), ("aot", 0.0), ("aot", 0.268941)])
def test_dpo(tmp_path, loss_type, smoothing):
    """TRL's sigmoid loss ignores label_smoothing; its aot loss of a batch of one pair is the smoothed sigmoid."""
    columns = {
        "prompt": texts(4, 1),
        "chosen": [" " + t for t in texts(4, 2)],
        "rejected": [" " + t for t in texts(4, 3)],
    }
    args = trl.DPOConfig(
        loss_type=loss_type, label_smoothing=smoothing, beta=0.3, **common(tmp_path, 4 if loss_type == "sigmoid" else 1)
    )
    network, reference = model(0), model(1)
    trainer = trl.DPOTrainer(
        model=network,
        ref_model=reference,
        args=args,
        train_dataset=datasets.Dataset.from_dict(columns),
        processing_class=tokenizer(),
    )
    inputs = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    keep, pairs = inputs["completion_mask"], len(inputs["input_ids"]) // 2
    order = [row for pair in range(pairs) for row in (pair, pairs + pair)]
    prompts = cut(inputs["input_ids"], inputs["attention_mask"] * (1 - keep))
    completions = cut(inputs["input_ids"], keep)
    prompts, completions = [prompts[i] for i in order], [completions[i] for i in order]
    logprobs, mask = ours(network, prompts, completions)
    ref = ours(reference, prompts, completions)[0].detach().double().numpy()
    pressure = NoPressure(0.3)
    rows = pressure.fit(np.array([[0.0, 1.0]] * pairs), "regularization")
    adapted = pressure.adapt(np.array([[1.0, 0.0]] * pairs), rows, "regularization")
    batch = Batch(mask.numpy().astype(float), ref, ref, adapted)
    theirs = trainer._compute_loss(trainer.model, inputs, False)
    agree(theirs, mean_loss(DPO(smoothing), logprobs, mask, batch), network)


def test_apo(tmp_path):
    """V* and the regression of A2POTrainer, with one beta for both of its stages."""
    a2po = pytest.importorskip("trl.experimental.a2po", reason="this TRL has no A*PO", exc_type=ImportError)
    beta, samples, calls = 0.4, 5, []

    def reward(prompts, completions, **_):
        calls.append([float(len(text.split()) % 3 == 0) for text in completions])
        return calls[-1]

    args = a2po.A2POConfig(
        beta1=beta,
        beta2=beta,
        num_value_samples=samples,
        filter_all_incorrect=False,
        max_completion_length=5,
        **common(tmp_path, 4),
    )
    network = model(0)
    trainer = a2po.A2POTrainer(
        model=network,
        reward_funcs=reward,
        args=args,
        train_dataset=datasets.Dataset.from_dict({"prompt": texts(4, 1)}),
        processing_class=tokenizer(),
    )
    reference = copy.deepcopy(network)
    with torch.no_grad():
        for p in network.parameters():
            p.add_(0.02 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())))
    trainer._estimate_optimal_values()
    bank = np.array(calls[0]).reshape(4, samples)
    assert len(set(bank.sum(1))) > 1
    inputs = trainer._prepare_inputs([{"prompt": text} for text in texts(4, 1)])
    pressure = NoPressure(beta)
    adapted = pressure.adapt(np.array(calls[1])[:, None], pressure.fit(bank))
    np.testing.assert_allclose(beta * adapted.log_partition[:, 0], inputs["v_star"], **TOLERANCE)

    width = inputs["logits_to_keep"]
    keep = torch.nn.functional.pad(torch.ones(4, width), (inputs["input_ids"].shape[1] - width, 0))
    prompts = cut(inputs["input_ids"], inputs["attention_mask"] * (1 - keep))
    completions = cut(inputs["input_ids"], inputs["attention_mask"] * keep)
    logprobs, mask = ours(network, prompts, completions)
    ref = ours(reference, prompts, completions)[0].detach().double().numpy()
    batch = Batch(mask.numpy().astype(float), ref, ref, adapted)
    agree(trainer.compute_loss(network, inputs), mean_loss(APO(), logprobs, mask, batch), network)

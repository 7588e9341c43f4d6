"""Models and tokenizers: made from nothing, loaded, saved; always in Hugging Face's format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kappo import streams
from kappo.config import Model
from kappo.errors import UserError
from kappo.records import write_bytes

WEIGHTS = "model.safetensors"
PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"


def fresh_tokenizer(vocabulary: list[str], max_length: int) -> Any:
    """A tokenizer whose tokens are exactly the given strings; longer ones are matched first."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    ids = {token: i for i, token in enumerate([PAD, EOS, UNKNOWN, *vocabulary])}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    longer = [token for token in vocabulary if len(token) > 1]
    pattern = "|".join([*("".join(f"\\x{{{ord(c):X}}}" for c in token) for token in longer), r"[\s\S]"])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=EOS, unk_token=UNKNOWN, model_max_length=max_length
    )


def fresh_model(settings: Model, tokenizer: Any, seed: int) -> Any:
    """A Qwen3 whose weights are a function of the settings and the seed: normal with init_std, norms at 1."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden_size,
        intermediate_size=settings.intermediate_size,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.kv_heads,
        head_dim=settings.head_dim,
        max_position_embeddings=settings.max_positions,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                noise = streams.normal(seed, f"init/{name}", np.arange(parameter.numel())) * settings.init_std
                parameter.copy_(torch.from_numpy(noise).reshape(parameter.shape))
    return model.eval()


def save_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """A folder that AutoModelForCausalLM and AutoTokenizer load; the weights' bytes depend on the weights alone."""
    folder.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_tensors({k: v for k, v in model.state_dict().items() if k not in tied(model)}, folder / WEIGHTS)


def tied(model: Any) -> set[str]:
    return {"lm_head.weight"} if model.config.tie_word_embeddings else set()


def save_tensors(tensors: dict[str, Any], path: Path) -> None:
    from safetensors.torch import save

    write_bytes(path, save({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, {"format": "pt"}))


def load_model(folder: Path, threads: int) -> tuple[Any, Any]:
    """Model (float32, evaluation mode) and tokenizer of a Hugging Face folder. Raises UserError when unreadable."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} holds no model (no config.json): make it again with its stage")
    torch.set_num_threads(threads)
    logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # safetensors and transformers raise a dozen kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{folder} holds no loadable model ({reason}): delete the folder and rerun its stage") from None
    return model.eval(), tokenizer

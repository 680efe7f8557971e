"""Makes an ordinary Hugging Face model folder around a GGUF file, so that the rest of Tritone knows one kind of folder.

Runs in our process. Only the metadata is read: tokenizer.json, tokenizer_config.json (with the chat template),
config.json and generation_config.json are written; the weights stay GGUF, beside them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tritone.cache import artifact, files_digest
from tritone.errors import ModelError
from tritone.gguf_metadata import GgufMetadata, read_gguf
from tritone.gguf_tokenizer import GgufVocabulary, build_tokenizer

# GGUF architecture: the transformers class of the same model. These are the ones OpenVINO GenAI loads.
_ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}

# Part of a converted folder's name in the cache: raise it whenever what is written here changes.
_REVISION = 1


def gguf_to_folder(gguf: Path, folder: Path) -> None:
    """Write the Hugging Face files for `gguf` into the existing `folder`, and a link to it unless it lies there.

    Raises ModelError if the file is damaged, or its architecture, vocabulary or pre-tokenizer is not supported.
    """
    metadata = read_gguf(gguf)
    vocabulary = GgufVocabulary.of(metadata.values)
    config = _model_config(metadata, vocabulary)
    build_tokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    tokenizer_config = _tokenizer_config(metadata.values, vocabulary, config["max_position_embeddings"])
    _write_json(folder / "tokenizer_config.json", tokenizer_config)
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", _special_ids(vocabulary))
    if gguf.parent.resolve() != folder.resolve():
        (folder / gguf.name).symlink_to(gguf.resolve())


def cached_gguf_folder(gguf: Path) -> Path:
    """The folder of `gguf_to_folder` for a user's file, made in the cache on the first call for that file."""
    return artifact(f"gguf-{files_digest([gguf], _REVISION)}", lambda folder: gguf_to_folder(gguf.resolve(), folder))


def _model_config(metadata: GgufMetadata, vocabulary: GgufVocabulary) -> dict[str, Any]:
    architecture = metadata.values.get("general.architecture")
    if architecture not in _ARCHITECTURES:
        raise ModelError(
            f"the GGUF file's architecture {architecture!r} is not supported; accepted: {', '.join(_ARCHITECTURES)}"
        )
    sizes = _sizes(metadata.values, architecture)
    return {
        "architectures": [_ARCHITECTURES[architecture]],
        "model_type": architecture,
        **sizes,
        "hidden_act": "silu",
        "vocab_size": len(vocabulary.tokens),
        "tie_word_embeddings": "output.weight" not in metadata.tensors,
        "attention_bias": "blk.0.attn_q.bias" in metadata.tensors,
        "torch_dtype": "float16",
        **_special_ids(vocabulary),
    }


def _sizes(values: dict[str, Any], architecture: str) -> dict[str, Any]:
    def value(key: str, default: Any = None) -> Any:
        found = values.get(f"{architecture}.{key}", default)
        if found is None:
            raise ModelError(f"the GGUF file has no {architecture}.{key}")
        return found

    hidden, heads = value("embedding_length"), value("attention.head_count")
    return {
        "hidden_size": hidden,
        "intermediate_size": value("feed_forward_length"),
        "num_hidden_layers": value("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": value("attention.head_count_kv", heads),
        "head_dim": value("attention.key_length", hidden // heads),
        "max_position_embeddings": value("context_length"),
        "rms_norm_eps": value("attention.layer_norm_rms_epsilon"),
        "rope_theta": value("rope.freq_base", 10000.0),
    }


def _special_ids(vocabulary: GgufVocabulary) -> dict[str, Any]:
    """The bos, eos and pad ids; every token that ends an answer counts as eos, and without a pad token eos pads."""
    ends = [vocabulary.token_id(role) for role in ("eos", "eot", "eom")]
    eos = list(dict.fromkeys(token_id for token_id in ends if token_id is not None))
    pad = vocabulary.token_id("padding")
    ids = {
        "bos_token_id": vocabulary.token_id("bos"),
        "eos_token_id": eos[0] if len(eos) == 1 else eos or None,
        "pad_token_id": eos[0] if pad is None and eos else pad,
    }
    return {role: value for role, value in ids.items() if value is not None}


def _tokenizer_config(values: dict[str, Any], vocabulary: GgufVocabulary, max_length: int) -> dict[str, Any]:
    tokens = vocabulary.tokens
    eos = vocabulary.token_id("eos")
    roles = {
        "bos_token": vocabulary.token_id("bos"),
        "eos_token": eos,
        "unk_token": vocabulary.token_id("unknown"),
        "pad_token": eos if vocabulary.token_id("padding") is None else vocabulary.token_id("padding"),
    }
    config: dict[str, Any] = {
        # This class takes tokenizer.json as it is; a model's own class would build another from its parts.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
        **{role: tokens[token_id] for role, token_id in roles.items() if token_id is not None},
    }
    if template := _chat_template(values):
        config["chat_template"] = template
    return config


def _chat_template(values: dict[str, Any]) -> str | list[dict[str, str]] | None:
    """The one template, or all of them by name as transformers lists them when there are others beside the default."""
    prefix = "tokenizer.chat_template"
    default: str | None = values.get(prefix)
    named = {key.removeprefix(prefix + "."): value for key, value in values.items() if key.startswith(prefix + ".")}
    if not named:
        return default
    if default is not None:
        named = {"default": default, **named}
    return [{"name": name, "template": template} for name, template in named.items()]


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

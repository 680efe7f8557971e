"""Model folders written from the toy tokenizers, and requests as Triton's adapter hands them to the pipeline."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, processors

from preprocess.errors import InvalidRequest
from preprocess.fields import READERS
from preprocess.pipeline import Pipeline, Request
from preprocess.prepared import Prepared
from preprocess.settings import PreprocessSettings
from tests.toy_tokenizers import BOS, IM_END, PADDED_VOCAB_SIZE, byte_fallback_tokenizer, byte_level_tokenizer

CONTEXT = 64
CONFIG = {"vocab_size": PADDED_VOCAB_SIZE, "max_position_embeddings": CONTEXT, "eos_token_id": IM_END}

PLAIN_CHAT = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}"
    "<{{ c.function.name }}{% for k, v in c.function.arguments.items() %} {{ k }}={{ v }}{% endfor %}>{% endfor %}"
    "<|im_end|>{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)

_DTYPES: dict[str, type[np.generic]] = {
    **dict.fromkeys(["temperature", "top_p", "min_p"], np.float32),
    **dict.fromkeys(["repetition_penalty", "presence_penalty", "frequency_penalty"], np.float32),
    "seed": np.uint64,
}


def write_model(
    folder: Path,
    tokenizer: Tokenizer | None = None,
    *,
    chat_template: Any = PLAIN_CHAT,
    config: Mapping[str, Any] = CONFIG,
    generation_config: Mapping[str, Any] | None = None,
    **tokenizer_config: Any,
) -> Path:
    """Write a byte-level model (or the given tokenizer's); None for `chat_template` leaves it out."""
    folder.mkdir(parents=True, exist_ok=True)
    (tokenizer or byte_level_tokenizer()).save(str(folder / "tokenizer.json"))
    _write(folder / "config.json", {"model_type": "llama", **config})
    if generation_config is not None:
        _write(folder / "generation_config.json", generation_config)
    if chat_template is not None:
        tokenizer_config["chat_template"] = chat_template
    _write(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **tokenizer_config})
    return folder


def write_bos_model(folder: Path, chat_template: str = "{{ bos_token }}" + PLAIN_CHAT) -> Path:
    """A sentencepiece-style model whose tokenizer puts `<s>` before every text."""
    tokenizer = byte_fallback_tokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
    config = {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": CONTEXT, "eos_token_id": 2}
    return write_model(folder, tokenizer, chat_template=chat_template, config=config, bos_token="<s>", eos_token="</s>")


def load(folder: Path, **settings: Any) -> Pipeline:
    return Pipeline(PreprocessSettings(tokenizer_dir=folder, **settings))


def request(parameters: Mapping[str, object] | None = None, **fields: Any) -> Request:
    """Plain Python values as tensors with Triton's batch dimension; lists and dicts of JSON fields are written out."""
    return {name: _tensor(name, value) for name, value in fields.items()}, parameters or {}


def chat(*messages: Any, **fields: Any) -> Request:
    """A request whose messages are (role, content) pairs or whole objects."""
    objects = [
        message if isinstance(message, dict) else {"role": message[0], "content": message[1]} for message in messages
    ]
    return request(messages=objects, **fields)


def prepared(pipeline: Pipeline, one: Request) -> Prepared:
    """The answer to a request that must succeed."""
    (answer,) = pipeline.prepare([one])
    assert isinstance(answer, Prepared), answer
    return answer


def refusal(pipeline: Pipeline, one: Request) -> str:
    """The error text of a request that must fail."""
    (answer,) = pipeline.prepare([one])
    assert isinstance(answer, InvalidRequest), answer
    return str(answer)


def prompt_text(pipeline: Pipeline, one: Request) -> str:
    """The prompt of a byte-level model as text."""
    return pipeline._tokenizer.decode(prepared(pipeline, one).input_ids.tolist())


def _tensor(name: str, value: Any) -> Any:
    reader = READERS[name].__name__
    if reader in ("_json_list", "_json_object") and not isinstance(value, bytes):
        return [json.dumps(value).encode()]
    if reader in ("_text", "_texts", "_json_list", "_json_object"):
        values = value if isinstance(value, list) else [value]
        return [entry.encode() if isinstance(entry, str) else entry for entry in values]
    dtype = np.bool_ if isinstance(value, bool) else _DTYPES.get(name, np.int32)
    return np.atleast_2d(np.array(value, dtype=dtype))


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")

"""Every setting of a model repository: its stage, type, default and limits. Unknown or wrong ones fail by name."""

from __future__ import annotations

import dataclasses
import difflib
import math
from dataclasses import dataclass
from typing import Any

REQUIRED = object()


class SettingError(ValueError):
    """A setting is unknown, missing or not allowed. The message names it and says what is allowed."""


@dataclass(frozen=True)
class Setting:
    """One setting. `kind` is the Python type; numbers may have limits, strings may have choices."""

    name: str
    kind: type
    default: Any
    help: str
    minimum: float = -math.inf
    maximum: float = math.inf
    choices: tuple[str, ...] = ()

    def check(self, value: Any) -> Any:
        """The value as the stage will see it. Raises SettingError."""
        if self.kind is float and type(value) is int:
            value = float(value)
        if type(value) is not self.kind:
            raise SettingError(f"{self.name}: expected {self.kind.__name__}, got {value!r}")
        if self.choices and value not in self.choices:
            raise SettingError(f"{self.name}: expected one of {', '.join(self.choices)}, got {value!r}")
        if isinstance(value, (int, float)) and not self.minimum <= value <= self.maximum:
            raise SettingError(f"{self.name}: expected {self._limits()}, got {value!r}")
        return value

    def _limits(self) -> str:
        if math.isinf(self.maximum):
            return f"at least {self.minimum:g}"
        return f"{self.minimum:g} to {self.maximum:g}"


_TRUST_REMOTE_CODE = Setting("trust_remote_code", bool, False, "run Python code that comes with the model")
_MAX_MODEL_LEN = Setting("max_model_len", int, REQUIRED, "longest prompt and answer together, in tokens", 2, 2**31 - 1)

PREPROCESS = (
    _MAX_MODEL_LEN,
    Setting("vocab_size", int, REQUIRED, "token ids are below this", 1, 2**31 - 1),
    Setting("stream_default", bool, True, "what a request without `stream` gets"),
    Setting(
        "generation_config",
        str,
        "auto",
        "whether sampling defaults come from the model's generation_config.json (auto) or are neutral (none)",
        choices=("auto", "none"),
    ),
    Setting("chat_template", str, "", "a Jinja file to use instead of the model's chat template"),
    _TRUST_REMOTE_CODE,
)

_HUGGING_FACE_FOLDER = Setting("model_path", str, REQUIRED, "a Hugging Face folder")
_MAX_NUM_SEQS = Setting("max_num_seqs", int, 32, "most requests running at once", 1, 2**20)
_STREAMING_CPU_SHARE = Setting(
    "streaming_cpu_share",
    float,
    0.025,
    "part of the CPU that sending chunks may take from the engine; more is smoother and slows the engine down",
    0.001,
    1000,
)

ADAPTERS = {
    "openvino": (
        Setting("model_path", str, REQUIRED, "a GGUF file or an OpenVINO folder"),
        _MAX_NUM_SEQS,
        Setting("kv_cache_gib", int, 1, "size of the KV cache in GiB", 1, 2**20),
        Setting(
            "kv_cache_dtype",
            str,
            "f16",
            "type of the KV cache; u8 halves its size and changes answers",
            choices=("f16", "f32", "u8"),
        ),
        Setting("max_num_batched_tokens", int, 2048, "most tokens in one step", 1, 2**31 - 1),
        Setting("enable_prefix_caching", bool, True, "share the KV cache of equal prompt beginnings"),
        Setting("device", str, "CPU", "the OpenVINO device"),
        _STREAMING_CPU_SHARE,
    ),
    "scripted": (
        Setting("tokens_per_second", float, 100.0, "rate of each sequence", 0.001, 1e6),
        _MAX_NUM_SEQS,
        Setting("first_token_s", float, 0.0, "delay of the first token", 0, 3600),
        Setting("jitter", float, 0.0, "probability that a sequence misses a step", 0, 0.99),
        Setting("seed", int, 0, "seed of the jitter"),
        Setting("script_file", str, "", "JSON file of scripts by prompt; without one a prompt is its own script"),
        Setting("trace_file", str, "", "where to note the time of every token, for benchmarks"),
    ),
    "transformers": (
        _HUGGING_FACE_FOLDER,
        _MAX_NUM_SEQS,
        Setting(
            "dtype",
            str,
            "auto",
            "type of weights and KV cache; auto is that of the model's files",
            choices=("auto", "float32", "bfloat16", "float16"),
        ),
        Setting("batch_wait_s", float, 0.01, "how long the first request waits for others to share its batch", 0, 60),
        Setting("device", str, "cpu", "the PyTorch device: cpu, cuda, cuda:1 and so on"),
        _TRUST_REMOTE_CODE,
        _STREAMING_CPU_SHARE,
    ),
    "vllm": (
        _HUGGING_FACE_FOLDER,
        _MAX_MODEL_LEN,
        dataclasses.replace(_MAX_NUM_SEQS, default=128),
        Setting(
            "kv_cache_gib",
            int,
            0,
            "size of the KV cache in GiB; 0: on a GPU what gpu_memory_utilization leaves, on a CPU 1",
            0,
            2**20,
        ),
        Setting("lora_modules", dict, {}, "LoRA adapters: the name of each and its folder"),
        _TRUST_REMOTE_CODE,
        _STREAMING_CPU_SHARE,
    ),
}

OPEN_ENDED = ("vllm",)
"""Engines that take settings of their own besides, and check their names when they start."""

ENGINE = (
    Setting("engine", str, REQUIRED, "the engine behind the adapter", choices=tuple(ADAPTERS)),
    Setting("ack_timeout_s", float, 5.0, "a client is gone when a chunk is not taken for this long", 0.05, 3600),
    Setting("heartbeat_s", float, 1.0, "a silent stream is checked this often", 0.01, 3600),
    Setting("max_streams", int, 1024, "most requests running and waiting; more are refused", 1, 2**20),
    Setting("run_dir", str, "", "where the stream table lies; empty: $TRITONE_RUN_DIR, else the temporary folder"),
)

POSTPROCESS = (Setting("run_dir", str, "", "as the engine's"),)

STAGE_OPTIONS = (
    Setting("preprocess_instances", int, 1, "tokenizer processes", 1, 64),
    Setting("engine_env", str, "", "virtual environment with the engine's libraries; empty: the server's own"),
    Setting("served_name", str, "", "what clients of the gateway call the model; empty: as Triton does"),
)


def check_settings(given: dict[str, Any], known: tuple[Setting, ...]) -> dict[str, Any]:
    """`given` completed with defaults, in the order of the table. Raises SettingError for unknown or missing ones."""
    names = [setting.name for setting in known]
    unknown = [_describe_unknown(name, names) for name in given if name not in names]
    if unknown:
        raise SettingError(f"unknown settings: {', '.join(unknown)}; known are {', '.join(names)}")
    missing = [setting.name for setting in known if setting.default is REQUIRED and setting.name not in given]
    if missing:
        raise SettingError(f"missing settings: {', '.join(missing)}")
    return {setting.name: setting.check(given.get(setting.name, setting.default)) for setting in known}


def _describe_unknown(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, 1)
    return f"{name} (did you mean {near[0]}?)" if near else name

"""The tensor contract: one table of every tensor between the client and the three stages.

Each stage's config.pbtxt and the ensemble's wiring are made from it. Names are those of NVIDIA's TensorRT-LLM ensemble
wherever one exists, because load tools and clients speak them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Party = Literal["client", "preprocess", "engine", "postprocess"]
STAGES: tuple[Party, ...] = ("preprocess", "engine", "postprocess")


class Tensor(NamedTuple):
    """A tensor on its way from `source` to `reader`. `dims` leave out the batch dimension; -1 is any length."""

    name: str
    dtype: str  # a DataType of Triton's model_config.proto, without "TYPE_"
    dims: tuple[int, ...]
    source: Party
    reader: Party
    is_optional: bool = False
    is_direct: bool = False  # only for calls to the stage itself: the ensemble does not wire it

    @property
    def ensemble_name(self) -> str:
        """The name within the ensemble, where a stage's tensor must not hide the client's of the same name."""
        return self.name if "client" in (self.source, self.reader) else f"{self.source}.{self.name}"


def _inputs(*rows: tuple[str, str, int]) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(name, dtype, (length,), "client", "preprocess", is_optional=True) for name, dtype, length in rows
    )


def _between(source: Party, reader: Party, *rows: tuple[str, str, tuple[int, ...]]) -> tuple[Tensor, ...]:
    # optional, so that a call to the stage itself need not name them all
    return tuple(Tensor(name, dtype, dims, source, reader, is_optional=True) for name, dtype, dims in rows)


CONTRACT: tuple[Tensor, ...] = (
    *_inputs(
        # the prompt: exactly one of three
        ("text_input", "STRING", 1),
        ("messages", "STRING", 1),
        ("input_ids", "INT32", -1),
        # how messages become a prompt
        ("tools", "STRING", 1),
        ("chat_template_kwargs", "STRING", 1),
        ("add_generation_prompt", "BOOL", 1),
        ("continue_final_message", "BOOL", 1),
        # where the answer ends
        ("max_tokens", "INT32", 1),
        ("min_tokens", "INT32", 1),
        ("stop_words", "STRING", -1),
        ("bad_words", "STRING", -1),
        ("stop_token_ids", "INT32", -1),
        ("end_id", "INT32", 1),
        ("pad_id", "INT32", 1),
        ("ignore_eos", "BOOL", 1),
        # how the answer is given
        ("stream", "BOOL", 1),
        ("include_stop_str_in_output", "BOOL", 1),
        ("skip_special_tokens", "BOOL", 1),
        ("exclude_input_in_output", "BOOL", 1),
        # how tokens are chosen
        ("beam_width", "INT32", 1),
        ("temperature", "FP32", 1),
        ("top_k", "INT32", 1),
        ("top_p", "FP32", 1),
        ("min_p", "FP32", 1),
        ("repetition_penalty", "FP32", 1),
        ("presence_penalty", "FP32", 1),
        ("frequency_penalty", "FP32", 1),
        ("seed", "UINT64", 1),
    ),
    *_between(
        "preprocess",
        "engine",
        ("input_ids", "INT32", (-1,)),
        ("input_lengths", "INT32", (1,)),
        ("request_output_len", "INT32", (1,)),
        ("min_tokens", "INT32", (1,)),
        ("end_id", "INT32", (1,)),
        ("stop_words_list", "INT32", (2, -1)),
        ("bad_words_list", "INT32", (2, -1)),
        ("temperature", "FP32", (1,)),
        ("runtime_top_k", "INT32", (1,)),
        ("runtime_top_p", "FP32", (1,)),
        ("min_p", "FP32", (1,)),
        ("repetition_penalty", "FP32", (1,)),
        ("presence_penalty", "FP32", (1,)),
        ("frequency_penalty", "FP32", (1,)),
        ("seed", "UINT64", (1,)),
        ("stream_context", "STRING", (1,)),
    ),
    Tensor("stop", "BOOL", (1,), "client", "engine", is_optional=True, is_direct=True),
    *_between(
        "engine",
        "postprocess",
        ("output_ids", "INT32", (-1,)),
        ("stream_key", "UINT64", (3,)),
        ("stream_context", "STRING", (1,)),
        ("finish_reason", "STRING", (1,)),
    ),
    Tensor("text_output", "STRING", (1,), "postprocess", "client"),
    Tensor("num_output_tokens", "INT32", (1,), "postprocess", "client"),
    # with the last response only
    Tensor("finish_reason", "STRING", (1,), "postprocess", "client"),
    Tensor("num_input_tokens", "INT32", (1,), "postprocess", "client"),
)


def inputs_of(party: Party) -> list[Tensor]:
    """The tensors that `party` reads."""
    return [tensor for tensor in CONTRACT if tensor.reader == party]


def outputs_of(party: Party) -> list[Tensor]:
    """The tensors that `party` makes."""
    return [tensor for tensor in CONTRACT if tensor.source == party]

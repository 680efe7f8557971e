"""The tensor contract: one table of every tensor between the client and the three stages.

Each stage's config.pbtxt and the ensemble's wiring are made from it. Names are those of NVIDIA's TensorRT-LLM ensemble
wherever one exists, because load tools and clients speak them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Party = Literal["client", "preprocess", "engine", "postprocess"]
STAGES: tuple[Party, ...] = ("preprocess", "engine", "postprocess")
TOO_MANY_REQUESTS = "too many requests"
UNAVAILABLE = (TOO_MANY_REQUESTS, "the server is shutting down", "the engine stage has ended", "Stub process")
FAILURES = ("internal error", "the engine failed")
"""How messages begin that are not about the request: Triton's `generate` answers all with the same status. The last of
`UNAVAILABLE` is Triton's own word."""


class Tensor(NamedTuple):
    """A tensor on its way from `source` to `reader`. `dims` leave out the batch dimension; -1 is any length."""

    name: str
    dtype: str  # a DataType of Triton's model_config.proto, without "TYPE_"
    dims: tuple[int, ...]
    source: Party
    reader: Party
    is_optional: bool
    help: str
    is_direct: bool = False  # only for calls to the stage itself: the ensemble does not wire it

    @property
    def ensemble_name(self) -> str:
        """The name within the ensemble, where a stage's tensor must not hide the client's of the same name."""
        return self.name if "client" in (self.source, self.reader) else f"{self.source}.{self.name}"


def _from_client(name: str, dtype: str, length: int, text: str) -> Tensor:
    return Tensor(name, dtype, (length,), "client", "preprocess", True, text)


def _to_engine(name: str, dtype: str, dims: tuple[int, ...], text: str) -> Tensor:
    # optional, so that a call to the stage itself need not name them all
    return Tensor(name, dtype, dims, "preprocess", "engine", True, text)


def _from_engine(name: str, dtype: str, length: int, is_optional: bool, text: str) -> Tensor:
    return Tensor(name, dtype, (length,), "engine", "postprocess", is_optional, text)


def _to_client(name: str, dtype: str, text: str) -> Tensor:
    return Tensor(name, dtype, (1,), "postprocess", "client", False, text)


CONTRACT: tuple[Tensor, ...] = (
    _from_client("text_input", "STRING", 1, "the prompt as text; this, `messages` or `input_ids`, exactly one"),
    _from_client("messages", "STRING", 1, "the prompt as a JSON list of chat messages, for the model's chat template"),
    _from_client("input_ids", "INT32", -1, "the prompt as token ids"),
    _from_client("tools", "STRING", 1, "JSON list of tools for the chat template"),
    _from_client("chat_template_kwargs", "STRING", 1, "JSON object of more values for the chat template"),
    _from_client("add_generation_prompt", "BOOL", 1, "begin the assistant's turn at the prompt's end; default true"),
    _from_client("continue_final_message", "BOOL", 1, "go on with the last message, which is the assistant's"),
    _from_client("max_tokens", "INT32", 1, "most tokens of the answer; default: up to the context limit"),
    _from_client("min_tokens", "INT32", 1, "no end token and no stop word counts before; default 0"),
    _from_client("stop_words", "STRING", -1, 'texts that end the answer, found across token borders; "" is none'),
    _from_client("bad_words", "STRING", -1, 'texts never made, where the engine can; "" is none'),
    _from_client("stop_token_ids", "INT32", -1, "more end tokens"),
    _from_client("end_id", "INT32", 1, "end token instead of the model's; -1 is none"),
    _from_client("pad_id", "INT32", 1, "checked for range and not needed: nothing is padded"),
    _from_client("ignore_eos", "BOOL", 1, "go on after the model's end tokens"),
    _from_client("stream", "BOOL", 1, "text as it comes, or one answer at the end; default true (`stream_default`)"),
    _from_client("include_stop_str_in_output", "BOOL", 1, "leave the stop word in the text"),
    _from_client("skip_special_tokens", "BOOL", 1, "special tokens are no text; default true"),
    _from_client(
        "exclude_input_in_output", "BOOL", 1, "false: the prompt comes first (stream=false only); default true"
    ),
    _from_client("beam_width", "INT32", 1, "1 is all there is"),
    _from_client("temperature", "FP32", 1, "0 is greedy"),
    _from_client("top_k", "INT32", 1, "choose among so many; 0 and -1 are off"),
    _from_client("top_p", "FP32", 1, "choose among those that make up this probability, above 0 to 1"),
    _from_client("min_p", "FP32", 1, "least probability relative to the likeliest token's, 0 to 1"),
    _from_client("repetition_penalty", "FP32", 1, "above 1: fewer repetitions of prompt and answer"),
    _from_client("presence_penalty", "FP32", 1, "-2 to 2, once for each token that was made"),
    _from_client("frequency_penalty", "FP32", 1, "-2 to 2, for each time a token was made"),
    _from_client("seed", "UINT64", 1, "of the random choice; default: a random one"),
    _from_client("return_log_probs", "BOOL", 1, "tell each token's log probability, as `logprobs`"),
    _from_client("top_logprobs", "INT32", 1, "and so many of the likeliest tokens each time, 0 to 20; default 0"),
    _from_client(
        "guided_decoding_guide_type",
        "STRING",
        1,
        "what the answer must be: json (any object), json_schema, regex, ebnf_grammar or choice",
    ),
    _from_client(
        "guided_decoding_guide", "STRING", 1, "the schema, expression, grammar, or JSON list of texts to match"
    ),
    _from_client("lora_name", "STRING", 1, "the adapter to answer with, of those that the engine has"),
    _to_engine("input_ids", "INT32", (-1,), "the prompt"),
    _to_engine("input_lengths", "INT32", (1,), "its length"),
    _to_engine("request_output_len", "INT32", (1,), "most tokens to make"),
    _to_engine("min_tokens", "INT32", (1,), "least tokens to make"),
    _to_engine("end_id", "INT32", (1,), "the end token, -1 for none"),
    _to_engine("stop_words_list", "INT32", (2, -1), "token sequences: more end tokens, stop words as early hints"),
    _to_engine("bad_words_list", "INT32", (2, -1), "token sequences never to make"),
    _to_engine("temperature", "FP32", (1,), "0 is greedy"),
    _to_engine("runtime_top_k", "INT32", (1,), "0 is off"),
    _to_engine("runtime_top_p", "FP32", (1,), "1 is off"),
    _to_engine("min_p", "FP32", (1,), "0 is off"),
    _to_engine("repetition_penalty", "FP32", (1,), "1 is off"),
    _to_engine("presence_penalty", "FP32", (1,), "0 is off"),
    _to_engine("frequency_penalty", "FP32", (1,), "0 is off"),
    _to_engine("seed", "UINT64", (1,), "of the random choice"),
    _to_engine("return_log_probs", "BOOL", (1,), "only when asked for"),
    _to_engine("top_logprobs", "INT32", (1,), "only with `return_log_probs`"),
    _to_engine("guided_decoding_guide_type", "STRING", (1,), "only for a guided answer"),
    _to_engine("guided_decoding_guide", "STRING", (1,), "only for a guide type that has one"),
    _to_engine("lora_name", "STRING", (1,), "only when asked for"),
    _to_engine("stream_context", "STRING", (1,), "JSON from preprocess to postprocess, passed on unread"),
    Tensor(
        "stop",
        "BOOL",
        (1,),
        "client",
        "engine",
        True,
        "end the requests of this id and free their slots",
        True,
    ),
    _from_engine("output_ids", "INT32", -1, False, "new token ids, none in a heartbeat"),
    _from_engine("stream_key", "UINT64", 3, False, "row and generation of the stream, number of the chunk from 1"),
    _from_engine("stream_context", "STRING", 1, True, "with the first chunk"),
    _from_engine("finish_reason", "STRING", 1, True, "with the last chunk: stop, length, abort or error"),
    _from_engine("output_log_probs", "FP32", -1, True, "one for each of `output_ids`, only when asked for"),
    _from_engine("top_ids", "INT32", -1, True, "the k likeliest ids for each of `output_ids`, one row after the other"),
    _from_engine("top_log_probs", "FP32", -1, True, "one for each of `top_ids`"),
    _to_client("text_output", "STRING", "new text, or all of it with stream=false"),
    _to_client("num_output_tokens", "INT32", "tokens made so far, an end token included"),
    _to_client("finish_reason", "STRING", "with the last response: stop, length or abort"),
    _to_client("num_input_tokens", "INT32", "with the first and the last response: tokens of the prompt"),
    _to_client(
        "logprobs", "STRING", "only when asked for: JSON list, an entry as in OpenAI's chat API for each new token"
    ),
)


def inputs_of(party: Party) -> list[Tensor]:
    """The tensors that `party` reads."""
    return [tensor for tensor in CONTRACT if tensor.reader == party]


def outputs_of(party: Party) -> list[Tensor]:
    """The tensors that `party` makes."""
    return [tensor for tensor in CONTRACT if tensor.source == party]

"""Every field of a request in one table: what is done with it, and which ensemble input it becomes.

Refusals, the mapping to the ensemble, the mapping of its errors back, and the table in docs/openai.md are made from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from .openai_error import OpenAIError, bad_field

Route = Literal["chat", "completions"]
Use = Literal["honoured", "no effect", "refused"]

CHAT: tuple[Route, ...] = ("chat",)
COMPLETIONS: tuple[Route, ...] = ("completions",)
BOTH: tuple[Route, ...] = ("chat", "completions")


class RequestField(NamedTuple):
    """One field. A refused field still takes `null` and the values in `neutral`, which ask for nothing special."""

    name: str
    routes: tuple[Route, ...]
    use: Use
    note: str
    ensemble: str = ""  # the input it becomes
    neutral: tuple[Any, ...] = ()

    def takes(self, value: Any) -> bool:
        """Whether a refused field may have this value. 1 is not true here."""
        return any(type(value) is type(neutral) and value == neutral for neutral in self.neutral)


def _honoured(name: str, routes: tuple[Route, ...], ensemble: str, note: str) -> RequestField:
    return RequestField(name, routes, "honoured", note, ensemble)


def _no_effect(name: str, routes: tuple[Route, ...], note: str) -> RequestField:
    return RequestField(name, routes, "no effect", note)


def _refused(name: str, routes: tuple[Route, ...], note: str, *neutral: Any) -> RequestField:
    return RequestField(name, routes, "refused", note, neutral=neutral)


_GUIDE = "guided_decoding_guide_type, guided_decoding_guide"
_NO_MEDIA = "models of text only are served"

FIELDS: tuple[RequestField, ...] = (
    _honoured("model", BOTH, "lora_name", "name of a served model, or of one of its LoRA adapters"),
    _honoured("messages", CHAT, "messages", "text parts only; role `developer` is sent to the template as `system`"),
    _honoured("prompt", COMPLETIONS, "text_input, input_ids", "a string, strings, token ids, or lists of token ids"),
    _honoured("stream", BOTH, "", "default false"),
    _honoured("stream_options", BOTH, "", "`include_usage`, `continuous_usage_stats`; needs `stream`"),
    _honoured("n", BOTH, "", "so many requests to the engine; limited, as the number of prompts is"),
    _honoured("best_of", COMPLETIONS, "", "only the value of `n`"),
    _honoured("echo", COMPLETIONS, "", "the prompt, verbatim, comes first; not for token ids"),
    _honoured("max_tokens", BOTH, "max_tokens", "1 or more; default: up to the context limit, for completions too"),
    _honoured("max_completion_tokens", CHAT, "max_tokens", "as `max_tokens`, and wins over it"),
    _honoured("min_tokens", BOTH, "min_tokens", "no end before so many"),
    _honoured("temperature", BOTH, "temperature", "0 is greedy; above 2 is allowed; default: the model's own"),
    _honoured("top_p", BOTH, "top_p", "above 0 to 1; default: the model's own"),
    _honoured("top_k", BOTH, "top_k", "0 and -1 are off; default: the model's own"),
    _honoured("min_p", BOTH, "min_p", "0 to 1; default: the model's own"),
    _honoured("repetition_penalty", BOTH, "repetition_penalty", "above 0; default: the model's own"),
    _honoured("presence_penalty", BOTH, "presence_penalty", "-2 to 2"),
    _honoured("frequency_penalty", BOTH, "frequency_penalty", "-2 to 2"),
    _honoured(
        "seed",
        BOTH,
        "seed",
        "answer i to a prompt gets seed + i, negative ones modulo 2^64; with OpenVINO it repeats only alone",
    ),
    _honoured("stop", BOTH, "stop_words", 'a string or up to 64 of up to 1,024 characters; "" is ignored'),
    _honoured("stop_token_ids", BOTH, "stop_token_ids", "more end tokens"),
    _honoured("bad_words", BOTH, "bad_words", "where the engine can"),
    _honoured("ignore_eos", BOTH, "ignore_eos", "go on after the model's end tokens"),
    _honoured("include_stop_str_in_output", BOTH, "include_stop_str_in_output", "leave the stop text in the answer"),
    _honoured("skip_special_tokens", BOTH, "skip_special_tokens", "default true"),
    _honoured("tools", CHAT, "tools", "functions, for the template; a call comes back as text in `content`"),
    _honoured("chat_template_kwargs", CHAT, "chat_template_kwargs", "values the model's template knows"),
    _honoured("reasoning_effort", CHAT, "chat_template_kwargs", "for a template that has this option, else 400"),
    _honoured("add_generation_prompt", CHAT, "add_generation_prompt", "default true"),
    _honoured("continue_final_message", CHAT, "continue_final_message", "go on with the assistant's last message"),
    _honoured("logprobs", CHAT, "return_log_probs", "each token's log probability, where the engine gives them"),
    _honoured("top_logprobs", CHAT, "top_logprobs", "and those of up to 20 of the likeliest; needs `logprobs`"),
    _honoured(
        "logprobs", COMPLETIONS, "return_log_probs, top_logprobs", "0 to 20 of the likeliest tokens; not with `echo`"
    ),
    _honoured("response_format", BOTH, _GUIDE, "`text`, `json_object`, `json_schema`, where the engine can be guided"),
    _honoured(
        "structured_outputs", BOTH, _GUIDE, "`json`, `regex`, `choice`, `grammar` or `json_object`; one guide a request"
    ),
    _honoured("guided_json", BOTH, _GUIDE, "a JSON Schema, as an object or written out"),
    _honoured("guided_regex", BOTH, _GUIDE, "a regular expression for the whole answer"),
    _honoured("guided_choice", BOTH, _GUIDE, "the texts to choose from"),
    _honoured("guided_grammar", BOTH, _GUIDE, "a grammar, in the engine's form of EBNF"),
    _no_effect("user", BOTH, "only tells who asks"),
    _no_effect("safety_identifier", CHAT, "only tells who asks"),
    _no_effect("metadata", CHAT, "nothing is stored that it could describe"),
    _no_effect("prompt_cache_key", CHAT, "equal prompt beginnings are found without it"),
    _no_effect("prompt_cache_options", CHAT, "equal prompt beginnings are found without it"),
    _no_effect("prompt_cache_retention", CHAT, "cached prompts go when their room is needed"),
    _no_effect("parallel_tool_calls", CHAT, "calls are not parsed"),
    _refused("tool_choice", CHAT, "that the model calls a tool cannot be enforced yet", "auto", "none"),
    _refused("functions", CHAT, "deprecated, send `tools`", []),
    _refused("function_call", CHAT, "deprecated, send `tool_choice`", "auto", "none"),
    _refused("prompt_logprobs", BOTH, "log probabilities of the answer only"),
    _refused("logit_bias", BOTH, "not available yet", {}),
    _refused("allowed_token_ids", BOTH, "not available yet"),
    _refused("suffix", COMPLETIONS, "text is not filled in between", ""),
    _refused("store", CHAT, "answers are not stored", False),
    _refused("service_tier", CHAT, "there is one tier", "auto", "default"),
    _refused("priority", BOTH, "requests are served in their order", 0),
    _refused("verbosity", CHAT, "ask for it in the prompt", "medium"),
    _refused("modalities", CHAT, _NO_MEDIA, ["text"]),
    _refused("audio", CHAT, _NO_MEDIA),
    _refused("prediction", CHAT, "predicted outputs are not available"),
    _refused("moderation", CHAT, "there is no moderation"),
    _refused("web_search_options", CHAT, "there is no web search"),
    _refused("guided_decoding_backend", BOTH, "the engine has one"),
    _refused("guided_whitespace_pattern", BOTH, "not available"),
    _refused("use_beam_search", BOTH, "beam search is not offered", False),
    _refused("length_penalty", BOTH, "beam search is not offered", 1, 1.0),
    _refused("truncate_prompt_tokens", BOTH, "prompts are never cut"),
    _refused("spaces_between_special_tokens", BOTH, "text is never changed", True),
    _refused("add_special_tokens", CHAT, "the template writes them", False),
    _refused("add_special_tokens", COMPLETIONS, "send token ids instead", True),
    _refused("echo", CHAT, "for completions only", False),
    _refused("include_reasoning", CHAT, "reasoning is not split from the answer", True),
    _refused("chat_template", CHAT, "templates are the server's; the command line can replace them"),
    _refused("documents", CHAT, "put them into the messages, or into `chat_template_kwargs`"),
    _refused("media_io_kwargs", CHAT, _NO_MEDIA),
    _refused("mm_processor_kwargs", CHAT, _NO_MEDIA),
    _refused("prompt_embeds", COMPLETIONS, "not available"),
    _refused("logits_processors", BOTH, "code of clients is not run"),
    _refused("request_id", BOTH, "send the header X-Request-Id"),
    _refused("return_token_ids", BOTH, "not available", False),
    _refused("return_tokens_as_token_ids", BOTH, "tokens are told as texts", False),
    _refused("cache_salt", BOTH, "not available"),
    _refused("kv_transfer_params", BOTH, "not available"),
    _refused("vllm_xargs", BOTH, "not available"),
)

_BY_ROUTE: Mapping[Route, Mapping[str, RequestField]] = MappingProxyType(
    {route: {field.name: field for field in FIELDS if route in field.routes} for route in BOTH}
)


def fields_of(route: Route) -> Mapping[str, RequestField]:
    """The fields of one route, by name."""
    return _BY_ROUTE[route]


def used_fields(route: Route, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of fields that are not refused; what is null is left out, as if it had not been sent.

    Raises OpenAIError (400) for the first field that is unknown, or refused with such a value.
    """
    used = {}
    for name, value in values.items():
        field = fields_of(route).get(name)
        if field is None:
            raise _unknown(route, name)
        if value is None:
            continue
        if field.use != "refused":
            used[name] = value
        elif not field.takes(value):
            raise _refusal(field)
    return used


def _unknown(route: Route, name: str) -> OpenAIError:
    shown = ascii(name[:64])[1:-1]
    nearest = get_close_matches(name[:64], fields_of(route), n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return bad_field(shown, f"is not a field of this route{hint}", "unknown_parameter")


def _refusal(field: RequestField) -> OpenAIError:
    allowed = ", ".join(["null", *(json.dumps(value) for value in field.neutral)])
    return bad_field(field.name, f"{field.note}; allowed: {allowed}", "unsupported_parameter")

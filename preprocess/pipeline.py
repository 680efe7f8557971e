"""The table of contents of the preprocess stage: from a batch of requests to what the engine needs.

Each request is read and checked, then all texts of the batch are tokenized in one call, then each request is completed.
A request that fails at any step gets its own InvalidRequest and leaves the others as they would be alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .chat_template import ChatTemplate
from .end_tokens import resolve_end_ids
from .errors import InvalidRequest
from .fields import RequestFields, read_fields
from .guide import Guide, read_guide
from .limits import check_prompt_length, resolve_min_tokens, resolve_output_len
from .log_probs import resolve_top_logprobs
from .lora import read_lora_name
from .model_defaults import ModelDefaults, load_model_defaults
from .parameters import check_parameters
from .prepared import Prepared
from .prompt import Prompt, read_prompt
from .sampling import Sampling, resolve_sampling
from .settings import PreprocessSettings
from .stream_context import is_echo, stream_context
from .tokenizer import PromptTokenizer, load_tokenizer
from .word_lists import bad_sequences, bad_spellings, read_words, stop_sequences

logger = logging.getLogger(__name__)

Request = tuple[Mapping[str, Any], Mapping[str, object]]
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Draft:
    """A request that is checked as far as it can be without tokens."""

    fields: RequestFields
    prompt: Prompt
    stop_words: list[str]
    bad_words: list[str]
    end_ids: tuple[int, ...]
    sampling: Sampling
    top_logprobs: int | None
    guide: Guide
    lora_name: str
    is_stream: bool
    is_echo: bool

    def texts(self) -> list[str]:
        """What to tokenize: the prompt, the stop words, the spellings of the bad words."""
        return [self.prompt.text, *self.stop_words, *bad_spellings(self.bad_words)]


class Pipeline:
    """Prepares requests; holds no state between calls."""

    def __init__(self, settings: PreprocessSettings) -> None:
        """Load the model's tokenizer, chat template and defaults. Raises ValueError naming what cannot be used."""
        self._tokenizer, reference = load_tokenizer(settings.tokenizer_dir, settings.trust_remote_code)
        self._template = ChatTemplate(reference, settings.chat_template)
        self._model: ModelDefaults = load_model_defaults(settings, self._tokenizer.vocab_size, reference.eos_token_id)
        self._stream_default = settings.stream_default
        longest = self._tokenizer.longest_token_chars * self._model.max_model_len
        self._max_prompt_chars = settings.max_prompt_chars or longest

    def prepare(self, batch: Sequence[Request]) -> list[Prepared | InvalidRequest]:
        """Prepare (inputs, request parameters) pairs; the answers are in the same order.

        Inputs absent from the first mapping were not sent; STRING inputs are sequences of bytes, others numpy arrays.
        """
        drafts = [_attempt(self._draft, *request) for request in batch]
        encoded = iter(_encode_each(self._tokenizer, [draft for draft in drafts if isinstance(draft, _Draft)]))
        return [
            _attempt(self._complete, draft, next(encoded)) if isinstance(draft, _Draft) else draft for draft in drafts
        ]

    def _draft(self, inputs: Mapping[str, Any], parameters: Mapping[str, object]) -> _Draft:
        check_parameters(parameters)
        fields = read_fields(inputs)
        is_stream = self._stream_default if fields.stream is None else fields.stream
        return _Draft(
            fields=fields,
            sampling=resolve_sampling(fields, self._model.sampling),
            top_logprobs=resolve_top_logprobs(fields),
            guide=read_guide(fields),
            lora_name=read_lora_name(fields),
            end_ids=resolve_end_ids(fields, self._model.eos_ids, self._model.vocab_size),
            stop_words=read_words("stop_words", fields.stop_words),
            bad_words=read_words("bad_words", fields.bad_words),
            is_stream=is_stream,
            is_echo=is_echo(fields, is_stream),
            prompt=read_prompt(fields, self._template, self._model.vocab_size, self._max_prompt_chars),
        )

    def _complete(self, draft: _Draft, encoded: list[list[int]] | InvalidRequest) -> Prepared:
        if isinstance(encoded, InvalidRequest):
            raise encoded
        input_ids = draft.prompt.ids(encoded[0], self._tokenizer)
        check_prompt_length(draft.prompt.source, len(input_ids), self._model.max_model_len)
        output_len = resolve_output_len(draft.fields.max_tokens, len(input_ids), self._model.max_model_len)
        min_tokens = resolve_min_tokens(draft.fields.min_tokens, output_len)
        first_bad = 1 + len(draft.stop_words)
        return Prepared(
            input_ids=input_ids,
            request_output_len=output_len,
            min_tokens=min_tokens,
            end_ids=draft.end_ids,
            # An engine that took the hint would stop before min_tokens.
            stop_words=[] if min_tokens else stop_sequences(draft.stop_words, encoded[1:first_bad], self._tokenizer),
            bad_words=bad_sequences(encoded[first_bad:]),
            top_logprobs=draft.top_logprobs,
            guide=draft.guide,
            lora_name=draft.lora_name,
            stream=draft.is_stream,
            stream_context=_context(draft, input_ids, min_tokens),
            **draft.sampling,
        )


def _context(draft: _Draft, input_ids: npt.NDArray[np.int32], min_tokens: int) -> str:
    given_ids = draft.prompt.given_ids
    return stream_context(
        draft.fields,
        stop=draft.stop_words,
        is_stream=draft.is_stream,
        has_logprobs=draft.top_logprobs is not None,
        end_ids=draft.end_ids,
        min_tokens=min_tokens,
        num_input_tokens=len(input_ids),
        echo_text=draft.prompt.text if draft.is_echo else "",
        echo_ids=given_ids.tolist() if draft.is_echo and given_ids is not None else None,
    )


def _attempt(step: Callable[..., _Result], *args: Any) -> _Result | InvalidRequest:
    try:
        return step(*args)
    except InvalidRequest as error:
        return error


def _encode_each(tokenizer: PromptTokenizer, drafts: list[_Draft]) -> list[list[list[int]] | InvalidRequest]:
    """Token ids of each draft's texts, all encoded in one call unless a text among them cannot be encoded."""
    texts = [draft.texts() for draft in drafts]
    try:
        flat = iter(tokenizer.encode_batch([text for group in texts for text in group]))
    except Exception:  # the tokenizers library raises nothing narrower
        return [_attempt(_encode_alone, tokenizer, draft) for draft in drafts]
    return [list(islice(flat, len(group))) for group in texts]


def _encode_alone(tokenizer: PromptTokenizer, draft: _Draft) -> list[list[int]]:
    try:
        return tokenizer.encode_batch(draft.texts())
    except Exception as error:
        logger.warning("the tokenizer failed: %s", type(error).__name__)
        raise InvalidRequest(draft.prompt.source, "has text that this model's tokenizer cannot encode") from None

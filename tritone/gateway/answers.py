"""The ensemble's events gathered to whole answers, for requests that do not stream."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .chat_request import ChatRequest
from .chunks import finish_reason_of, text_of
from .completion_request import CompletionRequest
from .ensemble_client import Event
from .logprobs import CompletionLogprobs, chat_logprobs, entries_of
from .openai_error import OpenAIError
from .usage import UsageCount


class _Answer:
    """One answer, all its choices."""

    def __init__(self, kind: str, request: ChatRequest | CompletionRequest, response_id: str, created: int) -> None:
        self._constant = {"id": response_id, "object": kind, "created": created, "model": request.model}
        self._texts: list[list[str]] = [[] for _ in range(request.num_choices)]
        self._finish_reasons: list[str | None] = [None] * request.num_choices
        self._usage = UsageCount(request.n)
        self._has_logprobs = request.num_top_logprobs is not None
        self._events: list[list[Event]] = [[] for _ in range(request.num_choices)]  # where log probabilities are asked

    def add(self, index: int, events: Sequence[Event]) -> None:
        """Take over new events of choice `index`. Raises OpenAIError (500) where the answer was broken off."""
        self._usage.add(index, events[-1])
        self._texts[index].append(text_of(events))
        if self._has_logprobs:
            self._events[index].extend(events)
        self._finish_reasons[index] = finish_reason_of(events[-1])

    def body(self) -> dict[str, Any]:
        """OpenAI's object. Raises OpenAIError (500) if a choice has no finish reason yet."""
        if None in self._finish_reasons:
            raise OpenAIError(500, "The answer ended before it was complete.")
        choices = [self._choice(index, "".join(texts)) for index, texts in enumerate(self._texts)]
        return {**self._constant, "system_fingerprint": None, "choices": choices, "usage": self._usage.body()}

    def _choice(self, index: int, text: str) -> dict[str, Any]:
        content = self._content(index, text)
        logprobs = self._logprobs(entries_of(self._events[index])) if self._has_logprobs else None
        return {"index": index, **content, "logprobs": logprobs, "finish_reason": self._finish_reasons[index]}

    def _content(self, index: int, text: str) -> dict[str, Any]:
        raise NotImplementedError

    def _logprobs(self, entries: str) -> dict[str, Any]:
        raise NotImplementedError


class ChatAnswer(_Answer):
    """A chat answer."""

    def __init__(self, request: ChatRequest, response_id: str, created: int) -> None:
        super().__init__("chat.completion", request, response_id, created)

    def _content(self, index: int, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text, "refusal": None}}

    def _logprobs(self, entries: str) -> dict[str, Any]:
        return dict(json.loads(chat_logprobs(entries)))


class CompletionAnswer(_Answer):
    """A completion, the prompt before it if asked for."""

    def __init__(self, request: CompletionRequest, response_id: str, created: int) -> None:
        super().__init__("text_completion", request, response_id, created)
        self._request = request

    def _content(self, index: int, text: str) -> dict[str, Any]:
        return {"text": self._request.echoed(index) + text}

    def _logprobs(self, entries: str) -> dict[str, Any]:
        return CompletionLogprobs().add(entries)

"""Where the prompt comes from: exactly one of text_input, messages and input_ids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .chat_template import Chat, ChatTemplate
from .errors import InvalidRequest
from .fields import RequestFields
from .token_ids import check_ids
from .tokenizer import PromptTokenizer

SOURCES = ("text_input", "messages", "input_ids")
CHAT_FIELDS = ("tools", "chat_template_kwargs", "add_generation_prompt", "continue_final_message")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt before it is tokenized. `source` is the field it came in; `given_ids` is set for input_ids only."""

    source: str
    text: str = ""
    given_ids: npt.NDArray[np.int32] | None = None

    def ids(self, text_ids: list[int], tokenizer: PromptTokenizer) -> npt.NDArray[np.int32]:
        """int32[n]. `text_ids` are those of `text`; a chat template has written its special tokens itself."""
        if self.given_ids is not None:
            return self.given_ids
        ids = tokenizer.surround(text_ids) if self.source == "text_input" else text_ids
        return np.array(ids, dtype=np.int32)


def read_prompt(fields: RequestFields, template: ChatTemplate, vocab_size: int, max_chars: int) -> Prompt:
    """Raises InvalidRequest if there is not exactly one prompt, or if it cannot be used."""
    source = _source(fields)
    if source == "input_ids":
        return Prompt(source, given_ids=_checked_ids(fields, vocab_size))
    text = fields.text_input if fields.text_input is not None else template.render(_chat(fields))
    if len(text) > max_chars:
        raise InvalidRequest(source, f"the prompt has {len(text)} characters, allowed: {max_chars}")
    return Prompt(source, text)


def _source(fields: RequestFields) -> str:
    given = [name for name in SOURCES if getattr(fields, name) is not None]
    if not given:
        raise InvalidRequest("text_input", "no prompt: send one of text_input, messages and input_ids")
    if len(given) > 1:
        raise InvalidRequest(given[1], f"sent together with {given[0]}; send one of text_input, messages and input_ids")
    if given[0] != "messages":
        for name in CHAT_FIELDS:
            if getattr(fields, name) is not None:
                raise InvalidRequest(name, f"goes with messages only, the prompt came as {given[0]}")
    return given[0]


def _chat(fields: RequestFields) -> Chat:
    continues = bool(fields.continue_final_message)
    if continues and fields.add_generation_prompt:
        raise InvalidRequest("continue_final_message", "contradicts add_generation_prompt=true; send one of them")
    return Chat(
        messages=fields.messages or [],
        tools=fields.tools,
        template_kwargs=fields.chat_template_kwargs or {},
        add_generation_prompt=fields.add_generation_prompt is not False,
        continue_final_message=continues,
    )


def _checked_ids(fields: RequestFields, vocab_size: int) -> npt.NDArray[np.int32]:
    assert fields.input_ids is not None
    check_ids("input_ids", fields.input_ids, vocab_size)
    return fields.input_ids.astype(np.int32)

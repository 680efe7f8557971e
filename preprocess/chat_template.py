"""The model's chat template: messages to prompt text, by transformers' sandboxed Jinja.

Templates come with the model and are code by strangers. What they raise on purpose goes to the client in their own
words; any other failure is answered with a fixed text and logged by kind only.
"""

from __future__ import annotations

import inspect
import logging
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from .errors import InvalidRequest
from .messages import Message, normalize_messages

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

_PROBE = "content-probe"
_TEMPLATE_GLOBALS = {"range", "dict", "namespace", "cycler", "joiner", "lipsum", "raise_exception", "strftime_now"}


@dataclass(frozen=True, slots=True)
class Chat:
    """One chat request: `messages` as parsed from JSON, not yet checked."""

    messages: list[Any]
    tools: list[Any] | None = None
    template_kwargs: dict[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool = True
    continue_final_message: bool = False


class ChatTemplate:
    """Renders chats. A model without a template still loads; its chats are refused."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, override: str | None = None) -> None:
        """`override`: a template, or the path of a file with one, instead of the model's own.

        Raises ValueError with the line if a template does not compile.
        """
        self._tokenizer = tokenizer
        own = _read_override(override) if override else tokenizer.chat_template
        named = own if isinstance(own, dict) else {"default": own}
        self._default: str | None = named.get("default")
        self._with_tools: str | None = named.get("tool_use") or self._default
        self._reserved = _reserved_names(tokenizer)
        self._wants_parts = self._default is not None and self._can_only_loop(self._default)
        if self._with_tools is not None:
            self._render_probe(self._with_tools, _PROBE)

    def render(self, chat: Chat) -> str:
        """The prompt text. With `continue_final_message` it ends exactly where the last message's text ends.

        Raises InvalidRequest for messages of a wrong shape, and for what the template refuses or does not take.
        """
        messages = normalize_messages(chat.messages)
        source = self._with_tools if chat.tools else self._default
        if source is None:
            raise InvalidRequest("messages", "this model has no chat template; send the prompt as text_input instead")
        self._check_is_read(source, messages, chat)
        if not chat.continue_final_message:
            return self._apply(self._shape(messages), source, chat, chat.add_generation_prompt)
        end_mark = secrets.token_hex(16)
        text = self._apply(self._shape(_mark_end(messages, end_mark)), source, chat, False)
        if end_mark not in text:
            raise InvalidRequest("continue_final_message", "the chat template leaves out the text of the last message")
        return text[: text.rindex(end_mark)].replace(end_mark, "")

    def _check_is_read(self, source: str, messages: list[Message], chat: Chat) -> None:
        """Refuse what the template would leave out of the prompt without a word."""
        for index, message in enumerate(messages):
            if message.get("tool_calls") and not _reads(source, "tool_calls"):
                raise InvalidRequest(f"messages[{index}].tool_calls", "this model's chat template takes no tool calls")
        for index, tool in enumerate(chat.tools or ()):
            if not isinstance(tool, dict):
                raise InvalidRequest(f"tools[{index}]", "must be an object")
        if chat.tools and not _reads(source, "tools"):
            raise InvalidRequest("tools", "this model's chat template takes no tools")
        for name in chat.template_kwargs:
            if name in self._reserved or not _reads(source, name):
                raise InvalidRequest("chat_template_kwargs", f"{name[:64]!r} is not an option of this chat template")

    def _shape(self, messages: list[Message]) -> list[Message]:
        """Text as a list of parts for the templates that can only loop over parts."""
        if not self._wants_parts:
            return messages
        return [
            {**message, "content": [{"type": "text", "text": message["content"]}]} if "content" in message else message
            for message in messages
        ]

    def _apply(self, messages: list[Message], source: str, chat: Chat, add_generation_prompt: bool) -> str:
        try:
            text: str = self._tokenizer.apply_chat_template(
                messages,
                tools=chat.tools or None,
                chat_template=source,
                add_generation_prompt=add_generation_prompt,
                tokenize=False,
                **chat.template_kwargs,
            )
        except jinja2.TemplateError as error:
            raise InvalidRequest("messages", f"refused by the chat template: {error}") from None
        except Exception as error:
            logger.warning("the chat template failed: %s", type(error).__name__)
            raise InvalidRequest("messages", "the chat template cannot render these messages") from None
        return text

    def _can_only_loop(self, source: str) -> bool:
        """Whether the template writes out a list of text parts, but not a plain string."""
        if _PROBE in self._render_probe(source, _PROBE):
            return False
        return _PROBE in self._render_probe(source, [{"type": "text", "text": _PROBE}])

    def _render_probe(self, source: str, content: Any) -> str:
        """One user message rendered; empty if the template wants more than that."""
        try:
            text: str = self._tokenizer.apply_chat_template(
                [{"role": "user", "content": content}], chat_template=source, tokenize=False
            )
        except jinja2.TemplateSyntaxError as error:
            raise ValueError(f"chat_template: line {error.lineno}: {error.message}") from None
        except Exception:
            return ""
        return text


def _read_override(override: str) -> str:
    if "{" in override:
        return override
    path = Path(override)
    if not path.is_file():
        raise ValueError(f"chat_template: {override!r} is neither a Jinja template nor a file")
    return path.read_text(encoding="utf-8")


def _reserved_names(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    """Names a request must not set: they have fields of their own, or would change the prompt's frame."""
    call = set(inspect.signature(tokenizer.apply_chat_template).parameters) - {"documents"}
    return call | set(tokenizer.special_tokens_map) | _TEMPLATE_GLOBALS | {"messages"}


def _reads(source: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", source) is not None


def _mark_end(messages: list[Message], end_mark: str) -> list[Message]:
    """Put the mark behind the last text, where trimming, an empty text or a repeated text cannot hide its end."""
    last = messages[-1]
    if last["role"] != "assistant" or "content" not in last:
        raise InvalidRequest("continue_final_message", "the last message must be an assistant message with text")
    return [*messages[:-1], {**last, "content": last["content"] + end_mark}]

"""`tritone ask` and `tritone chat`: talk to a served model in the terminal. Runs in our process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import click

from tritone.model_client import ChatError, ModelClient
from tritone.model_name import triton_name

INTERRUPTED = 130


@dataclass
class Conversation:
    """What was said so far, and how the next answer is to be made."""

    client: ModelClient
    model: str
    system: str | None
    parameters: dict[str, Any]
    messages: list[dict[str, str]] = field(default_factory=list)

    def clear(self) -> None:
        """Forget everything but the system message."""
        self.messages = [{"role": "system", "content": self.system}] if self.system else []

    def say(self, text: str) -> bool:
        """Say `text` and print the answer; False when it was cancelled with Ctrl-C. Raises ChatError."""
        asked = [*self.messages, {"role": "user", "content": text}]
        parts: list[str] = []
        is_whole = True
        with closing(self.client.answer(self.model, asked, **self.parameters)) as answer:
            try:
                for part in answer:
                    parts.append(part)
                    click.echo(printable(part), nl=False)
            except KeyboardInterrupt:
                is_whole = False
        click.echo()
        if parts:
            self.messages = [*asked, {"role": "assistant", "content": "".join(parts)}]
        return is_whole


def ask_once(question: str, **options: Any) -> int:
    """Print the answer to one question; returns the exit status. Raises ChatError."""
    with suppress(KeyboardInterrupt), conversation(**options) as talk:
        return 0 if talk.say(question) else INTERRUPTED
    return INTERRUPTED


def chat_until_done(**options: Any) -> None:
    """Answer line after line until /exit or the end of the input. Raises ChatError if the server does not answer."""
    with conversation(**options) as talk:
        click.echo(f"{talk.model}: /clear begins anew, /exit ends, Ctrl-C cancels an answer", err=True)
        for line in typed_lines():
            if line == "/exit":
                return
            if line == "/clear":
                talk.clear()
            elif line:
                _say(talk, line)


@contextmanager
def conversation(
    url: str, model: str | None, system: str | None, max_tokens: int | None, temperature: float | None
) -> Iterator[Conversation]:
    """A new conversation. Raises ChatError if the server does not answer, ModelError for a name no model can have."""
    with closing(ModelClient(url)) as client:
        parameters = {"max_tokens": max_tokens, "temperature": temperature}
        name = client.only_model() if model is None else triton_name(model)
        talk = Conversation(client, name, system, parameters)
        talk.clear()
        yield talk


def _say(talk: Conversation, line: str) -> None:
    try:
        talk.say(line)
    except ChatError as error:  # the next line may fare better
        click.echo(f"Error: {error}", err=True)


def typed_lines() -> Iterator[str]:
    """What the user types, without blanks around it; Ctrl-C drops the line."""
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        with suppress(ImportError):
            import readline  # noqa: F401  # gives input() its line editing

    while True:
        try:
            yield input("> " if is_terminal else "").strip()
        except KeyboardInterrupt:
            click.echo()
        except EOFError:
            return


def printable(text: str) -> str:
    """`text` without the control characters that could steer the terminal."""
    return "".join(c for c in text if c.isprintable() or c in "\n\t")

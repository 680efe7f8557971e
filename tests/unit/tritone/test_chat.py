"""The conversation, with a client that repeats what it was told."""

from __future__ import annotations

import io
from collections.abc import Generator, Sequence
from typing import Any, cast

import pytest

from tritone import chat
from tritone.chat import Conversation, conversation, printable, typed_lines
from tritone.model_client import ChatError, Message, ModelClient


class RepeatingClient:
    """A ModelClient that answers with the last message, a character at a time; "^" is Ctrl-C, "!" an error.

    It has the one model "m".
    """

    def __init__(self) -> None:
        self.asked: list[list[Message]] = []
        self.parameters: dict[str, Any] = {}
        self.is_cancelled = False

    def close(self) -> None:
        pass

    def only_model(self) -> str:
        return "m"

    def answer(self, model: str, messages: Sequence[Message], **parameters: Any) -> Generator[str, None, None]:
        self.asked.append(list(messages))
        self.parameters = parameters
        try:
            for character in messages[-1]["content"]:
                if character == "^":
                    raise KeyboardInterrupt
                if character == "!":
                    raise ChatError("refused")
                yield character
        except KeyboardInterrupt:
            self.is_cancelled = True
            raise


@pytest.fixture
def client() -> RepeatingClient:
    return RepeatingClient()


@pytest.fixture
def talk(client: RepeatingClient) -> Conversation:
    talk = Conversation(cast(ModelClient, client), "m", "be brief", {"max_tokens": 3, "temperature": None})
    talk.clear()
    return talk


@pytest.mark.parametrize(
    ("given", "asked"), [(None, "m"), ("Toy-1", "Toy-1"), ("org/模型-7b v1", "org-7b-v1-e8f3448a")]
)
def test_b64_a_served_name_leads_to_the_one_in_triton(
    client: RepeatingClient, monkeypatch: pytest.MonkeyPatch, given: str | None, asked: str
) -> None:
    monkeypatch.setattr(chat, "ModelClient", lambda url: client)
    with conversation("host:1", given, None, None, None) as talk:
        assert talk.model == asked


SYSTEM = {"role": "system", "content": "be brief"}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def test_prints_the_answer_and_remembers_it(
    client: RepeatingClient, talk: Conversation, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [talk.say("ab"), talk.say("c")] == [True, True]
    assert capsys.readouterr().out == "ab\nc\n"
    assert client.asked == [[SYSTEM, user("ab")], [SYSTEM, user("ab"), assistant("ab"), user("c")]]
    assert client.parameters == {"max_tokens": 3, "temperature": None}


def test_forgets_all_but_the_system_message(talk: Conversation) -> None:
    talk.say("a")
    talk.clear()
    assert talk.messages == [SYSTEM]


def test_keeps_as_much_of_a_cancelled_answer_as_was_seen(client: RepeatingClient, talk: Conversation) -> None:
    assert not talk.say("ab^c")
    assert client.is_cancelled
    assert talk.messages == [SYSTEM, user("ab^c"), assistant("ab")]


def test_a_question_without_any_answer_was_never_asked(talk: Conversation) -> None:
    assert not talk.say("^")
    with pytest.raises(ChatError, match="refused"):
        talk.say("!")
    assert talk.messages == [SYSTEM]


def test_nothing_that_is_printed_steers_the_terminal() -> None:
    assert printable("a\x1b[31mb\r\x07\n\tc\u202e 模") == "a[31mb\n\tc 模"


def test_lines_are_read_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(" a \n\n/exit"))
    assert list(typed_lines()) == ["a", "", "/exit"]

"""The models the service tests serve with the scripted engine, and a gateway in front of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.toy_tokenizers import IM_END, PADDED_VOCAB_SIZE
from tests.unit.preprocess.toy_models import PLAIN_CHAT, write_model

from .gateway import Gateway, beside
from .serving import serve

STRICT_CHAT = (
    "{% for m in messages %}"
    "{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% if m.role == 'user' and not loop.first and messages[loop.index0 - 1].role == 'user' %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
    "{% if m.role == 'tool' and not messages[loop.index0 - 1].tool_calls %}"
    "{{ raise_exception('No tool was called') }}{% endif %}{% endfor %}" + PLAIN_CHAT
)


@pytest.fixture(scope="session")
def toy_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder called toy, so that the ensemble is too. Every byte is a token, and `<|im_end|>` ends an answer."""
    config = {"vocab_size": PADDED_VOCAB_SIZE, "max_position_embeddings": 65536, "eos_token_id": IM_END}
    return write_model(tmp_path_factory.mktemp("models") / "toy", config=config)


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The gateway of a toy model with little context, whose chat template refuses what it does not like."""
    folder = tmp_path_factory.mktemp("gateway")
    model = write_model(folder / "toy", chat_template=STRICT_CHAT)
    with serve(folder / "triton", model, "--set", "tokens_per_second=1000") as running:
        yield beside(running)

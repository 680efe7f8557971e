"""The model the service tests serve with the scripted engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toy_tokenizers import IM_END, PADDED_VOCAB_SIZE
from tests.unit.preprocess.toy_models import write_model


@pytest.fixture(scope="session")
def toy_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder called toy, so that the ensemble is too. Every byte is a token, and `<|im_end|>` ends an answer."""
    config = {"vocab_size": PADDED_VOCAB_SIZE, "max_position_embeddings": 65536, "eos_token_id": IM_END}
    return write_model(tmp_path_factory.mktemp("models") / "toy", config=config)

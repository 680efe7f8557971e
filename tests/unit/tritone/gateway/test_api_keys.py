from __future__ import annotations

from pathlib import Path

import pytest

from tritone.gateway.api_keys import ApiKeyError, load_keys


def test_keys_come_from_file_and_environment(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# ours\n a \n\nb\n")
    keys = load_keys(str(path), {"TRITONE_API_KEYS": "c, d,"})
    assert [key for key in "abcde# " if keys.has(key)] == ["a", "b", "c", "d"]
    assert not load_keys(None, {})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"# none\n", "has no key"),
        (b"\xff\n", "is not UTF-8"),
        (b"two words\n", "has a blank"),
    ],
)
def test_a_file_without_usable_keys_is_an_error(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ApiKeyError, match=message) as caught:
        load_keys(str(path), {})
    assert "words" not in str(caught.value)

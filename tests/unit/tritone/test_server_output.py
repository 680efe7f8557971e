from __future__ import annotations

import logging
import os
from collections.abc import Callable

import pytest

from tritone.server_output import LONGEST_LINE, ServerOutput


@pytest.fixture
def read(caplog: pytest.LogCaptureFixture) -> Callable[..., tuple[ServerOutput, list[str]]]:
    """Feeds pieces to a ServerOutput, one write each, and gives back what was logged."""
    caplog.set_level(logging.DEBUG)

    def run(*pieces: bytes) -> tuple[ServerOutput, list[str]]:
        reading, writing = os.pipe()
        output = ServerOutput(os.fdopen(reading, "rb", buffering=0), is_gpu_host=False)
        for piece in pieces:
            os.write(writing, piece)
        os.close(writing)
        output.join()
        return output, [record.getMessage() for record in caplog.records]

    return run


Read = Callable[..., tuple[ServerOutput, list[str]]]


def test_reads_lines_however_they_are_cut(read: Read) -> None:
    _, messages = read(b"I engine: o", b"ne\nI engi", b"ne: two\r\n")
    assert messages == ["one", "two"]


def test_the_last_words_need_no_end_of_line(read: Read) -> None:
    assert read(b"terminate called")[1] == ["terminate called"]


def test_bytes_that_are_no_text_are_shown(read: Read) -> None:
    assert read(b"a\xffb\n")[1] == ["a\\xffb"]


def test_a_line_without_end_is_cut(read: Read) -> None:
    lengths = [len(message) for message in read(*[b"x" * LONGEST_LINE] * 5)[1]]
    assert sum(lengths) == 5 * LONGEST_LINE
    assert max(lengths) <= 2 * LONGEST_LINE


def test_knows_which_models_are_being_loaded(read: Read) -> None:
    head = b"I1201 07:25:34.196145 8579 model_lifecycle.cc:472] "
    lines = [
        "loading: a:1",
        "loading: b:1",
        "loading: c:2",
        "successfully loaded 'a'",
        "failed to load 'b' version 1: no",
    ]
    output, _ = read(b"".join(head + f'"{line}"\n'.encode() for line in lines))
    assert (output.loading, output.failed) == ({"c"}, {"b"})


def test_keeps_the_last_errors(read: Read) -> None:
    output, _ = read(b"E engine: one\nI engine: fine\nE engine: two\n")
    assert list(output.last_errors) == ["one", "two"]


def test_before_triton_says_anything_every_word_is_an_error(read: Read) -> None:
    said = b"error while loading shared libraries: libb64.so.0d\n"
    started = b'I1201 07:25:34.196145 8579 server.cc:1] "hello"\n'
    assert list(read(said, started, b"later\n")[0].last_errors) == [
        "error while loading shared libraries: libb64.so.0d"
    ]

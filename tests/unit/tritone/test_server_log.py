from __future__ import annotations

import logging

from hypothesis import given
from hypothesis import strategies as st

from tritone.server_log import Record, RecordReader, parse_head

STARTED = 'I1201 07:25:20.756610 8313 grpc_server.cc:2558] "Started GRPCInferenceService at 127.0.0.1:8001"'


def read(*lines: str, is_gpu_host: bool = False) -> list[Record]:
    reader = RecordReader(is_gpu_host)
    records = [record for line in lines for record in reader.feed(line)]
    return [*records, *reader.flush()]


def test_a_line_of_triton() -> None:
    assert read(STARTED) == [
        Record(logging.INFO, "triton.grpc_server", ["Started GRPCInferenceService at 127.0.0.1:8001"])
    ]


def test_a_line_of_an_older_triton_has_no_quotes() -> None:
    assert read("W0102 00:00:00.000001 1 main.cc:1] a \\ b") == [Record(logging.WARNING, "triton.main", ["a \\ b"])]


def test_what_triton_has_escaped_is_text_again() -> None:
    (record,) = read(r'E1201 07:28:16.476437 15274 backend_model.cc:692] "ERROR: a\n\tb: \"c\""')
    assert (record.level, record.message) == (logging.ERROR, 'ERROR: a\n\tb: "c"')


def test_a_line_of_a_stage() -> None:
    assert read("W engine: stream 1.2: late") == [Record(logging.WARNING, "engine", ["stream 1.2: late"])]


def test_a_line_of_anything_else() -> None:
    assert read("Signal (15) received.", "X engine: y") == [
        Record(logging.INFO, "server", ["Signal (15) received."]),
        Record(logging.INFO, "server", ["X engine: y"]),
    ]


def test_a_line_of_vllm() -> None:
    head = "(EngineCore pid=10884) WARNING 12-01 14:38:55 [core.py:133]"
    assert read(f"{head} it [is] so", f"{head} ") == [
        Record(logging.WARNING, "vllm", ["it [is] so"]),
        Record(logging.WARNING, "vllm", [""]),
    ]


def test_a_traceback_of_vllm_is_one_record_though_every_line_has_a_head() -> None:
    head = "(VllmWorker-0 pid=9) ERROR 12-01 14:39:06 [multiproc_executor.py:953]"
    lines = ["Worker failed", "Traceback (most recent call last):", '  File "a.py", line 1, in f', "ValueError: no"]
    (record, last) = read(*(f"{head} {line}" for line in lines), f"{head} over")
    assert (record.level, record.source, record.lines) == (logging.ERROR, "vllm", lines)
    assert last.lines == ["over"]


def test_a_table_is_one_debug_record() -> None:
    table = ["+---+", "| a |", "+---+", "| b |", "+---+"]
    records = read("I1201 07:25:35.963319 8579 server.cc:604] ", *table, "", STARTED)
    assert [(record.level, record.message) for record in records] == [
        (logging.DEBUG, "\n".join(table)),
        (logging.INFO, "Started GRPCInferenceService at 127.0.0.1:8001"),
    ]


def test_a_traceback_belongs_to_its_record() -> None:
    traceback = [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "    g()",
        "ValueError: no",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "a.py", line 2, in f',
        "KeyError: 'x'",
    ]
    records = read("E engine: the pump failed", *traceback, "next", "I engine: on")
    assert [record.message for record in records] == [
        "\n".join(["the pump failed", *filter(None, traceback)]),
        "next",
        "on",
    ]


def test_a_traceback_on_its_own_is_an_error() -> None:
    (record,) = read("Traceback (most recent call last):", "  File x", "KeyError: 1")
    assert (record.level, record.source, len(record.lines)) == (logging.ERROR, "server", 3)


def test_what_triton_says_of_a_missing_gpu_is_for_debugging_where_there_is_none() -> None:
    lines = [
        'E1201 07:25:34.193776 8579 server.cc:241] "CudaDriverHelper has not been initialized."',
        'E1201 07:25:35.963124 8579 ensemble_scheduler.cc:1468] "unable to create stream for m: CUDA driver version is '
        'insufficient for CUDA runtime version"',
        'W1201 07:25:36.160848 8579 pinned_memory_manager.cc:170] "failed to allocate pinned system memory: no pinned '
        'memory pool, falling back to non-pinned system memory"',
    ]
    assert [record.level for record in read(*lines)] == [logging.DEBUG] * 3
    assert [record.level for record in read(*lines, is_gpu_host=True)] == [
        logging.ERROR,
        logging.ERROR,
        logging.WARNING,
    ]
    assert [record.level for record in read("E engine: CUDA out of memory")] == [logging.ERROR]


@given(
    st.lists(st.one_of(st.text(st.characters(exclude_characters="\n")), st.sampled_from([STARTED, "+-", "| a", "  b"])))
)
def test_no_line_with_anything_in_it_is_lost(lines: list[str]) -> None:
    kept = [line for record in read(*lines) for line in record.lines]
    heads = [parse_head(line) for line in lines]
    assert kept == [
        head.lines[0] if head else line for line, head in zip(lines, heads, strict=True) if head or line.strip()
    ]

"""The pump: one chunk in flight a stream, order, feedback, and who is gone."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.adapter import EngineDiedError, EngineRequest, RefusedError, TokenDelta, TokenLogprob
from engine.pump import ACK_POLL_S, CHUNK_CPU_S, IDLE_POLL_S, LATE_S, WARM_UP_CPU_S, WINDOW, Pump
from engine.stream import engine_key
from engine.stream_table import EngineTable, PostprocessTable, TableFullError
from ensemble_repo.contract import UNAVAILABLE

from .fakes import Clock, FakeAdapter, FakeResponder

ACK_TIMEOUT_S = 5.0
HEARTBEAT_S = 1.0


class Bench:
    """A pump between fakes. `post` is postprocess's side of the table."""

    def __init__(self, folder: Path, rows: int = 4, streaming_cores: float = math.inf) -> None:
        self.adapter = FakeAdapter()
        self.clock = Clock()
        self.table = EngineTable(folder / "streams", rows)
        self.post = PostprocessTable(folder / "streams")
        self.deaths: list[str] = []
        self.is_far_end_alive = True
        self.pump = Pump(
            self.adapter,
            self.table,
            ack_timeout_s=ACK_TIMEOUT_S,
            heartbeat_s=HEARTBEAT_S,
            on_death=self.deaths.append,
            is_alive=lambda pid: self.is_far_end_alive,
            streaming_cores=streaming_cores,
            clock=self.clock,
        )

    def admit(self, request_id: str = "r", context: str = "{}") -> tuple[int, FakeResponder]:
        responder = FakeResponder()
        self.pump.admit(request_id, context, responder, lambda key: EngineRequest(key, (1,), 8))
        return list(self.adapter.requests)[-1], responder

    def make(self, key: int, *ids: int, reason: str = "", error: str = "", told: bool = False) -> None:
        """`told` is with log probabilities, whose values are the ids."""
        logprobs = tuple(map(TokenLogprob, ids)) if told else ()
        self.adapter.deltas.append(TokenDelta(key, ids, reason, error, logprobs))
        self.pump.turn()

    def ack(self, responder: FakeResponder) -> None:
        chunk = responder.chunks[-1]
        self.post.ack(chunk.key, chunk.number)
        self.pump.turn()

    def wait(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.pump.turn()


@pytest.fixture
def bench(tmp_path: Path):
    made = Bench(tmp_path)
    yield made
    made.table.close()
    made.post.close()


def sent(responder: FakeResponder) -> list[tuple[int, list[int], str]]:
    return [(chunk.number, chunk.ids, chunk.finish_reason) for chunk in responder.chunks]


def test_one_chunk_in_flight_and_ids_made_in_between_ride_together(bench: Bench) -> None:
    key, responder = bench.admit()
    bench.make(key, 1)
    bench.make(key, 2)
    bench.make(key, 3)
    assert sent(responder) == [(1, [1], "")]
    bench.ack(responder)
    assert sent(responder) == [(1, [1], ""), (2, [2, 3], "")]
    bench.ack(responder)
    bench.make(key, 4)
    assert sent(responder)[2:] == [(3, [4], "")]


def told(responder: FakeResponder) -> list[list[float]]:
    return [[token.logprob for token in chunk.logprobs] for chunk in responder.chunks]


def test_log_probabilities_ride_with_their_ids(bench: Bench) -> None:
    key, responder = bench.admit()
    bench.wait(HEARTBEAT_S + 0.1)
    bench.ack(responder)
    bench.make(key, 1, told=True)
    bench.make(key, 2, 3, told=True)
    bench.make(key, 4, told=True)
    bench.ack(responder)
    bench.make(key, reason="length")
    bench.ack(responder)
    assert told(responder) == [[], [1], [2, 3, 4], []] == [chunk.ids for chunk in responder.chunks]


def test_a_stop_drops_the_log_probabilities_of_the_ids_it_drops(bench: Bench) -> None:
    key, responder = bench.admit()
    bench.make(key, 1, told=True)
    bench.make(key, 2, told=True)
    bench.post.stop(responder.chunks[0].key)
    bench.ack(responder)
    bench.make(key, 3, told=True)
    assert told(responder) == [[1], []] == [chunk.ids for chunk in responder.chunks]


def test_context_goes_with_the_first_chunk_only(bench: Bench) -> None:
    key, responder = bench.admit(context='{"stream": true}')
    bench.make(key, 1)
    bench.ack(responder)
    bench.make(key, 2)
    assert [chunk.context for chunk in responder.chunks] == ['{"stream": true}', ""]


def test_last_chunk_ends_the_request_and_its_row_goes_with_the_acknowledgement(bench: Bench) -> None:
    key, responder = bench.admit()
    bench.make(key, 1, 2, reason="length")
    assert sent(responder) == [(1, [1, 2], "length")]
    assert responder.is_done
    assert (bench.pump.live, bench.table.live) == (1, 1)
    bench.ack(responder)
    assert (bench.pump.live, bench.table.live) == (0, 0)


def test_finish_while_a_chunk_is_in_flight_waits_for_its_acknowledgement(bench: Bench) -> None:
    key, responder = bench.admit()
    bench.make(key, 1)
    bench.make(key, reason="stop")
    assert sent(responder) == [(1, [1], "")]
    bench.ack(responder)
    assert sent(responder)[1:] == [(2, [], "stop")]


def test_stop_from_postprocess_aborts_the_engine_and_closes_the_stream(bench: Bench) -> None:
    key, responder = bench.admit()
    bench.make(key, 1)
    bench.make(key, 2)
    bench.post.stop(responder.chunks[0].key)
    bench.ack(responder)
    assert bench.adapter.aborted == [key]
    assert sent(responder)[1:] == [(2, [], "stop")]
    bench.make(key, 3)
    bench.ack(responder)
    assert len(responder.chunks) == 2
    assert bench.table.live == 0


def test_stream_whose_chunk_is_lost_is_given_up(bench: Bench) -> None:
    key, responder = bench.admit()
    bench.make(key, 1)
    bench.wait(ACK_TIMEOUT_S - 0.1)
    assert bench.adapter.aborted == []
    bench.wait(0.2)
    assert bench.adapter.aborted == [key]
    assert responder.is_done
    assert (bench.pump.live, bench.table.live) == (0, 0)


def test_last_chunk_that_nobody_takes_frees_its_row_too(bench: Bench) -> None:
    key, responder = bench.admit()
    bench.make(key, 1, reason="stop")
    bench.wait(HEARTBEAT_S + 0.1)
    bench.wait(ACK_TIMEOUT_S)
    assert bench.adapter.aborted == []
    assert len(responder.chunks) == 1
    assert bench.table.live == 0


def test_silent_stream_gets_heartbeats(bench: Bench) -> None:
    key, responder = bench.admit(context="{}")
    bench.wait(HEARTBEAT_S + 0.1)
    assert sent(responder) == [(1, [], "")]
    assert responder.chunks[0].context == "{}"
    bench.ack(responder)
    bench.wait(HEARTBEAT_S + 0.1)
    assert sent(responder)[1:] == [(2, [], "")]
    bench.wait(ACK_TIMEOUT_S + 0.1)
    assert bench.adapter.aborted == [key]


def test_cancel_by_request_id_reaches_the_engine_at_once_and_spares_the_others(bench: Bench) -> None:
    key, responder = bench.admit("mine")
    other_key, other = bench.admit("other")
    assert bench.pump.cancel("mine") == 1
    assert bench.adapter.aborted == [key]
    bench.pump.turn()
    assert sent(responder) == [(1, [], "abort")]
    assert responder.is_done
    bench.make(other_key, 5)
    assert sent(other) == [(1, [5], "")]
    assert bench.pump.cancel("nobody") == 0


def test_engine_error_ends_that_request_with_its_message(bench: Bench) -> None:
    key, responder = bench.admit()
    other_key, other = bench.admit()
    bench.make(key, 7, reason="error", error="out of memory")
    assert responder.error == "out of memory"
    assert bench.table.live == 1
    bench.make(other_key, 5)
    assert sent(other) == [(1, [5], "")]


@pytest.mark.parametrize("reason", ["error", "refused"])
def test_only_a_refusal_is_the_requests_own_fault(bench: Bench, reason: str) -> None:
    key, responder = bench.admit()
    bench.make(key, reason=reason, error="guided_decoding_guide: no")
    assert (responder.error, responder.is_refused) == ("guided_decoding_guide: no", reason == "refused")
    assert responder.chunks == []


def test_engine_error_waits_for_the_chunk_in_flight(bench: Bench) -> None:
    key, responder = bench.admit()
    bench.make(key, 1)
    bench.make(key, reason="error", error="boom")
    assert responder.error == ""
    bench.ack(responder)
    assert responder.error == "boom"


def test_refused_request_leaves_nothing_behind(bench: Bench) -> None:
    bench.adapter.refusal = "top_k: too large"
    with pytest.raises(RefusedError, match="top_k"):
        bench.admit()
    assert (bench.pump.live, bench.table.live) == (0, 0)


def test_full_table_refuses_the_next_request(bench: Bench) -> None:
    for _ in range(4):
        bench.admit()
    with pytest.raises(TableFullError):
        bench.admit()
    assert bench.pump.live == 4


def test_chunk_that_cannot_be_sent_ends_that_stream_only(bench: Bench) -> None:
    key, responder = bench.admit()
    other_key, other = bench.admit()
    responder.is_broken = True
    bench.make(key, 1)
    assert bench.adapter.aborted == [key]
    assert responder.error == "internal error in the engine stage"
    assert bench.table.live == 1
    bench.make(other_key, 5)
    assert sent(other) == [(1, [5], "")]


def test_window_keeps_the_queue_short_but_first_and_last_chunks_pass(tmp_path: Path) -> None:
    bench = Bench(tmp_path, rows=WINDOW + 3)
    streams = [bench.admit() for _ in range(WINDOW + 3)]
    for key, responder in streams:
        bench.make(key, 1)
        assert sent(responder) == [(1, [1], "")]
        bench.ack(responder)
    for key, _ in streams:
        bench.make(key, 2)
    assert sum(len(responder.chunks) == 2 for _, responder in streams) == WINDOW
    (late_key, late), (last_key, last) = streams[-1], streams[-2]
    assert len(late.chunks) == 1
    bench.make(last_key, 3, reason="length")
    assert sent(last)[1:] == [(2, [2, 3], "length")]
    bench.make(late_key, 3)
    for _, responder in streams[:2]:
        bench.ack(responder)
    bench.ack(streams[2][1])
    assert sent(late)[1:] == [(2, [2, 3], "")]


def test_streams_take_turns_in_the_window(tmp_path: Path) -> None:
    bench = Bench(tmp_path, rows=3 * WINDOW)
    streams = [bench.admit() for _ in range(3 * WINDOW)]
    for key, responder in streams:
        bench.make(key, 1)
        bench.ack(responder)
    for _ in range(30):
        bench.adapter.deltas = [TokenDelta(key, (2,)) for key, _ in streams]
        bench.pump.turn()
        for _, responder in streams:
            chunk = responder.chunks[-1]
            bench.post.ack(chunk.key, chunk.number)
    counts = [len(responder.chunks) for _, responder in streams]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) == 3 * WINDOW + 30 * WINDOW


def test_chunks_take_no_more_of_the_cores_than_they_may_but_first_and_last_ones_pass(tmp_path: Path) -> None:
    bench = Bench(tmp_path, streaming_cores=0.01)
    streams = [bench.admit() for _ in range(4)]
    together_s = (WARM_UP_CPU_S + 4 * CHUNK_CPU_S) / 0.01
    counts = []
    for _ in range(100):
        bench.clock.now_s += 0.01
        bench.adapter.deltas = [TokenDelta(key, (7,)) for key, _ in streams]
        bench.pump.turn()
        counts.append(sum(len(responder.chunks) for _, responder in streams))
        for _, responder in streams:
            chunk = responder.chunks[-1]
            bench.post.ack(chunk.key, chunk.number)
    assert counts[0] == 4
    sent_at_s = [0.01 * step for step in range(1, 100) if counts[step] > counts[step - 1]]
    owed_s = 4 * CHUNK_CPU_S / 0.01
    assert sent_at_s == pytest.approx([owed_s + together_s, owed_s + 2 * together_s], abs=0.021)
    assert counts[-1] == 12  # all that are ready go together
    assert bench.adapter.timeouts_s[-1] == IDLE_POLL_S  # nothing may go yet, so nobody looks for acknowledgements
    for key, responder in streams:
        bench.make(key, 8, reason="length")
        assert responder.chunks[-1].finish_reason == "length"
        assert [token for chunk in responder.chunks for token in chunk.ids] == [7] * 100 + [8]


def test_lost_chunks_take_no_place_in_the_window(tmp_path: Path) -> None:
    bench = Bench(tmp_path, rows=WINDOW + 1)
    gone = [bench.admit() for _ in range(WINDOW)]
    for key, responder in gone:
        bench.make(key, 1)
        bench.ack(responder)
        bench.make(key, 2)
    key, responder = bench.admit()
    bench.make(key, 1)
    bench.ack(responder)
    bench.make(key, 2)
    assert len(responder.chunks) == 1
    bench.wait(LATE_S + 0.01)
    bench.wait(0.0)
    assert sent(responder)[1:] == [(2, [2], "")]


def test_dead_engine_fails_every_stream_says_why_and_takes_no_more(bench: Bench) -> None:
    _, responder = bench.admit()
    bench.adapter.death = "CUDA error"
    bench.pump.start()
    bench.pump._thread.join(5)
    assert responder.error == "the engine stage has ended: CUDA error"
    assert responder.error.startswith(UNAVAILABLE)
    assert bench.deaths == ["CUDA error"]
    assert bench.table.live == 0
    with pytest.raises(EngineDiedError, match="CUDA error"):
        bench.admit()


def test_dead_postprocess_fails_every_stream_within_a_moment(bench: Bench) -> None:
    key, responder = bench.admit()
    bench.make(key, 1)
    bench.is_far_end_alive = False
    bench.clock.now_s += 0.3
    bench.pump.start()
    bench.pump._thread.join(5)
    assert responder.error == "the engine stage has ended: the postprocess stage has died"
    assert bench.deaths == ["the postprocess stage has died"]
    assert bench.table.live == 0


def test_stop_ends_what_still_streams(bench: Bench) -> None:
    _, responder = bench.admit()
    bench.pump.start()
    bench.pump.stop()
    assert responder.error == "the server is shutting down"
    assert bench.table.live == 0


def test_table_is_polled_quickly_only_while_a_stream_waits_for_an_acknowledgement(bench: Bench) -> None:
    key, responder = bench.admit()
    bench.make(key, 1)
    bench.make(key, 2)
    bench.pump.turn()
    assert bench.adapter.timeouts_s == [IDLE_POLL_S, IDLE_POLL_S, ACK_POLL_S[0]]
    bench.ack(responder)
    bench.pump.turn()
    assert bench.adapter.timeouts_s[-1] == IDLE_POLL_S


def test_table_is_polled_less_often_when_acknowledgements_take_long(bench: Bench) -> None:
    key, responder = bench.admit()
    for _ in range(40):
        bench.make(key, 1)
        bench.clock.now_s += 0.02
        bench.ack(responder)
    bench.make(key, 2)
    bench.make(key, 3)
    bench.pump.turn()
    assert bench.adapter.timeouts_s[-1] == pytest.approx(0.005, rel=0.05)
    for _ in range(40):
        bench.clock.now_s += 0.5
        bench.ack(responder)
        bench.make(key, 4)
    bench.make(key, 5)
    bench.pump.turn()
    assert bench.adapter.timeouts_s[-1] == ACK_POLL_S[1]


def test_late_delta_of_an_earlier_stream_in_the_row_is_dropped(bench: Bench) -> None:
    key, responder = bench.admit()
    bench.make(key, 1, reason="stop")
    bench.ack(responder)
    for _ in range(4):
        new_key, new = bench.admit()
    assert new_key & 0xFF == key & 0xFF
    bench.make(key, 9)
    assert new.chunks == []


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["make", "make", "ack", "finish", "turn"])),
        min_size=1,
        max_size=60,
    ),
    st.sampled_from([math.inf, 1.0, 0.01]),
)
def test_every_id_arrives_once_and_in_order_whatever_the_timing(tmp_path_factory, moves, streaming_cores) -> None:
    bench = Bench(tmp_path_factory.mktemp("pump"), streaming_cores=streaming_cores)
    keys, responders = zip(*(bench.admit() for _ in range(3)), strict=True)
    made: list[list[int]] = [[], [], []]
    finished = [False] * 3
    for stream, move in moves:
        if move in ("make", "finish") and not finished[stream]:
            finished[stream] = move == "finish"
            made[stream].append(100 * stream + len(made[stream]))
            reason = "length" if finished[stream] else ""
            bench.make(keys[stream], made[stream][-1], reason=reason, told=stream == 1)
        elif move == "ack" and responders[stream].chunks:
            bench.ack(responders[stream])
        else:
            bench.wait(0.01)
        for responder in responders:
            assert [chunk.number for chunk in responder.chunks] == list(range(1, len(responder.chunks) + 1))
    for stream, responder in enumerate(responders):
        if not finished[stream]:
            made[stream].append(-1)
            bench.make(keys[stream], -1, reason="length", told=stream == 1)
        for _ in range(2):
            if responder.chunks:
                bench.ack(responder)
        assert [token for chunk in responder.chunks for token in chunk.ids] == made[stream]
        assert told(responder) == [chunk.ids if stream == 1 else [] for chunk in responder.chunks]
        assert responder.is_done
    assert bench.table.live == 0
    bench.table.close()
    bench.post.close()


def test_engine_keys_are_unique_per_stream(bench: Bench) -> None:
    first, _ = bench.admit()
    second, _ = bench.admit()
    assert first != second
    assert engine_key(responder_key(bench, first)) == first


def responder_key(bench: Bench, key: int):
    return bench.pump._streams[key & 0xFFFFFFFF].key

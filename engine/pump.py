"""The ack-clocked pump: carries token deltas from the adapter to the streams, one chunk in flight for each.

Runs in the engine stage. The next chunk of a stream goes out when postprocess has acknowledged the last one; ids made
in between ride together. Where the engine computes on the cores that chunks cost, they are few enough to leave it its
pace. A chunk that is not acknowledged in time means that it was lost, and its stream with it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from .adapter import EngineAdapter, EngineDiedError, EngineRequest, TokenDelta, TokenLogprob
from .stream import Chunk, Responder, Stream, engine_key, row_of
from .stream_table import EngineTable

logger = logging.getLogger(__name__)

ACK_POLL_S = (0.0005, 0.01)  # least and most; in between a quarter of what acknowledgements take
IDLE_POLL_S = 0.02
CHECK_INTERVAL_S = 0.05
WINDOW = 8  # chunks on their way to postprocess; more would only queue there, in front of first and last chunks
ENDED = "the engine stage has ended"
LATE_S = 0.1  # a chunk that is under way for longer is not in the queue but lost, and takes no place in the window
CHUNK_CPU_S = 0.0006  # what a chunk costs in all processes, and what the first after a while costs more: measured with
WARM_UP_CPU_S = 0.0007  # an engine that computes on the same cores and has the caches for itself in between
FAR_END_POLL_S = 0.25


class Pump:
    """Owns every live stream. `admit` and `cancel` may be called from any thread, the rest runs in the pump's own."""

    def __init__(
        self,
        adapter: EngineAdapter,
        table: EngineTable,
        *,
        ack_timeout_s: float,
        heartbeat_s: float,
        on_death: Callable[[str], None],
        is_alive: Callable[[int], bool],
        streaming_cores: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._adapter = adapter
        self._table = table
        self._ack_timeout_s = ack_timeout_s
        self._heartbeat_s = heartbeat_s
        self._on_death = on_death
        self._is_alive = is_alive
        self._streaming_cores = streaming_cores
        self._clock = clock
        self._streams: dict[int, Stream] = {}  # by row
        self._blocked: set[int] = set()  # rows with something to send that wait for an acknowledgement
        self._ready: deque[Stream] = deque()  # streams with something to send that wait for a place in the window
        self._window = 0
        self._allowance_s = 0.0  # how long `streaming_cores` were left alone, at most for a full window
        self._allowed_at_s = clock()
        self._ack_takes_s = 0.0  # running mean
        self._cancelled: deque[Stream] = deque()
        self._checked_at_s = 0.0
        self._far_end_checked_at_s = 0.0
        self._is_running = True
        self._thread = threading.Thread(target=self._run, name="pump", daemon=True)
        self.death = ""

    def start(self) -> None:
        """Start the pump's thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the pump's thread; what is still streaming is ended with an error."""
        self._is_running = False
        self._thread.join()
        self._fail_all("the server is shutting down")

    @property
    def live(self) -> int:
        """Streams that have not ended."""
        return len(self._streams)

    def admit(
        self, request_id: str, context: str, responder: Responder, request_for: Callable[[int], EngineRequest]
    ) -> None:
        """Start a stream. `request_for` makes the engine's request from its key.

        Raises TableFullError, RefusedError or EngineDiedError; the stream is forgotten then.
        """
        if self.death:
            raise EngineDiedError(f"{ENDED}: {self.death}")
        key = self._table.open()
        stream = Stream(key, request_id, context, responder, sent_at_s=self._clock())
        self._streams[key.row] = stream
        try:
            self._adapter.submit(request_for(engine_key(key)))
        except Exception:
            self._forget(stream)
            raise

    def cancel(self, request_id: str) -> int:
        """End every stream of this request id; returns how many there were. The engine hears of it at once."""
        found = [stream for stream in list(self._streams.values()) if stream.request_id == request_id]
        for stream in found:
            self._adapter.abort(engine_key(stream.key))
        self._cancelled.extend(found)
        return len(found)

    def turn(self) -> None:
        """One round: take what the engine made, read what was acknowledged, send what may go, drop who is gone."""
        for delta in self._adapter.take(self._poll_s()):
            self._collect(delta)
        for row in self._table.take_acked():
            self._acknowledge(self._streams[row])
        while self._cancelled:
            self._abort(self._cancelled.popleft())
        now_s = self._clock()
        self._allow(now_s)
        if self._ready and self._window < WINDOW and self._may_send():
            self._allowance_s -= self._takes_s(0)
            while self._ready and self._window < WINDOW:
                self._send_next(self._ready.popleft())
        if now_s - self._checked_at_s > CHECK_INTERVAL_S:
            self._checked_at_s = now_s
            for stream in list(self._streams.values()):
                self._check(stream, now_s)
            self._check_far_end(now_s)

    def _run(self) -> None:
        try:
            while self._is_running:
                self.turn()
        except EngineDiedError as error:
            self._die(str(error))
        except Exception:
            logger.exception("the pump failed")
            self._die("internal error in the engine stage")

    def _die(self, reason: str) -> None:
        self.death = reason
        self._fail_all(f"{ENDED}: {reason}")
        self._on_death(reason)

    def _poll_s(self) -> float:
        """Every look at the table takes CPU from an engine that computes on the same cores, and steals its pace."""
        if not (self._blocked or self._ready) or not self._may_send():
            return IDLE_POLL_S
        least_s, most_s = ACK_POLL_S
        return min(max(self._ack_takes_s / 4, least_s), most_s)

    def _allow(self, now_s: float) -> None:
        """Allow for the time that has passed. First and last chunks do not ask, but are counted."""
        self._allowance_s = min(self._allowance_s + now_s - self._allowed_at_s, self._takes_s(WINDOW))
        self._allowed_at_s = now_s

    def _may_send(self) -> bool:
        """Whether all that are ready may go, as far as the window goes: the first warms the caches for the others."""
        return self._allowance_s >= self._takes_s(min(len(self._ready), WINDOW))

    def _takes_s(self, chunks: int) -> float:
        """How long `streaming_cores` are busy with so many chunks in a row."""
        return (WARM_UP_CPU_S + chunks * CHUNK_CPU_S) / self._streaming_cores

    def _collect(self, delta: TokenDelta) -> None:
        stream = self._streams.get(row_of(delta.key))
        if stream is None or engine_key(stream.key) != delta.key or stream.finish_reason:
            return  # it was aborted, and the engine had not heard of it yet
        stream.pending += delta.ids
        if delta.logprobs:
            stream.pending_logprobs += delta.logprobs
        stream.finish_reason = delta.finish_reason
        stream.error = delta.error
        self._advance(stream)

    def _acknowledge(self, stream: Stream) -> None:
        stream.is_in_flight = False
        self._leave_window(stream)
        self._ack_takes_s += (self._clock() - stream.sent_at_s - self._ack_takes_s) / 8
        if stream.is_closed:
            self._forget(stream)
        elif not stream.finish_reason and self._table.is_stopped(stream.key):
            self._adapter.abort(engine_key(stream.key))
            stream.pending.clear()
            stream.pending_logprobs.clear()
            stream.finish_reason = "stop"
        self._advance(stream)

    def _advance(self, stream: Stream) -> None:
        if stream.is_closed or not (stream.pending or stream.finish_reason):
            self._blocked.discard(stream.key.row)
        elif stream.is_in_flight:
            self._blocked.add(stream.key.row)
        elif stream.context or stream.finish_reason:
            self._send(stream)
        elif not stream.is_ready:
            stream.is_ready = True
            self._ready.append(stream)

    def _send_next(self, stream: Stream) -> None:
        """Send a stream's chunk whose turn it is, unless the stream has ended or sent it meanwhile."""
        stream.is_ready = False
        if stream.pending and not (stream.is_in_flight or stream.is_closed):
            self._send(stream)

    def _send(self, stream: Stream) -> None:
        """Send what is pending, an empty chunk if that is nothing."""
        self._blocked.discard(stream.key.row)
        if stream.error:
            self._fail(stream, stream.error)
            return
        stream.is_in_flight = stream.is_in_window = True
        self._window += 1
        self._allowance_s -= CHUNK_CPU_S / self._streaming_cores
        stream.is_closed = bool(stream.finish_reason)
        stream.sent_at_s = self._clock()
        ids, logprobs, context = stream.pending, stream.pending_logprobs, stream.context
        stream.pending, stream.pending_logprobs, stream.context = [], [], ""
        self._deliver(stream, ids, logprobs, context)

    def _deliver(self, stream: Stream, ids: list[int], logprobs: Sequence[TokenLogprob], context: str) -> None:
        chunk = Chunk(stream.key, self._table.send(stream.key), ids, context, stream.finish_reason, logprobs)
        try:
            stream.responder.send(chunk, is_last=stream.is_closed)
        except Exception:
            logger.exception("stream %d.%d: the chunk could not be sent", *stream.key)
            self._adapter.abort(engine_key(stream.key))
            self._fail(stream, "internal error in the engine stage")

    def _fail(self, stream: Stream, message: str) -> None:
        with suppress(Exception):  # the request may be gone, and nobody else may suffer from that
            stream.responder.fail(message, is_refusal=stream.finish_reason == "refused")
        self._forget(stream)

    def _check(self, stream: Stream, now_s: float) -> None:
        """Give a lost stream up; send a silent one a heartbeat, for postprocess to see whether its client left."""
        waited_s = now_s - stream.sent_at_s
        if waited_s > LATE_S:
            self._leave_window(stream)
        if not stream.is_in_flight:
            if waited_s > self._heartbeat_s:
                self._send(stream)
        elif waited_s > self._ack_timeout_s:
            self._abandon(stream)

    def _check_far_end(self, now_s: float) -> None:
        """Without postprocess nothing is ever acknowledged again: say so now and not one time-out after the other."""
        if now_s - self._far_end_checked_at_s > FAR_END_POLL_S:
            self._far_end_checked_at_s = now_s
            pid = self._table.postprocess_pid
            if pid and not self._is_alive(pid):
                raise EngineDiedError("the postprocess stage has died")

    def _abandon(self, stream: Stream) -> None:
        """Nobody takes this stream's chunks: free its slot and close it as far as Triton is concerned."""
        if not stream.is_closed:
            logger.warning("stream %d.%d: no acknowledgement, the stream is given up", *stream.key)
            self._adapter.abort(engine_key(stream.key))
            stream.finish_reason, stream.is_closed = "abort", True
            self._deliver(stream, [], (), "")
        self._forget(stream)

    def _leave_window(self, stream: Stream) -> None:
        if stream.is_in_window:
            stream.is_in_window = False
            self._window -= 1

    def _abort(self, stream: Stream) -> None:
        stream.finish_reason = stream.finish_reason or "abort"
        self._advance(stream)

    def _fail_all(self, message: str) -> None:
        for stream in list(self._streams.values()):
            if stream.is_closed:
                self._forget(stream)
            else:
                self._fail(stream, message)

    def _forget(self, stream: Stream) -> None:
        stream.is_closed = True
        self._leave_window(stream)
        self._blocked.discard(stream.key.row)
        if self._streams.pop(stream.key.row, None):
            self._table.free(stream.key)

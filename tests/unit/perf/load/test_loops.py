"""Loops with a client that answers after a set time, on asyncio's own clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

from perf.load.loops import LagMeter, Limit, closed_loop, open_loop
from perf.load.record import LoadRecord, now_ns
from perf.load.request import LoadRequest

from .records import record


class SlowClient:
    """Takes `answer_s` for each request, and notes how many run at once."""

    def __init__(self, answer_s: float) -> None:
        self._answer_s = answer_s
        self.running = self.most = 0
        self.prompts: list[str] = []

    async def send(self, request: LoadRequest, due_ns: int | None) -> LoadRecord:
        """See Client."""
        self.prompts.append(str(request.prompt))
        sent_ns = now_ns()
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(self._answer_s)
        self.running -= 1
        return record(sent_ns if due_ns is None else due_ns, (now_ns(),), sent_ns=sent_ns)


def requests() -> Iterator[LoadRequest]:
    return (LoadRequest(str(number), 1) for number in count())


def test_closed_loop_keeps_every_stream_busy_and_sends_each_request_once() -> None:
    client, told = SlowClient(0.005), []
    records = asyncio.run(closed_loop(client, requests(), 3, Limit(10, None), told.append))
    assert client.most == 3
    assert sorted(map(int, client.prompts)) == list(range(10))
    assert len(records) == 10
    assert told == list(range(1, 11))
    assert all(one.due_ns == one.sent_ns for one in records)


def test_closed_loop_by_time_waits_for_what_runs() -> None:
    client = SlowClient(0.03)
    records = asyncio.run(closed_loop(client, requests(), 2, Limit(None, 0.05), lambda _: None))
    assert client.running == 0
    assert len(records) == 4  # sent at 0 and 0.03 s by both


def test_open_loop_does_not_wait_for_answers() -> None:
    client = SlowClient(0.2)
    times_s = (number * 0.01 for number in count())
    records = asyncio.run(open_loop(client, requests(), times_s, Limit(8, None), lambda _: None))
    assert client.most == 8
    dues = sorted(one.due_ns for one in records)
    assert [due - dues[0] for due in dues] == [number * 10_000_000 for number in range(8)]
    assert all(one.sent_ns >= one.due_ns for one in records)


def test_open_loop_keeps_the_schedule_when_the_client_is_late() -> None:
    """What a blocked client sends late is still due when it was."""

    class BlockingClient(SlowClient):
        async def send(self, request: LoadRequest, due_ns: int | None) -> LoadRecord:
            if request.prompt == "0":
                end_ns = now_ns() + 50_000_000
                while now_ns() < end_ns:  # the event loop stands still
                    pass
            return await super().send(request, due_ns)

    times_s = (number * 0.01 for number in count())
    records = asyncio.run(open_loop(BlockingClient(0.001), requests(), times_s, Limit(4, None), lambda _: None))
    by_due = sorted(records, key=lambda one: one.due_ns)
    assert by_due[1].due_ns - by_due[0].due_ns == 10_000_000
    assert by_due[1].sent_ns - by_due[1].due_ns >= 35_000_000


def test_open_loop_ends_with_its_time_or_its_requests() -> None:
    times_s = (number * 0.01 for number in count())
    by_time = asyncio.run(open_loop(SlowClient(0), requests(), times_s, Limit(None, 0.035), lambda _: None))
    assert len(by_time) == 4
    trace = [LoadRequest("a", 1, 0.0), LoadRequest("b", 1, 0.02)]
    by_trace = asyncio.run(open_loop(SlowClient(0), trace, iter(()), Limit(None, None), lambda _: None))
    assert sorted(one.due_ns for one in by_trace)[1] - min(one.due_ns for one in by_trace) == 20_000_000


def test_lag_is_what_the_event_loop_was_held_up() -> None:
    async def busy() -> LagMeter:
        async with LagMeter() as meter:
            await asyncio.sleep(0.03)
            end_ns = now_ns() + 60_000_000
            while now_ns() < end_ns:
                pass
            await asyncio.sleep(0.03)
        return meter

    found = asyncio.run(busy()).found
    assert max(found.lags_s) >= 0.035
    assert found.lags_s[0] < 0.03
    assert 0 < found.cpu_cores <= 1.1

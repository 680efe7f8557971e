from __future__ import annotations

import asyncio

import pytest
from starlette.types import Receive, Scope, Send

from tests.unit.tritone.gateway.asgi import DISCONNECT, NEVER, Answer, acall, body, call, echo, scope
from tritone.gateway.health import GatewayState
from tritone.gateway.limits import Admission, BodyLimit
from tritone.gateway.metrics import GatewayMetrics
from tritone.gateway.request_record import new_record


@pytest.fixture
def metrics() -> GatewayMetrics:
    return GatewayMetrics()


@pytest.fixture
def limited(metrics: GatewayMetrics) -> BodyLimit:
    return BodyLimit(echo, metrics, most_bytes=10, timeout_s=0.05)


@pytest.mark.parametrize("parts", [[b""], [b"0123456789"], [b"01234", b"", b"56789"]])
def test_a_body_up_to_the_limit_arrives_whole(limited: BodyLimit, parts: list[bytes]) -> None:
    answer = call(limited, scope(), body(*parts))
    assert (answer.status, answer.body, len(answer.messages)) == (200, b"".join(parts), 2)


@pytest.mark.parametrize("parts", [[b"0123456789a"], [b"01234", b"567890"], [b"x" * 11, b"never read"]])
def test_a_longer_body_is_413_with_and_without_its_length(limited: BodyLimit, parts: list[bytes]) -> None:
    answers = [
        call(limited, scope(), body(*parts)),
        call(limited, scope(headers={"content-length": "11"}), [NEVER]),
    ]
    assert [answer.status for answer in answers] == [413, 413]
    assert "longer than 10 bytes" in answers[0].error["message"]
    assert answers[0].error == answers[1].error


@pytest.mark.parametrize("length", ["1e3", "-1", "", "ten"])
def test_a_length_that_is_no_number_is_400(limited: BodyLimit, length: str) -> None:
    answer = call(limited, scope(headers={"content-length": length}), [NEVER])
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, "content-length", "invalid_value")


def test_a_body_that_stops_coming_is_408(limited: BodyLimit, metrics: GatewayMetrics) -> None:
    answer = call(limited, scope(), [*body(b"01", b"23")[:1], NEVER])
    assert (answer.status, answer.error["type"]) == (408, "timeout_error")
    assert 'tritone:rejections_total{reason="body_too_slow"} 1.0' in metrics.text()


def test_a_client_that_leaves_within_its_body_gets_nothing(limited: BodyLimit) -> None:
    request = scope()
    record = new_record(request)
    answer = call(limited, request, [*body(b"01", b"23")[:1], DISCONNECT])
    assert (answer.messages, record.outcome) == ([], "disconnected")


def test_a_get_is_not_waited_for(limited: BodyLimit) -> None:
    assert call(limited, scope("GET", headers={"content-length": "99"}), body(b"x" * 99)).status == 200


class Held:
    """An app that answers when it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.go.wait()
        await echo(scope, receive, send)


@pytest.mark.parametrize("status", [429, 503])
def test_more_than_the_most_are_refused_until_one_is_answered(metrics: GatewayMetrics, status: int) -> None:
    async def run() -> list[Answer]:
        held, state = Held(), GatewayState()
        app = Admission(held, state, metrics, 2, status)
        running = [asyncio.create_task(acall(app, scope())) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await acall(app, scope())
        assert state.in_flight == 2
        held.go.set()
        answers = [await task for task in running]
        assert state.in_flight == 0
        return [refused, *answers, await acall(app, scope())]

    refused, *others = asyncio.run(run())
    assert (refused.status, refused.headers["retry-after"]) == (status, "1")
    assert [answer.status for answer in others] == [200, 200, 200]
    assert 'tritone:rejections_total{reason="too_many_requests"} 1.0' in metrics.text()


def test_an_app_that_fails_is_no_longer_counted(metrics: GatewayMetrics) -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("no")

    state = GatewayState()
    with pytest.raises(ValueError, match="no"):
        call(Admission(fail, state, metrics, 1, 429), scope())
    assert state.in_flight == 0


def test_draining_refuses_work_and_answers_questions(metrics: GatewayMetrics) -> None:
    state = GatewayState()
    state.drain()
    app = Admission(echo, state, metrics, 9, 429)
    work = call(app, scope("POST"))
    assert (work.status, work.error["code"], work.headers["retry-after"]) == (503, "service_unavailable", "1")
    assert call(app, scope("GET", "/v1/models")).status == 200

from __future__ import annotations

import pytest
from starlette.datastructures import Headers
from starlette.types import Scope

from tests.unit.tritone.gateway.asgi import Answer, call, echo, scope
from tritone.gateway.request_id import RequestIds, trace_headers
from tritone.gateway.request_record import RequestRecord, new_record

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def asked(request: Scope) -> tuple[Answer, RequestRecord]:
    record = new_record(request)
    return call(RequestIds(echo), request), record


def test_two_requests_may_call_themselves_the_same() -> None:
    (first, one), (second, two) = (asked(scope(headers={"X-Request-ID": "mine"})) for _ in range(2))
    assert (first.status, second.status, one.id, two.id) == (200, 200, "mine", "mine")
    assert one.internal_id.startswith("mine-")
    assert one.internal_id != two.internal_id


def test_a_request_without_an_id_gets_one() -> None:
    _, record = asked(scope())
    assert record.id == f"req-{record.internal_id}"


@pytest.mark.parametrize("given", ["", " ", "a b", "a\nb", "é", "a" * 129, "a" * 1_000_000, "]", "a,b"])
def test_a_bad_id_is_refused_and_not_echoed(given: str) -> None:
    answer, record = asked(scope(headers={"x-request-id": given}))
    assert (answer.status, answer.error["param"]) == (400, "x-request-id")
    assert len(answer.body) < 300
    assert record.id == f"req-{record.internal_id}"


@pytest.mark.parametrize("given", ["a", "a" * 128, "f47ac10b-58cc-4372-a567-0e02b2c3d479", "A.z:9/_+=@"])
def test_a_good_id_is_taken(given: str) -> None:
    assert asked(scope(headers={"x-request-id": given}))[1].id == given


def test_the_trace_context_is_passed_on() -> None:
    given = {"traceparent": TRACE, "tracestate": "a=1,b=2"}
    assert trace_headers(Headers(given)) == given
    assert asked(scope(headers=given))[1].trace_headers == given


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "00",
        TRACE.upper(),
        TRACE + "-x",
        "ff" + TRACE[2:],
        "00-" + "0" * 32 + TRACE[35:],
        TRACE[:36] + "0" * 16 + "-01",
    ],
)
def test_a_malformed_trace_context_is_left_out(traceparent: str) -> None:
    assert trace_headers(Headers({"traceparent": traceparent, "tracestate": "a=1"})) == {}


def test_a_later_version_may_say_more() -> None:
    later = "01" + TRACE[2:] + "-more"
    assert trace_headers(Headers({"traceparent": later, "tracestate": "a" * 513})) == {"traceparent": later}

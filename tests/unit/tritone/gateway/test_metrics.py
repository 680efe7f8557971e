from __future__ import annotations

from collections.abc import Callable

import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.tritone.gateway.asgi import call, scope
from tests.unit.tritone.gateway.fake_clock import Clock
from tritone.gateway import metrics as metrics_module
from tritone.gateway.metrics import GatewayMetrics, metrics_router
from tritone.gateway.request_record import RequestRecord, new_record


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(metrics_module, "time", clock)
    return clock


@pytest.fixture
def metrics() -> GatewayMetrics:
    metrics = GatewayMetrics()
    metrics.models = frozenset({"toy"})
    return metrics


@pytest.fixture
def record() -> RequestRecord:
    record = new_record(scope())
    record.model, record.started_s, record.status = "toy", 100.0, 200
    return record


@pytest.fixture
def value(metrics: GatewayMetrics) -> Callable[..., float]:
    def find(name: str, **labels: str) -> float:
        found = metrics.registry.get_sample_value(f"tritone:{name}", labels)
        assert found is not None
        return found

    return find


def test_tokens_that_come_together_share_the_time(
    clock: Clock, metrics: GatewayMetrics, record: RequestRecord, value: Callable[..., float]
) -> None:
    for now_s, num_tokens in ((100.5, 1), (100.9, 5), (100.9, 5), (101.0, 6)):
        clock.now_s = now_s
        metrics.tokens(record, 0, num_tokens)
    assert value("time_to_first_token_seconds_sum", model_name="toy") == pytest.approx(0.5)
    assert value("time_to_first_token_seconds_count", model_name="toy") == 1
    assert value("inter_token_latency_seconds_count", model_name="toy") == 5
    assert value("inter_token_latency_seconds_sum", model_name="toy") == pytest.approx(0.5)
    assert value("inter_token_latency_seconds_bucket", model_name="toy", le="0.075") == 0
    assert value("generation_tokens_total", model_name="toy") == record.num_generation_tokens == 6


def test_each_choice_has_its_own_pace(
    clock: Clock, metrics: GatewayMetrics, record: RequestRecord, value: Callable[..., float]
) -> None:
    for now_s, choice, num_tokens in ((101.0, 0, 1), (102.0, 1, 1), (103.0, 0, 2), (104.0, 1, 2)):
        clock.now_s = now_s
        metrics.tokens(record, choice, num_tokens)
    assert value("time_to_first_token_seconds_sum", model_name="toy") == 1
    assert value("inter_token_latency_seconds_sum", model_name="toy") == 4
    assert value("inter_token_latency_seconds_bucket", model_name="toy", le="2.5") == 2


def test_a_heartbeat_is_no_token(clock: Clock, metrics: GatewayMetrics, record: RequestRecord) -> None:
    metrics.tokens(record, 0, 0)
    assert record.first_token_s is None


def test_a_whole_request(
    clock: Clock, metrics: GatewayMetrics, record: RequestRecord, value: Callable[..., float]
) -> None:
    metrics.started()
    assert value("num_requests_running") == 1
    clock.now_s = 100.25
    metrics.sent(record)
    metrics.prompt(record, 7)
    metrics.tokens(record, 0, 3)
    metrics.finished(record, "length")
    clock.now_s = 102.0
    metrics.ended(record, "/v1/completions")
    assert value("num_requests_running") == 0
    assert value("requests_total", route="/v1/completions", model_name="toy", outcome="ok") == 1
    assert value("request_success_total", model_name="toy", finished_reason="length") == 1
    assert value("prompt_tokens_total", model_name="toy") == record.num_prompt_tokens == 7
    assert value("request_handover_time_seconds_sum", model_name="toy") == 0.25
    assert value("e2e_request_latency_seconds_sum", model_name="toy") == 2


def test_names_clients_invent_are_no_labels(metrics: GatewayMetrics, value: Callable[..., float]) -> None:
    for index in range(50):
        record = new_record(scope())
        record.model, record.status = f"no-such-model-{index}", 404
        metrics.ended(record, "/v1/completions")
    assert value("requests_total", route="/v1/completions", model_name="unknown", outcome="refused") == 50
    assert "no-such" not in metrics.text()


@pytest.mark.parametrize(
    ("status", "error", "is_disconnected", "outcome"),
    [
        (200, "", False, "ok"),
        (404, "", False, "refused"),
        (429, "", False, "overloaded"),
        (503, "", False, "overloaded"),
        (500, "", False, "error"),
        (0, "", False, "error"),
        (200, "broken off", False, "error"),
        (200, "broken off", True, "disconnected"),
    ],
)
def test_outcomes(record: RequestRecord, status: int, error: str, is_disconnected: bool, outcome: str) -> None:
    record.status, record.error, record.is_disconnected = status, error, is_disconnected
    assert record.outcome == outcome


def test_a_disconnect_is_counted(metrics: GatewayMetrics, record: RequestRecord, value: Callable[..., float]) -> None:
    record.is_disconnected = True
    metrics.ended(record, "/v1/completions")
    assert value("disconnects_total", model_name="toy") == 1


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("theirs", ["", "nv_inference_count 3", "nv_inference_count 3\n"])
def test_one_scrape_tells_tritons_too(metrics: GatewayMetrics, method: str, theirs: str) -> None:
    async def triton() -> str:
        return theirs

    app = FastAPI()
    app.include_router(metrics_router(metrics, triton))
    metrics.started()
    answer = call(app, scope(method, "/metrics"))
    names = {family.name for family in text_string_to_metric_families(answer.body.decode())}
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "tritone:num_requests_running" in names
    assert ("nv_inference_count" in names) == bool(theirs)
    assert answer.body.endswith(b"\n")

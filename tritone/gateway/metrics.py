"""The gateway's own Prometheus metrics, in names shaped like vLLM's. Runs in the gateway, in each worker.

With several workers the values lie in files of PROMETHEUS_MULTIPROC_DIR, and a scrape of any worker tells all of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.responses import Response

from tritone.gateway.process import METRICS_DIR_VARIABLE
from tritone.gateway.request_record import RequestRecord

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
UNKNOWN = "unknown"

Rejection = Literal["unauthorized", "too_many_requests", "draining", "engine_full", "body_too_large", "body_too_slow"]

_FIRST_TOKEN_S = (0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160)
_TOKEN_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10)
_REQUEST_S = (0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 3840)
_HANDOVER_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

disable_created_metrics()  # type: ignore[no-untyped-call]  # one more series for each, which no dashboard reads


class _ManyHistogram(Histogram):
    """A histogram that takes a value as often as it occurred, at the price of one."""

    def observe_many(self, amount: float, count: int) -> None:
        """Observe `amount` `count` times."""
        self._sum.inc(amount * count)
        bucket = next(index for index, bound in enumerate(self._upper_bounds) if amount <= bound)
        self._buckets[bucket].inc(count)


class GatewayMetrics:
    """What is counted. `models` are the names that may become labels; any other is `unknown`."""

    def __init__(self) -> None:
        self.models: frozenset[str] = frozenset()
        self.registry = registry = CollectorRegistry()
        self._chunks_of: dict[str, tuple[Counter, _ManyHistogram]] = {}
        by_model = ["model_name"]

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> _ManyHistogram:
            return _ManyHistogram(f"tritone:{name}", text, by_model, buckets=buckets, registry=registry)

        def counter(name: str, text: str, labels: list[str]) -> Counter:
            return Counter(f"tritone:{name}", text, labels, registry=registry)

        self._requests = counter("requests", "Requests answered, by outcome.", ["route", "model_name", "outcome"])
        self._successes = counter("request_success", "Choices that came to their end.", [*by_model, "finished_reason"])
        self._rejections = counter(
            "rejections", "Requests refused because there was too much of them, or without a key.", ["reason"]
        )
        self._disconnects = counter("disconnects", "Requests whose client left before the end.", by_model)
        self._prompt_tokens = counter("prompt_tokens", "Tokens of prompts.", by_model)
        self._generation_tokens = counter("generation_tokens", "Tokens made.", by_model)
        self._first_token = histogram("time_to_first_token_seconds", "From arrival to first token.", _FIRST_TOKEN_S)
        self._token = histogram("inter_token_latency_seconds", "From one token of a choice to the next.", _TOKEN_S)
        self._e2e = histogram("e2e_request_latency_seconds", "From arrival to the last byte.", _REQUEST_S)
        self._handover = histogram("request_handover_time_seconds", "From arrival to Triton.", _HANDOVER_S)
        self._running = Gauge(
            "tritone:num_requests_running", "Requests being answered.", registry=registry, multiprocess_mode="livesum"
        )

    def started(self) -> None:
        """A request has come."""
        self._running.inc()

    def ended(self, record: RequestRecord, route: str) -> None:
        """A request has been answered, or has lost its client."""
        self._running.dec()
        model = self._label(record)
        self._requests.labels(route, model, record.outcome).inc()
        if record.is_disconnected:
            self._disconnects.labels(model).inc()
        if record.num_generation_tokens:
            self._e2e.labels(model).observe(time.monotonic() - record.started_s)

    def rejected(self, reason: Rejection) -> None:
        """A request was refused."""
        self._rejections.labels(reason).inc()

    def sent(self, record: RequestRecord) -> None:
        """A generation has been handed to Triton."""
        self._handover.labels(self._label(record)).observe(time.monotonic() - record.started_s)

    def prompt(self, record: RequestRecord, num_tokens: int) -> None:
        """A prompt of the request has so many tokens; to be told once for each."""
        record.num_prompt_tokens += num_tokens
        self._prompt_tokens.labels(self._label(record)).inc(num_tokens)

    def tokens(self, record: RequestRecord, choice: int, num_tokens: int) -> None:
        """A choice has `num_tokens` tokens by now. Tokens that came together share the time since those before."""
        now_s = time.monotonic()
        last_s, last_num = record.last_tokens.get(choice, (now_s, 0))
        new = num_tokens - last_num
        if new <= 0:
            return
        record.last_tokens[choice] = (now_s, num_tokens)
        record.num_generation_tokens += new
        model = self._label(record)
        generated, between = self._for_chunks(model)
        generated.inc(new)
        if record.first_token_s is None:
            record.first_token_s = now_s
            self._first_token.labels(model).observe(now_s - record.started_s)
        if last_num:
            between.observe_many((now_s - last_s) / new, new)

    def finished(self, record: RequestRecord, reason: str) -> None:
        """A choice came to its end: stop, length."""
        record.finish_reasons.append(reason)
        self._successes.labels(self._label(record), reason).inc()

    def text(self) -> str:
        """All of it, in Prometheus' text format."""
        registry = self.registry
        if directory := os.environ.get(METRICS_DIR_VARIABLE):
            registry = CollectorRegistry()
            MultiProcessCollector(registry, directory)  # type: ignore[no-untyped-call]
        return generate_latest(registry).decode()

    def _for_chunks(self, model: str) -> tuple[Counter, _ManyHistogram]:
        """What every chunk is counted in; to look it up by its label costs more than to count."""
        if model not in self._chunks_of:
            self._chunks_of[model] = self._generation_tokens.labels(model), self._token.labels(model)
        return self._chunks_of[model]

    def _label(self, record: RequestRecord) -> str:
        return record.model if record.model in self.models else UNKNOWN


def metrics_router(metrics: GatewayMetrics, triton_metrics: Callable[[], Awaitable[str]]) -> APIRouter:
    """GET and HEAD of /metrics: our own and, where they can be had, Triton's."""

    async def answer() -> Response:
        theirs = await triton_metrics()
        return Response(
            metrics.text() + theirs + ("" if theirs.endswith("\n") or not theirs else "\n"),
            200,
            media_type=None,
            headers={"content-type": CONTENT_TYPE},
        )

    router = APIRouter(tags=["metrics"])
    router.add_api_route(PATH, answer, response_class=Response, response_model=None)
    router.add_api_route(PATH, answer, methods=["HEAD"], include_in_schema=False, response_model=None)
    return router

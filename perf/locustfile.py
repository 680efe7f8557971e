"""Locust users that read streams: `python -m perf locust`, or `locust -f perf/locustfile.py`. Runs on the load host.

A request is one row of locust's table, from its being sent to its last token; it fails where `perf load` counts an
error, an error event within a stream included. Below it are rows that no request makes, so that locust's totals leave
them out: TTFT, the gaps between events (ITL), and every token (per token; its requests/s are tokens/s). The web page
/tokens has the same over time.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc.experimental.gevent
from locust import LoadTestShape, User, events, task
from locust.argument_parser import LocustArgumentParser

from perf.load import metrics
from perf.load.command import load_tokenizer
from perf.load.figures import MS_PER_NS
from perf.load.fronts import GRPC, Target
from perf.load.gevent_grpc import GeventGrpc
from perf.load.gevent_http import GeventHttp
from perf.load.lengths import parse_lengths
from perf.load.over_time import slice_seconds, slices, time_plots
from perf.load.record import LoadRecord
from perf.load.request import LoadRequest
from perf.load.shapes import SHAPES, users_at
from perf.load.workload import PromptMaker, synthetic
from perf.plots import DARK, LIGHT, draw, paint

grpc.experimental.gevent.init_gevent()

KEPT_RECORDS = 20_000
REFRESH_S = 5

recent: deque[LoadRecord] = deque(maxlen=KEPT_RECORDS)
"""The last answers, for the page /tokens."""


def add_options(parser: LocustArgumentParser) -> None:
    """What `python -m perf locust --help` has, under the same names; the page shows them, too, but for the key."""
    parser.add_argument("--model", default="smollm2", help="The model's name.")
    parser.add_argument("--triton-url", default="http://127.0.0.1:8000", help="Triton's HTTP, for GenerateStreamUser.")
    parser.add_argument("--grpc-url", default="127.0.0.1:8001", help="Triton's gRPC, for GrpcUser.")
    parser.add_argument("--prompt-tokens", default="128", help="Lengths: 128, 64-256, or mixed: 64:0.8,2048:0.2.")
    parser.add_argument("--output-tokens", default="128", help="Lengths of answers, likewise.")
    parser.add_argument(
        "--tokenizer-file", default="", help="The model's tokenizer.json; the bundled model's if empty."
    )
    parser.add_argument("--answer-timeout", type=float, default=600.0, help="Most seconds for one answer.")
    parser.add_argument("--load-shape", choices=SHAPES, default="constant", help="How the number of users changes.")
    parser.add_argument("--steps", type=int, default=5, help="Steps of the shape `steps`.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of prompts and lengths.")
    parser.add_argument("--api-key-env", default="", help="Environment variable with the key.", include_in_web_ui=False)
    parser.add_argument("--records", default="", help="Append each request to this file.", include_in_web_ui=False)


def prepare(environment: Any, **_: Any) -> None:
    """Make prompts, and serve /tokens beside locust's own page. What cannot be used is said now."""
    options = environment.parsed_options
    if options is None:
        return
    random_source = random.Random(options.seed)
    tokenizer = load_tokenizer(Path(options.tokenizer_file) if options.tokenizer_file else None)
    lengths = parse_lengths(options.prompt_tokens), parse_lengths(options.output_tokens)
    StreamingUser.requests = synthetic(PromptMaker(tokenizer, 0, random_source).text, *lengths, random_source)
    if environment.web_ui:
        environment.web_ui.app.add_url_rule("/tokens", "tokens", tokens_page)


class Shape(LoadTestShape):
    """The one that --load-shape names; -u users, for -t."""

    use_common_options = True

    def tick(self) -> tuple[int, float] | None:
        """Users wanted now, and how fast they come; None at the end."""
        runner: Any = self.runner
        options = runner.environment.parsed_options
        run_time_s, elapsed_s = options.run_time or float("inf"), time.perf_counter() - self.start_time
        if elapsed_s >= run_time_s:
            return None
        users = users_at(options.load_shape, elapsed_s, options.num_users or 1, run_time_s, options.steps)
        return users, options.spawn_rate or users


class StreamFailed(Exception):
    """An answer that did not come to its end as it should."""


class StreamingUser(User):
    """Sends its next request when the last one has ended."""

    abstract = True
    front: str
    requests: Iterator[LoadRequest]

    def on_start(self) -> None:
        """Connect."""
        options: Any = self.environment.parsed_options
        urls = {"generate_stream": options.triton_url, GRPC: options.grpc_url}
        headers = {"authorization": f"Bearer {os.environ[options.api_key_env]}"} if options.api_key_env else {}
        url = urls.get(self.front, self.host or "http://127.0.0.1:9000")
        target = Target(url, options.model, headers, timeout_s=options.answer_timeout)
        self._client = GeventGrpc(target, None) if self.front == GRPC else GeventHttp(self.front, target, None)

    def on_stop(self) -> None:
        """Hang up."""
        self._client.close()

    @task
    def ask(self) -> None:
        """One request."""
        tell(self.environment, self.front, self._client.send(next(self.requests)))


class ChatUser(StreamingUser):
    """OpenAI's chat completions, by server-sent events."""

    front = "chat"


class CompletionsUser(StreamingUser):
    """OpenAI's completions, by server-sent events."""

    front = "completions"


class GenerateStreamUser(StreamingUser):
    """Triton's generate_stream, by server-sent events."""

    front = "generate_stream"


class GrpcUser(StreamingUser):
    """Triton's gRPC streaming."""

    front = GRPC


def tell(environment: Any, front: str, record: LoadRecord) -> None:
    """Put a request into locust's table, into the file of records and onto the page."""
    recent.append(record)
    options = environment.parsed_options
    if options.records:
        row = {"kind": "users", "value": options.num_users, "front": front, **record._asdict()}
        with open(options.records, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    is_answered = metrics.is_answered(record)
    end_ns = record.received_ns[-1] if is_answered else record.ended_ns
    environment.events.request.fire(
        request_type="gRPC" if front == GRPC else "SSE",
        name=front,
        response_time=(end_ns - record.sent_ns) * MS_PER_NS,
        response_length=0,
        exception=None if is_answered else StreamFailed(f"{record.error or 'no token'}: {record.detail or ''}"),
        context={},
    )
    if not is_answered:
        return
    rows: dict[str, list[tuple[float, int]]] = {
        "TTFT": [(metrics.ttft_ns(record), 1)],
        "ITL": [(gap_ns, 1) for gap_ns in metrics.itl_ns(record)],
        "per token": metrics.per_token_ns(record),
    }
    for name, values in rows.items():
        entry: Any = environment.stats.get(f"{front}: {name}", "")
        for value_ns, count in values:
            for _ in range(count):
                entry.log(value_ns * MS_PER_NS, 0)


def tokens_page() -> str:
    """Tokens, TTFT and per-token latency over time, drawn anew every few seconds."""
    records = sorted(recent, key=lambda record: record.ended_ns)
    drawings = ""
    if records:
        start_ns = min(record.sent_ns for record in records)
        seconds = slice_seconds((max(record.ended_ns for record in records) - start_ns) / 1e9)
        variables = {name: f"var(--{name})" for name in LIGHT}
        drawings = "".join(paint(draw(plot), variables) for plot in time_plots(slices(records, start_ns, seconds)))
    light, dark = (" ".join(f"--{name}: {color};" for name, color in colors.items()) for colors in (LIGHT, DARK))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Tokens</title>'
        f'<meta http-equiv="refresh" content="{REFRESH_S}"><meta name="color-scheme" content="light dark"><style>'
        f":root {{ {light} }} @media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
        "svg { width: min(48rem, 100%); height: auto; }</style></head>"
        f"<body>{drawings or 'No answer yet.'}</body></html>"
    )


events.init_command_line_parser.add_listener(add_options)  # type: ignore[no-untyped-call]
events.init.add_listener(prepare)  # type: ignore[no-untyped-call]

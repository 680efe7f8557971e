"""The two ways to one ensemble that the gateway benchmark compares. Run on the load host, with the same client."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import psutil

from perf.cpu_sampler import CpuSampler
from perf.gateway_process import RunningGateway, running_gateway
from perf.overhead_sides import Prompts, Side
from perf.records import RequestRecord
from perf.server import RunningServer, running_server, write_repository
from perf.sse_client import burst
from tritone.bundled_model import BUNDLED_NAME
from tritone.served_model import ServedModel


class DirectSide:
    """The ensemble by `generate_stream`. Its processes are there for both sides, so none is named."""

    name = "direct"

    def __init__(self, server: RunningServer) -> None:
        self.processes: Mapping[str, psutil.Process] = {}
        self._url = f"http://{server.http}/v2/models/{BUNDLED_NAME}/generate_stream"

    def burst(self, prompts: Prompts, tokens: int, sampler: CpuSampler) -> list[RequestRecord]:
        """See Side."""
        common = {"max_tokens": tokens, "ignore_eos": True, "temperature": 0.0, "stream": True}
        bodies = [{"input_ids": list(prompt), **common} for prompt in prompts]
        with sampler.watching("client", os.getpid()):
            return burst(self._url, bodies, lambda event: int(event["num_output_tokens"]))


class OpenAISide:
    """A server with OpenAI's API, by `/v1/completions`; `processes` are those that are there for this side alone."""

    def __init__(self, name: str, url: str, processes: Mapping[str, psutil.Process]) -> None:
        self.name = name
        self.processes = processes
        self._url = f"{url}/v1/completions"

    def burst(self, prompts: Prompts, tokens: int, sampler: CpuSampler) -> list[RequestRecord]:
        """See Side."""
        common: dict[str, Any] = {
            "model": BUNDLED_NAME,
            "max_tokens": tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        bodies = [{"prompt": list(prompt), **common} for prompt in prompts]
        with sampler.watching("client", os.getpid()):
            return burst(self._url, bodies, lambda event: int(event["usage"]["completion_tokens"]))


@contextmanager
def both_ways(model: ServedModel, max_num_seqs: int) -> Iterator[list[Side]]:
    """Both sides of one server."""
    with server_and_gateway(model, max_num_seqs) as (server, gateway):
        yield [
            DirectSide(server),
            OpenAISide("gateway", gateway.url, {"gateway": psutil.Process(gateway.pid)}),
        ]


@contextmanager
def server_and_gateway(model: ServedModel, max_num_seqs: int) -> Iterator[tuple[RunningServer, RunningGateway]]:
    """A Triton with the ensemble, and a gateway in front of it."""
    with running_server(partial(write_repository, model)) as server, running_gateway(server, max_num_seqs) as gateway:
        yield server, gateway

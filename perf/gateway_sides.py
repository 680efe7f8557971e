"""The two ways to one ensemble that the gateway benchmark compares. Run on the load host, with the same client."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import psutil

from perf.cpu_sampler import CpuSampler
from perf.gateway_process import RunningGateway, running_gateway
from perf.load.burst import burst
from perf.load.fronts import Target
from perf.overhead_sides import Prompts, Side
from perf.records import RequestRecord
from perf.server import RunningServer, running_server, write_repository
from tritone.bundled_model import BUNDLED_NAME
from tritone.served_model import ServedModel


class DirectSide:
    """The ensemble by `generate_stream`. Its processes are there for both sides, so none is named."""

    name = "direct"

    def __init__(self, server: RunningServer) -> None:
        self.processes: Mapping[str, psutil.Process] = {}
        self._target = Target(f"http://{server.http}", BUNDLED_NAME)

    def burst(self, prompts: Prompts, tokens: int, sampler: CpuSampler) -> list[RequestRecord]:
        """See Side."""
        with sampler.watching("client", os.getpid()):
            return burst("generate_stream", self._target, prompts, tokens)


class OpenAISide:
    """A server with OpenAI's API, by `/v1/completions`; `processes` are those that are there for this side alone."""

    def __init__(self, name: str, url: str, processes: Mapping[str, psutil.Process], model: str = BUNDLED_NAME) -> None:
        self.name = name
        self.processes = processes
        self._target = Target(url, model, wants_counts=False)  # as most users ask

    def burst(self, prompts: Prompts, tokens: int, sampler: CpuSampler) -> list[RequestRecord]:
        """See Side."""
        with sampler.watching("client", os.getpid()):
            return burst("completions", self._target, prompts, tokens)


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

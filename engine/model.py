"""Triton's calls into the engine stage, and this stage's calls into Triton. Nothing else lives here."""

from __future__ import annotations

import locale

locale.setlocale(locale.LC_ALL, "C.UTF-8")  # the embedded interpreter has none, and open() would decode as ASCII

import json
import logging
import os
import threading
from array import array
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from .adapter import EngineDiedError, EngineRequest, RefusedError
from .adapters import make_adapter
from .capabilities import check_supported
from .log_prob_arrays import as_int32, log_prob_arrays
from .process_check import is_alive
from .pump import Pump
from .request_tensors import Reader, engine_request
from .settings import parse_settings
from .stream import Chunk
from .stream_table import EngineTable, TableFullError, table_path

logger = logging.getLogger(__name__)
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
LAST_WORDS_S = 0.5


class DrainingError(Exception):
    """No more requests are taken."""


class TritonPythonModel:
    """One engine, its stream table and its pump."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the engine; an exception here is the reason Triton gives for the model not being ready."""
        logging.basicConfig(level=logging.INFO, format="%(levelname).1s engine: %(message)s")
        settings = parse_settings(json.loads(args["model_config"])["parameters"])
        self._engine = settings.engine
        self._adapter = make_adapter(settings.engine, settings.adapter)
        self._adapter.start()
        path = table_path(settings.run_dir, os.getppid(), args["model_name"])
        self._table = EngineTable(path, settings.max_streams)
        self._draining = Path(settings.run_dir) / "draining"  # the launcher makes it when no more requests may start
        self._pump = Pump(
            self._adapter,
            self._table,
            ack_timeout_s=settings.ack_timeout_s,
            heartbeat_s=settings.heartbeat_s,
            on_death=end_process,
            is_alive=is_alive,
            streaming_cores=self._adapter.streaming_cores,
        )
        self._pump.start()

    def execute(self, requests: list[Any]) -> None:
        """Start a stream for each request; its chunks go out from the pump."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                self._accept(request, sender)
            except RefusedError as error:
                send_error(sender, str(error), pb_utils.TritonError.INVALID_ARG)
            except (TableFullError, EngineDiedError, DrainingError) as error:
                send_error(sender, str(error), pb_utils.TritonError.UNAVAILABLE)
            except Exception:
                logger.exception("a request could not be started")
                send_error(sender, "internal error in the engine stage", pb_utils.TritonError.INTERNAL)

    def finalize(self) -> None:
        """End the engine and every thread and process it has."""
        self._pump.stop()
        self._adapter.stop()
        self._table.path.unlink(missing_ok=True)

    def _accept(self, request: Any, sender: Any) -> None:
        read = partial(read_tensor, request)
        stop = read("stop")
        if stop is not None and stop.ravel()[0]:
            self._stop_others(request.request_id(), sender)
            return
        if self._draining.exists():
            raise DrainingError("the server is shutting down")
        context = read("stream_context")
        text = "" if context is None else context.ravel()[0].decode("utf-8")
        self._pump.admit(request.request_id(), text, Responder(sender), partial(self._request, read=read))

    def _request(self, key: int, read: Reader) -> EngineRequest:
        request = engine_request(key, read)
        check_supported(self._engine, request)
        return request

    def _stop_others(self, request_id: str, sender: Any) -> None:
        if not request_id:
            raise RefusedError("stop: the request to stop is named by its id, and this one has none")
        self._pump.cancel(request_id)
        sender.send(flags=FINAL)


class Responder:
    """The way back to one Triton request."""

    def __init__(self, sender: Any) -> None:
        self._sender = sender

    def send(self, chunk: Chunk, is_last: bool) -> None:
        """Send a chunk as tensors, each with the batch dimension [1, ...]. A tensor costs, so empty ones stay out."""
        tensors = [
            pb_utils.Tensor("output_ids", np.frombuffer(int32_words(chunk.ids), np.int32).reshape(1, -1)),
            pb_utils.Tensor("stream_key", np.array([[*chunk.key, chunk.number]], np.uint64)),
        ]
        if chunk.context:
            tensors.append(pb_utils.Tensor("stream_context", np.array([[chunk.context]], np.object_)))
        if chunk.finish_reason:
            tensors.append(pb_utils.Tensor("finish_reason", np.array([[chunk.finish_reason]], np.object_)))
        if chunk.logprobs:
            tensors += [pb_utils.Tensor(name, array) for name, array in log_prob_arrays(chunk.logprobs).items()]
        self._sender.send(pb_utils.InferenceResponse(tensors), flags=FINAL if is_last else 0)

    def fail(self, message: str, is_refusal: bool = False) -> None:
        """End the request with an error; a refusal is its own fault."""
        code = pb_utils.TritonError.INVALID_ARG if is_refusal else pb_utils.TritonError.INTERNAL
        send_error(self._sender, message, code)


def int32_words(ids: list[int]) -> array[int]:
    """The ids as INT32; on the way of every chunk, so a loop over them is only for the engine that went astray."""
    try:
        return array("i", ids)
    except OverflowError:
        return array("i", map(as_int32, ids))


def read_tensor(request: Any, name: str) -> Any:
    """An input as numpy array [1, ...], or None when it is absent."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy()


def send_error(sender: Any, message: str, code: Any) -> None:
    """End a request with an error."""
    sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code)), flags=FINAL)


def end_process(reason: str) -> None:
    """A dead engine makes the model not ready: the stage's process ends, after its last words have gone out."""
    logger.error("the stage ends: %s", reason)
    threading.Timer(LAST_WORDS_S, os._exit, [1]).start()

"""The load generator's way over HTTP for locust's users, each a greenlet.

Runs in locust's process, on the load host.
"""

from __future__ import annotations

import json
from http.client import HTTPException
from urllib.parse import urlsplit

import gevent
from geventhttpclient import HTTPClient
from geventhttpclient.response import HTTPSocketResponse

from perf.load.events import CountTokens
from perf.load.fronts import HTTP_FRONTS, Target
from perf.load.notes import Notes, read_events
from perf.load.record import LoadRecord
from perf.load.request import LoadRequest

BLOCK_BYTES = 1 << 16
CONNECT_TIMEOUT_S = 10.0


class GeventHttp:
    """A user's connection to a front of HTTP_FRONTS, kept for the next request."""

    def __init__(self, front: str, target: Target, count_tokens: CountTokens | None) -> None:
        self._front = HTTP_FRONTS[front]
        self._target = target
        self._count_tokens = count_tokens
        url = target.url.rstrip("/")
        self._path = urlsplit(url).path + self._front.path.format(model=target.model)
        self._client = HTTPClient.from_url(
            url,
            concurrency=1,
            block_size=BLOCK_BYTES,
            connection_timeout=CONNECT_TIMEOUT_S,
            network_timeout=target.timeout_s,
        )

    def send(self, request: LoadRequest) -> LoadRecord:
        """Ask, read the answer to its end, and tell what happened; what goes wrong is in the record."""
        body = json.dumps(self._front.body(self._target, request)).encode()
        headers = {"Content-Type": "application/json", **self._target.headers}
        notes = Notes(None)
        try:
            with gevent.Timeout(self._target.timeout_s, TimeoutError):
                response = self._client.post(self._path, body, headers)
                if response.get_code() != 200:
                    text = bytes(response.read()).decode(errors="replace")[:300]
                    return notes.failed("refused", f"HTTP {response.get_code()}: {text}")
                self._read(response, notes)
        except TimeoutError:
            return self._failed(notes, "timeout", f"no end within {self._target.timeout_s:g} s")
        except (OSError, HTTPException) as error:
            return self._failed(notes, "broken off", f"{type(error).__name__}: {error}")
        return notes.record(read_events(self._front, notes.data), self._count_tokens)

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def _read(self, response: HTTPSocketResponse, notes: Notes) -> None:
        while line := response.readline(b"\n"):
            if line.startswith(b"data:"):
                notes.add([bytes(line[5:]).strip()])

    def _failed(self, notes: Notes, error: str, detail: str) -> LoadRecord:
        self._client.close()  # the rest of this answer is not the next one's
        return notes.failed(error, detail, read_events(self._front, notes.data))

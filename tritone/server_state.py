"""Asks a starting Triton over HTTP how far it is. Runs in the launcher's process."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass

_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class ServerAddress:
    """Where the server answers over HTTP."""

    host: str
    http_port: int
    metrics_port: int

    def is_ready(self) -> bool | None:
        """Whether every model is ready; None while nothing answers, which is the case until all have been loaded."""
        health = self._call(self.http_port, "GET", "/v2/health/ready")
        metrics = self._call(self.metrics_port, "HEAD", "/metrics")  # this port is the last to be opened
        return None if health is None or metrics is None else health[0] == 200

    def failures(self) -> dict[str, str]:
        """The models that are not ready, each with the reason in one line, "" where Triton gives none."""
        answer = self._call(self.http_port, "POST", "/v2/repository/index")
        models = json.loads(answer[1]) if answer else []
        return {
            model["name"]: short_reason(model.get("reason", "")) for model in models if model.get("state") != "READY"
        }

    def _call(self, port: int, method: str, path: str) -> tuple[int, bytes] | None:
        connection = http.client.HTTPConnection(self.host, port, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()


def short_reason(reason: str) -> str:
    """Triton's reason without the places in the code: the error of a traceback, in one line."""
    text = reason.partition("\n\nAt:\n")[0].strip().removeprefix("Internal: ")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        lines = lines[-1:]
    return " ".join(lines)

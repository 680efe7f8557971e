"""What the gateway can be told, each default in one place. Read once, at start, in the process that starts the gateway.

Where the values come from, and which source wins, is in tritone/config_sources.py.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tritone.config import Count, LogFormat, LogLevel, Port, Seconds

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
_ORIGIN = re.compile(r"\*|https?://[^\s/]+")
_TRITON_METRICS_PORT = 8002


def _checked_address(address: str) -> str:
    match = _ADDRESS.fullmatch(address)
    if not match or not 1 <= int(match[2]) <= 65535:
        raise ValueError("must be HOST:PORT")
    return address


def _split(value: Any) -> Any:
    """A list as text has commas, a list of a file is one."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list) else value


def _checked_origins(origins: tuple[str, ...]) -> tuple[str, ...]:
    if not all(_ORIGIN.fullmatch(origin) for origin in origins):
        raise ValueError("must be * or origins such as https://example.org, with commas between them")
    return origins


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


Address = Annotated[str, AfterValidator(_checked_address)]
Origins = Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_checked_origins)]
OverloadStatus = Annotated[Literal[429, 503], BeforeValidator(_number)]
Path = Annotated[str, Field(min_length=1)]


class GatewayConfig(BaseModel):
    """Everything that can be chosen. A field is also an option (--max-choices), a variable
    (TRITONE_GATEWAY_MAX_CHOICES) and a key of the TOML file (max_choices); API keys come by file or TRITONE_API_KEYS.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    triton: Address = Field("127.0.0.1:8000", description="HOST:PORT of Triton's HTTP")
    triton_metrics: Address | None = Field(
        None, description="HOST:PORT of Triton's metrics, to be merged into /metrics; port 8002 there if not given"
    )
    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on; 0.0.0.0 is every IPv4 address")
    port: Port = Field(9000, description="Port to listen on")
    workers: int = Field(1, ge=1, le=256, description="How many processes answer")
    api_key_file: Path | None = Field(
        None, description="File with the API keys, one a line; TRITONE_API_KEYS can hold some too, with commas between"
    )
    cors_origins: Origins = Field((), description="Origins whose pages may call, with commas between; * is any")
    tls_cert: Path | None = Field(None, description="Certificate chain (PEM) to serve HTTPS with")
    tls_key: Path | None = Field(None, description="Private key (PEM) of the certificate")
    max_body_bytes: Count = Field(16 << 20, description="Longest request body, in bytes")
    max_header_bytes: int = Field(64 << 10, ge=1024, le=1 << 20, description="Longest request head, in bytes")
    max_concurrent_requests: Count = Field(
        1024, description="Most requests answered at once, all workers together; others are refused"
    )
    overload_status: OverloadStatus = Field(429, description="Status of a request refused because there are too many")
    max_choices: int = Field(16, ge=1, le=1024, description="Largest n of a request")
    max_prompts: int = Field(64, ge=1, le=4096, description="Most prompts of a request")
    request_timeout_s: Seconds = Field(3600, description="Longest time for an answer, in seconds")
    keep_alive_s: Seconds = Field(15, description="A stream that says nothing for so long gets a comment, in seconds")
    header_timeout_s: Seconds = Field(10, description="Longest time for a request's head, in seconds")
    body_timeout_s: Seconds = Field(30, description="Longest pause within a request's body, in seconds")
    idle_timeout_s: Seconds = Field(75, description="How long an idle connection is kept, in seconds")
    drain_timeout_s: Seconds = Field(30, description="How long open streams may go on when told to stop, in seconds")
    log_file: Path | None = Field(None, description="Where requests are logged, a line of JSON for each; stderr if not")
    log_max_bytes: int = Field(100 << 20, ge=4096, description="Size at which the log file is put aside, in bytes")
    log_max_files: int = Field(10, ge=1, le=1000, description="How many log files are kept, the current one included")
    log_max_days: int = Field(30, ge=1, le=3650, description="How long a log file that was put aside is kept")
    log_content: bool = Field(False, description="Log prompts and answers too")
    metrics: bool = Field(True, description="Serve /metrics")
    log_format: LogFormat = Field("text", description="How other records are written to stderr, a line for each")
    log_level: LogLevel = Field("info", description="Least severe records that are written")

    @property
    def triton_url(self) -> str:
        """Where Triton's HTTP is."""
        return f"http://{self.triton}"

    @property
    def triton_metrics_url(self) -> str:
        """Where Triton's own metrics are."""
        host = self.triton.rpartition(":")[0]
        return f"http://{self.triton_metrics or f'{host}:{_TRITON_METRICS_PORT}'}/metrics"

    @property
    def concurrency_per_worker(self) -> int:
        """The share of one worker in `max_concurrent_requests`."""
        return -(-self.max_concurrent_requests // self.workers)

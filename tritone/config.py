"""What `tritone serve` and `tritone assemble` can be told, each default in one place. Runs in our process.

Where the values come from, and which source wins, is in config_sources.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ensemble_repo.settings import ADAPTERS
from tritone.errors import TritoneError
from tritone.model_name import LONGEST_NAME

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]


class ConfigError(TritoneError):
    """An option, environment variable or file says something that is not allowed. The message names it."""


def _known_engine(name: str) -> str:
    if name not in ADAPTERS:
        raise ValueError(f"must be one of {', '.join(ADAPTERS)}")
    return name


Engine = Annotated[str, AfterValidator(_known_engine)]
Port = Annotated[int, Field(ge=1, le=65535)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Seconds = Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)]


class Config(BaseModel):
    """Everything that can be chosen. A field is also an option (--http-port), a variable (TRITONE_HTTP_PORT) and a
    key of the TOML file (http_port); `None` means that the model or the engine decides."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    model: str | None = Field(
        None, min_length=1, description="A Hugging Face folder, a GGUF file or an OpenVINO folder"
    )
    engine: Engine = Field("openvino", description=f"What runs the model: {', '.join(ADAPTERS)}")
    engine_env: str | None = Field(
        None, min_length=1, description="Virtual environment with the engine's libraries, if not the one of Tritone"
    )
    name: str | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_NAME,
        description="Name to serve the model under; made from MODEL if not given",
    )
    max_model_len: Count | None = Field(
        None, description="Longest prompt and answer together, in tokens; the model's own limit if not given"
    )
    max_num_seqs: Count | None = Field(None, description="Most requests running at once; the rest wait")
    kv_cache_gib: Count | None = Field(None, description="Size of the KV cache in GiB")
    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on; 0.0.0.0 is every IPv4 address")
    http_port: Port = Field(8000, description="Port of HTTP/REST")
    grpc_port: Port = Field(8001, description="Port of gRPC")
    metrics_port: Port = Field(8002, description="Port of the Prometheus metrics")
    gateway_host: str | None = Field(
        None, min_length=1, description="Address of the OpenAI gateway; that of --host if not given"
    )
    gateway_port: Port = Field(9000, description="Port of the OpenAI gateway")
    no_gateway: bool = Field(False, description="Serve without the OpenAI gateway")
    log_format: LogFormat = Field("text", description="How the log is written to stderr, a line for each record")
    log_level: LogLevel = Field("info", description="Least severe records that are written")
    ready_timeout: Seconds = Field(600, description="Give up when the models take longer than this to load, in seconds")
    drain_timeout: Seconds = Field(30, description="How long open streams may go on when told to stop, in seconds")
    settings: dict[str, Any] = Field(default_factory=dict, description="Any other setting of the model repository")
    gateway: dict[str, Any] = Field(
        default_factory=dict, description="Any other setting of the gateway: see `tritone gateway --help`"
    )

    @property
    def ports(self) -> dict[str, int]:
        """Triton's ports, by field."""
        return {"http_port": self.http_port, "grpc_port": self.grpc_port, "metrics_port": self.metrics_port}

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Every host and port to listen on, by option."""
        addresses = {f"--{name.replace('_', '-')}": (self.host, port) for name, port in self.ports.items()}
        gateway = {} if self.no_gateway else {"--gateway-port": (self.gateway_host or self.host, self.gateway_port)}
        return addresses | gateway


REPOSITORY_FIELDS = ("engine", "engine_env", "name", "max_model_len", "max_num_seqs", "kv_cache_gib")
"""The fields that say what is in the model repository; the others say how it is served."""

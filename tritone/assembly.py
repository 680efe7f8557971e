"""`tritone assemble`: writes a model repository and says how it is served in a container. Runs in our process."""

from __future__ import annotations

import shlex
from importlib import metadata
from pathlib import Path

from ensemble_repo.assemble import assemble
from tritone.config import Config, ConfigError
from tritone.served_model import check_settings, find_model

# what the stages import; numpy is the container's own
_LIBRARIES = ("transformers", "tokenizers", "jinja2")
_ENGINE_LIBRARIES = {"openvino": ("openvino-genai",), "transformers": ("torch",), "vllm": ("vllm",)}


def assemble_for_container(config: Config, out: Path) -> str:
    """Write the repository to the new folder `out` and return what to run. Raises TritoneError or SettingError."""
    check_settings(config)
    model = find_model(config)
    try:
        assemble(out, model.name, model.tokenizer_dir, model.settings)
    except OSError as error:
        raise ConfigError(f"OUT: the repository cannot be written: {error}") from error
    return _advice(config, model.name, out.absolute(), model.settings.get("model_path"))


def _advice(config: Config, model: str, out: Path, weights: str | None) -> str:
    mounts = [str(out), *([weights] if weights else [])]
    volumes = " ".join(f"-v {shlex.quote(f'{path}:{path}:ro')}" for path in mounts)
    libraries = " ".join(_pinned(name) for name in (*_LIBRARIES, *_ENGINE_LIBRARIES.get(config.engine, ())))
    serve = f"pip install {libraries} && exec tritonserver --model-repository={shlex.quote(str(out))}"
    return (
        f"{model} is in {out}. To serve it, with TRITON_IMAGE the name of an NGC Triton image (24.10 or newer):\n\n"
        f"docker run --rm --network host --shm-size 1g {volumes} $TRITON_IMAGE \\\n  sh -c {shlex.quote(serve)}"
    )


def _pinned(name: str) -> str:
    try:
        return f"{name}=={metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return name

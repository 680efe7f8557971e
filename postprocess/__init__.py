"""The far end of the ensemble: token ids become text deltas. Runs in Triton's Python backend, beside its `model.py`."""

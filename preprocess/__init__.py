"""The preprocess stage: checks a request, tokenizes its prompt and resolves every setting for the engine.

Runs inside Triton's Python backend, copied into `<model>_preprocess/1/`. `model.py` holds the Triton calls,
`pipeline.py` is the table of contents of everything else.
"""

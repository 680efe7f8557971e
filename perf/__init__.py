"""Benchmarks of a running Triton. They run on the load host, each figure a ratio of two sides of one run."""

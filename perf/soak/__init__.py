"""`python -m perf soak`: hours of mixed load, and whether anything of the server grows."""

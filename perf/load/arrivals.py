"""When an open loop sends its requests. Runs on the load host."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

ARRIVALS = ("constant", "poisson", "gamma")


def arrival_times_s(kind: str, rate: float, burstiness: float, random_source: random.Random) -> Iterator[float]:
    """Times from the start, without an end, at `rate` requests/s on average.

    constant: k/rate. poisson: gaps are exponential of mean 1/rate. gamma: gaps are of a gamma distribution of shape
    `burstiness` and the same mean (as in `vllm bench serve`): 1 is poisson, less comes in bursts, more is more even.
    """
    if kind == "constant":
        yield from (number / rate for number in count())
        return
    shape = burstiness if kind == "gamma" else 1.0
    time_s = 0.0
    while True:
        time_s += random_source.gammavariate(shape, 1 / (rate * shape))
        yield time_s

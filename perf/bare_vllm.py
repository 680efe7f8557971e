"""vLLM's own loop: an AsyncLLM with a task for each request, no text and no statistics made.

Runs in the process of the bare engine, on the Python of vLLM's environment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from engine.vllm_adapter import make_engine, make_engine_args  # first: it sets what vLLM reads when imported

# isort: split
from vllm.sampling_params import RequestOutputKind, SamplingParams

from perf.records import RequestRecord


class VllmLoop:
    """An AsyncLLM with the adapter's engine arguments. Between bursts nothing runs in this process."""

    def __init__(self, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._engine = self._loop.run_until_complete(_start(make_engine_args(**settings)))
        self._requests = 0

    def burst(self, prompts: Sequence[Sequence[int]], tokens: int) -> list[RequestRecord]:
        """See BareLoop."""
        return self._loop.run_until_complete(self._burst(prompts, tokens))

    def close(self) -> None:
        """See BareLoop."""
        self._engine.shutdown()

    async def _burst(self, prompts: Sequence[Sequence[int]], tokens: int) -> list[RequestRecord]:
        return await asyncio.gather(*(self._answer(prompt, tokens) for prompt in prompts))

    async def _answer(self, prompt: Sequence[int], tokens: int) -> RequestRecord:
        self._requests += 1
        params = SamplingParams(
            max_tokens=tokens,
            ignore_eos=True,
            temperature=0,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        started_ns = time.time_ns()
        chunks = [
            (time.time_ns(), len(output.outputs[0].token_ids))
            async for output in self._engine.generate(
                {"type": "token", "prompt_token_ids": list(prompt)}, params, str(self._requests)
            )
        ]
        received_ns, counts = zip(*chunks, strict=True)
        return RequestRecord(started_ns, received_ns, counts)


async def _start(engine_args: Any) -> Any:
    """It must be made where an event loop runs."""
    return make_engine(engine_args)

"""The libraries that people call models with, against the gateway and the bundled model on OpenVINO."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from .gateway import Gateway, beside
from .serving import Server, serve, wait_until

pytestmark = [
    pytest.mark.service,
    pytest.mark.filterwarnings("ignore"),  # theirs are not ours to mend
]

MODEL = "smollm2"
QUESTION: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."
USAGE = {"prompt_tokens": 37, "completion_tokens": 8, "total_tokens": 45}
WITH_USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("clients"), None, "--max-num-seqs", "4", engine="openvino") as running:
        yield running


@pytest.fixture(scope="module")
def front(server: Server) -> Gateway:
    return beside(server)


@pytest.fixture(scope="module")
def base_url(front: Gateway) -> str:
    return f"{front.url}/v1"


def text_and_usage(chunks: list[Any]) -> tuple[str, Any]:
    """Of a chat stream whose last chunk has the usage."""
    *deltas, last = chunks
    assert last.choices == []
    assert [chunk.choices[0].finish_reason for chunk in deltas if chunk.choices[0].finish_reason] == ["stop"]
    return "".join(chunk.choices[0].delta.content or "" for chunk in deltas), last.usage.to_dict()


def test_a_seed_repeats_its_answer_and_n_answers_differ(base_url: str) -> None:
    openai = pytest.importorskip("openai")

    def texts(seed: int, n: int = 1) -> list[str]:
        with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
            sampled = {"temperature": 1.0, "max_tokens": 12, "n": n}
            answer = client.chat.completions.create(model=MODEL, messages=QUESTION, seed=seed, **sampled)
            return [choice.message.content for choice in answer.choices]

    assert texts(7) == texts(7)
    assert texts(7) != texts(1000)
    assert len(set(texts(7, n=3))) == 3


def test_openai(base_url: str) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == [MODEL]
        assert client.models.retrieve(MODEL).id == MODEL
        answer = client.chat.completions.create(model=MODEL, messages=QUESTION)
        assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (ANSWER, "stop")
        assert answer.usage.to_dict() == USAGE
        stream = client.chat.completions.create(model=MODEL, messages=QUESTION, **WITH_USAGE)
        assert text_and_usage(list(stream)) == (ANSWER, USAGE)
        text = client.completions.create(model=MODEL, prompt="The capital of France is", max_tokens=4)
        chunks = client.completions.create(model=MODEL, prompt="The capital of France is", max_tokens=4, stream=True)
        assert "".join(chunk.choices[0].text for chunk in chunks) == text.choices[0].text


def test_openai_errors(base_url: str) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError) as bad:
                client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=0, stream=stream)
            assert (bad.value.param, bad.value.code) == ("max_tokens", "invalid_value")
            with pytest.raises(openai.NotFoundError) as unknown:
                client.chat.completions.create(model="nope", messages=QUESTION, stream=stream)
            assert unknown.value.code == "model_not_found"


def test_openai_async(server: Server, base_url: str) -> None:
    openai = pytest.importorskip("openai")

    async def ask() -> None:
        async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
            whole = client.chat.completions.create(model=MODEL, messages=QUESTION)
            answers = await asyncio.gather(*[whole, *(stream_of(client) for _ in range(3))])
            assert [answers[0].choices[0].message.content, *answers[1:]] == [ANSWER] * 4
            long = await client.completions.create(
                model=MODEL, prompt="1, 2,", extra_body={"ignore_eos": True}, stream=True
            )
            async for _ in long:
                break
            await long.close()

    asyncio.run(ask())
    wait_until(lambda: server.run.live_streams() == 0, 2)


async def stream_of(client: Any) -> str:
    stream = await client.chat.completions.create(model=MODEL, messages=QUESTION, **WITH_USAGE)
    return text_and_usage([chunk async for chunk in stream])[0]


def test_openai_extra_fields_of_vllm_users(base_url: str) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        extra = {"top_k": 1, "min_tokens": 20, "repetition_penalty": 1.1, "skip_special_tokens": True}
        answer = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=30, extra_body=extra)
        assert answer.usage.completion_tokens >= 20


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # its prices would be looked up in the network
    return pytest.importorskip("litellm")


def test_litellm_against_the_gateway(litellm: Any, base_url: str) -> None:
    common = {"model": f"openai/{MODEL}", "messages": QUESTION, "api_base": base_url, "api_key": "none"}
    whole = litellm.completion(**common)
    assert (whole.choices[0].message.content, whole.usage.prompt_tokens, whole.usage.completion_tokens) == (
        ANSWER,
        37,
        8,
    )
    chunks = list(litellm.completion(**common, **WITH_USAGE))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == ANSWER
    with pytest.raises(litellm.BadRequestError, match="temperature"):
        litellm.completion(**common, temperature=-1)
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(**{**common, "messages": [{"role": "user", "content": "word " * 9000}]})


def test_litellm_against_the_ensemble(litellm: Any, server: Server) -> None:
    """Its `triton/` provider asks `generate` as NVIDIA's tutorials do, and `generate_stream` for a stream."""
    common = {
        "model": f"triton/{MODEL}",
        "messages": [{"role": "user", "content": "The capital of France is"}],
        "api_base": f"http://{server.http}/v2/models/{MODEL}/generate",
        "max_tokens": 4,
    }
    whole = litellm.completion(**common).choices[0].message.content
    assert whole.strip().startswith("Paris")
    chunks = litellm.completion(**common, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == whole


def test_langchain(base_url: str) -> None:
    langchain = pytest.importorskip("langchain_openai")
    model = langchain.ChatOpenAI(model=MODEL, base_url=base_url, api_key="none", max_retries=0, stream_usage=True)
    question = QUESTION[0]["content"]
    answer = model.invoke(question)
    assert (answer.content, answer.usage_metadata["output_tokens"]) == (ANSWER, 8)
    chunks = list(model.stream(question))
    assert "".join(chunk.content for chunk in chunks) == ANSWER
    assert sum((chunk.usage_metadata or {}).get("output_tokens", 0) for chunk in chunks) == 8
    assert [reply.content for reply in model.batch([question] * 3)] == [ANSWER] * 3
    assert asyncio.run(ask_langchain(model, question)) == ANSWER


async def ask_langchain(model: Any, question: str) -> str:
    """Its answer; its connections are closed while their loop still runs, which it leaves to its user."""
    async with model.root_async_client:
        return str((await model.ainvoke(question)).content)

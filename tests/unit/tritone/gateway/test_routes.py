"""The OpenAI routes: what they hand on, whom they know, and what the OpenAPI document says of them."""

from __future__ import annotations

import json

import pytest

from tritone.gateway import routes
from tritone.gateway.ensemble_client import EnsembleError, ModelInfo
from tritone.gateway.request_fields import BOTH, Route, fields_of

from .fake_ensemble import FakeEnsemble, Step
from .sample_requests import body, event
from .test_app import Served

HELLO: list[Step] = [[event("hello", 1, "stop", 2)]]
PATHS: dict[Route, str] = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


@pytest.fixture
def ensemble() -> FakeEnsemble:
    return FakeEnsemble(*[HELLO] * 8, models=(ModelInfo("m", 64, "m"), ModelInfo("org/other", 128, "org-other-1f")))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, ensemble: FakeEnsemble) -> Served:
    return Served(monkeypatch, ensemble, max_choices=2, max_prompts=2)


def test_models(served: Served) -> None:
    listed = json.loads(served.get("/v1/models").body)
    assert listed["object"] == "list"
    assert [(model["id"], model["object"], model["max_model_len"]) for model in listed["data"]] == [
        ("m", "model", 64),
        ("org/other", "model", 128),
    ]
    assert [json.loads(served.get(f"/v1/models/{model['id']}").body) for model in listed["data"]] == listed["data"]


@pytest.mark.parametrize("route", BOTH)
def test_b64_clients_know_the_served_name_and_triton_its_own(
    served: Served, ensemble: FakeEnsemble, route: Route
) -> None:
    reply = served.post(PATHS[route], body(route, model="org/other"))
    assert json.loads(reply.body)["model"] == served.lines[-1]["model"] == "org/other"
    assert ensemble.asked[0][0] == "org-other-1f"
    assert 'model_name="org/other"' in served.get("/metrics").body.decode()


@pytest.mark.parametrize("route", BOTH)
def test_a_lora_adapter_is_a_model_that_its_parent_answers_for(monkeypatch: pytest.MonkeyPatch, route: Route) -> None:
    models = (
        ModelInfo("m", 64, "m-1f"),
        ModelInfo("tuned", 64, "m-1f", parent="m"),
        ModelInfo("m", 8, "x", parent="y"),
    )
    ensemble = FakeEnsemble(HELLO, HELLO, [EnsembleError(400, "lora_name: got 'tuned', known are none")], models=models)
    served = Served(monkeypatch, ensemble)
    listed = json.loads(served.get("/v1/models").body)["data"]
    assert [(model["id"], model["root"], model["parent"]) for model in listed] == [
        ("m", "m", None),
        ("tuned", "m", "m"),
    ]
    assert json.loads(served.get("/v1/models/tuned").body)["parent"] == "m"
    for name in ("tuned", "m"):
        assert json.loads(served.post(PATHS[route], body(route, model=name)).body)["model"] == name
    assert [(asked[0], asked[1].get("lora_name")) for asked in ensemble.asked] == [("m-1f", "tuned"), ("m-1f", None)]
    assert 'model_name="tuned"' in served.get("/metrics").body.decode()
    refused = served.post(PATHS[route], body(route, model="tuned"))
    assert (refused.status, refused.error["param"]) == (400, "model")
    assert refused.error["message"] == "model: got 'tuned', known are none"


@pytest.mark.parametrize("name", ["nope", "..", "a/../m", "x" * 300, "模型"])
def test_b64_unknown_model(served: Served, name: str) -> None:
    replies = [served.get(f"/v1/models/{name}")]
    for route in BOTH:
        replies += [served.post(PATHS[route], body(route, model=name, stream=stream)) for stream in (False, True)]
    for reply in replies:
        assert (reply.status, reply.error["code"], reply.error["param"]) == (404, "model_not_found", "model")


def test_known_models_are_not_asked_for_again_and_again(served: Served, ensemble: FakeEnsemble) -> None:
    for _ in range(3):
        assert served.post("/v1/chat/completions", body("chat")).status == 200
    assert ensemble.num_model_calls == 1
    assert served.post("/v1/chat/completions", body("chat", model="new")).status == 404
    assert ensemble.num_model_calls == 2


def test_a_model_that_went_is_forgotten(
    served: Served, ensemble: FakeEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "MODELS_FOR_S", 0.0)
    assert served.post("/v1/chat/completions", body("chat")).status == 200
    ensemble._models.clear()
    assert served.post("/v1/chat/completions", body("chat")).status == 404


def test_prompts_and_n_become_requests_of_their_own(served: Served, ensemble: FakeEnsemble) -> None:
    reply = served.post("/v1/completions", body("completions", prompt=["a", "b"], n=2, seed=7))
    assert [choice["index"] for choice in json.loads(reply.body)["choices"]] == [0, 1, 2, 3]
    sent = [(asked[1]["text_input"], asked[1]["seed"]) for asked in ensemble.asked]
    assert sent == [("a", 7), ("a", 8), ("b", 7), ("b", 8)]
    assert json.loads(reply.body)["usage"] == {"prompt_tokens": 4, "completion_tokens": 4, "total_tokens": 8}


def test_limits_are_those_of_the_settings(served: Served) -> None:
    assert served.post("/v1/chat/completions", body("chat", n=3)).error["message"] == "n: got 3, allowed: 1 to 2"
    reply = served.post("/v1/completions", body("completions", prompt=["a"] * 3))
    assert reply.error["message"] == "prompt: has 3 prompts, allowed: 2"


@pytest.mark.parametrize("route", BOTH)
def test_bad_requests_reach_no_engine(served: Served, ensemble: FakeEnsemble, route: Route) -> None:
    whole, stream = (served.post(PATHS[route], body(route, temperature=-1, stream=one)) for one in (False, True))
    assert (whole.status, whole.error["param"], whole.body) == (400, "temperature", stream.body)
    assert (ensemble.asked, ensemble.num_model_calls) == ([], 0)


def test_tokenize_and_detokenize(served: Served) -> None:
    reply = json.loads(served.post("/tokenize", b'{"model": "m", "prompt": "a"}').body)
    assert reply == {"count": 2, "max_model_len": 64, "tokens": [1, 2], "token_strs": None}
    assert json.loads(served.post("/detokenize", b'{"model": "m", "tokens": [1]}').body) == {"prompt": "text"}
    for path, content in (
        ("/tokenize", b'{"model": "x", "prompt": "a"}'),
        ("/detokenize", b'{"model": "x", "tokens": [1]}'),
    ):
        assert served.post(path, content).error["code"] == "model_not_found"


def test_openapi_document_has_every_field_that_is_used(served: Served) -> None:
    document = json.loads(served.get("/openapi.json").body)
    for route in BOTH:
        schema = document["paths"][PATHS[route]]["post"]["requestBody"]["content"]["application/json"]["schema"]
        used = {field.name for field in fields_of(route).values() if field.use != "refused"}
        assert set(schema["properties"]) == used
    assert {"/v1/models", "/v1/models/{model}", "/tokenize", "/detokenize", "/metrics", "/health/live"} <= set(
        document["paths"]
    )

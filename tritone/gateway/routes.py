"""The OpenAI routes: each reads a request, checks it, and hands it to what answers it. Runs in the gateway."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from tritone.gateway.answer_response import AnswerResponse
from tritone.gateway.body_schema import body_schema
from tritone.gateway.chat_request import ChatRequest
from tritone.gateway.choices import Choices
from tritone.gateway.completion_request import CompletionRequest
from tritone.gateway.ensemble_client import EnsembleClient, ModelInfo
from tritone.gateway.generation_request import RequestLimits
from tritone.gateway.metrics import GatewayMetrics
from tritone.gateway.openai_error import model_not_found
from tritone.gateway.request_record import record_of
from tritone.gateway.settings import GatewayConfig
from tritone.gateway.to_ensemble import ensemble_inputs
from tritone.gateway.tokenization import DetokenizeRequest, TokenizeRequest, detokenize, tokenize

MODELS_FOR_S = 5.0


class Routes:
    """What the routes share."""

    def __init__(self, client: EnsembleClient, metrics: GatewayMetrics, config: GatewayConfig) -> None:
        self._client = client
        self._metrics = metrics
        self._config = config
        self._limits = RequestLimits(config.max_choices, config.max_prompts)
        self._models: dict[str, ModelInfo] = {}
        self._models_until_s = 0.0
        self._started_s = int(time.time())

    def router(self) -> APIRouter:
        """All of them."""
        router = APIRouter(tags=["openai"])
        for path, request_type, endpoint in (
            ("/v1/chat/completions", ChatRequest, self.chat),
            ("/v1/completions", CompletionRequest, self.complete),
            ("/tokenize", TokenizeRequest, self.tokenize),
            ("/detokenize", DetokenizeRequest, self.detokenize),
        ):
            body = {"required": True, "content": {"application/json": {"schema": body_schema(request_type)}}}
            extra = {"requestBody": body}
            router.add_api_route(path, endpoint, methods=["POST"], response_model=None, openapi_extra=extra)
        router.add_api_route("/v1/models", self.models, response_model=None)
        router.add_api_route("/v1/models/{model:path}", self.model, response_model=None)
        return router

    async def chat(self, request: Request) -> Response:
        """An answer to messages."""
        return await self._answer(request, ChatRequest.parse(await request.body(), self._limits))

    async def complete(self, request: Request) -> Response:
        """The continuation of prompts."""
        return await self._answer(request, CompletionRequest.parse(await request.body(), self._limits))

    async def tokenize(self, request: Request) -> JSONResponse:
        """The token ids of a prompt or of messages."""
        parsed = TokenizeRequest.parse(await request.body())
        model = await self._served(request, parsed.model)
        return JSONResponse(await tokenize(self._client, model, parsed))

    async def detokenize(self, request: Request) -> JSONResponse:
        """The text of token ids."""
        parsed = DetokenizeRequest.parse(await request.body())
        model = await self._served(request, parsed.model)
        return JSONResponse(await detokenize(self._client, model, parsed))

    async def models(self) -> JSONResponse:
        """What is served."""
        await self._refresh()
        return JSONResponse({"object": "list", "data": [self._describe(model) for model in self._models.values()]})

    async def model(self, model: str) -> JSONResponse:
        """One of them."""
        await self._refresh()
        if model not in self._models:
            raise model_not_found(model)
        return JSONResponse(self._describe(self._models[model]))

    async def _answer(self, request: Request, parsed: ChatRequest | CompletionRequest) -> Response:
        record = record_of(request.scope)
        model = await self._served(request, parsed.model)
        record.is_stream = parsed.stream
        if self._config.log_content:
            record.log_prompt(parsed.messages if isinstance(parsed, ChatRequest) else parsed.prompt, parsed.num_choices)
        inputs = ensemble_inputs(parsed, lora_name=model.name if model.parent else None)
        choices = Choices(self._client, self._metrics, record, model.triton_name, inputs, parsed.n)
        return AnswerResponse(parsed, choices, record, self._config)

    async def _served(self, request: Request, name: str) -> ModelInfo:
        """The model called `name`. Raises OpenAIError (404)."""
        record_of(request.scope).model = name
        await self._refresh(must_have=name)
        if name not in self._models:
            raise model_not_found(name)
        return self._models[name]

    async def _refresh(self, must_have: str | None = None) -> None:
        now_s = time.monotonic()
        if now_s < self._models_until_s and (must_have is None or must_have in self._models):
            return
        models: dict[str, ModelInfo] = {}
        for model in await self._client.models():
            models.setdefault(model.name, model)
        self._models = models
        self._metrics.models = frozenset(self._models)
        self._models_until_s = now_s + MODELS_FOR_S

    def _describe(self, model: ModelInfo) -> dict[str, Any]:
        return {
            "id": model.name,
            "object": "model",
            "created": self._started_s,
            "owned_by": "tritone",
            "root": model.parent or model.name,
            "parent": model.parent,
            "max_model_len": model.max_model_len,
        }

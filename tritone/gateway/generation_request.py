"""What chat and completion requests have in common: sampling, ends, streaming, and how they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import BeforeValidator, Field, ValidationError, WithJsonSchema
from pydantic_core import PydanticCustomError

from .guides import Expression, Guide, JsonSchema, ResponseFormat, StructuredOutputs, Texts, guide_of, one_guide
from .openai_error import bad_field
from .request_body import invalid, read_body
from .request_fields import Route
from .strict_model import StrictModel

if TYPE_CHECKING:
    from typing_extensions import Self

INT32_MAX = 2**31 - 1
FP32_MAX = 3.4028234663852886e38
MAX_TOP_LOGPROBS = 20

Count = Annotated[int, Field(ge=1, le=INT32_MAX)]
TokenId = Annotated[int, Field(ge=0, le=INT32_MAX)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
TopLogprobs = Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)]

TEXT_OR_TEXTS = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})


class RequestLimits(NamedTuple):
    """How much one request may fan out to."""

    choices_per_prompt: int = 16
    prompts: int = 64


DEFAULT_LIMITS = RequestLimits()


class StreamOptions(StrictModel):
    """What a stream tells besides its text."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: bool | None = None


def _texts(value: Any) -> list[Any]:
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
        return texts
    raise PydanticCustomError("texts_type", "must be a string or a list of strings")


class GenerationRequest(StrictModel):
    """A checked request. None is "not sent": the ensemble decides, by the model's own defaults."""

    route: ClassVar[Route]

    model: Annotated[str, Field(min_length=1)]
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1)] = 1
    max_tokens: Count | None = None
    min_tokens: Annotated[int, Field(ge=0, le=INT32_MAX)] | None = None
    temperature: Annotated[float, Field(ge=0, le=FP32_MAX)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=INT32_MAX)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=FP32_MAX)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    stop: Annotated[list[str], BeforeValidator(_texts), TEXT_OR_TEXTS] = Field(default=[])
    stop_token_ids: list[TokenId] = Field(default=[])
    bad_words: list[str] = Field(default=[])
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: JsonSchema | None = None
    guided_regex: Expression | None = None
    guided_choice: Texts | None = None
    guided_grammar: Expression | None = None
    user: str | None = None

    @classmethod
    def parse(cls, body: bytes, limits: RequestLimits = DEFAULT_LIMITS) -> Self:
        """The request in a body. Raises OpenAIError (400) that names the field at fault, whether it streams or not."""
        values = read_body(body, cls.route)
        try:
            request = cls.model_validate(values)
        except ValidationError as error:
            raise invalid(error) from None
        request.check(limits)
        return request

    def check(self, limits: RequestLimits) -> None:
        """Raise OpenAIError for fields that do not go together, or ask for too much."""
        if self.n > limits.choices_per_prompt:
            raise bad_field("n", f"got {self.n}, allowed: 1 to {limits.choices_per_prompt}")
        _ = self.guide  # raises for more than one
        if self.stream_options is None:
            return
        if not self.stream:
            raise bad_field("stream_options", "is only allowed with stream=true")
        if self.stream_options.include_obfuscation:
            raise bad_field("stream_options.include_obfuscation", "is not available; allowed: null, false")

    @property
    def num_choices(self) -> int:
        """Answers to make; choice i belongs to prompt i // n."""
        return self.n

    @property
    def guide(self) -> Guide | None:
        """What the answer must match. Raises OpenAIError (400) where there is more than one."""
        asked = {
            "response_format": self.response_format.guide() if self.response_format else None,
            "structured_outputs": self.structured_outputs.guide() if self.structured_outputs else None,
            "guided_json": guide_of("json", self.guided_json),
            "guided_regex": guide_of("regex", self.guided_regex),
            "guided_choice": guide_of("choice", self.guided_choice),
            "guided_grammar": guide_of("grammar", self.guided_grammar),
        }
        return one_guide(asked)

    @property
    def num_top_logprobs(self) -> int | None:
        """How many of the likeliest tokens to tell with each token's log probability; None to tell nothing."""
        raise NotImplementedError

    @property
    def wants_usage(self) -> bool:
        """Whether a chunk with the usage ends the stream."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def wants_continuous_usage(self) -> bool:
        """Whether every chunk has the usage so far."""
        return bool(self.stream_options and self.stream_options.continuous_usage_stats)

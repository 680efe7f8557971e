"""Which id comes next: functions from logits to ids, without a model. Runs in the engine stage.

What a request asks for is applied in vLLM's order: bans, penalties, temperature, min_p, top_k, top_p. A tensor of
logits or scores is float32 [rows, vocabulary], with a row for each of the answers beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from .adapter import TokenLogprob
from .answer import Answer


def choose(logits: torch.Tensor, answers: Sequence[Answer]) -> list[int | None]:
    """The next id of each answer: the likeliest, or one drawn where the request has a temperature.

    None where no id can come next: all are banned, or the logits are not numbers.
    """
    scores = adjusted(logits, answers)
    best, ids = scores.max(-1)
    drawing = [row for row, answer in enumerate(answers) if answer.request.temperature > 0]
    if drawing:
        ids[drawing] = drawn(scores[drawing], [answers[row] for row in drawing])
    is_possible = best.isfinite().tolist()
    return [token if possible else None for token, possible in zip(ids.tolist(), is_possible, strict=True)]


def adjusted(logits: torch.Tensor, answers: Sequence[Answer]) -> torch.Tensor:
    """The scores after bans and penalties: the logits themselves where no request has any."""
    if all(answer.is_plain for answer in answers):
        return logits
    scores = logits.clone()
    for row, answer in zip(scores, answers, strict=True):
        row[[token for token in answer.banned_ids() if 0 <= token < len(row)]] = -math.inf
        punish(row, answer)
    return scores


def punish(scores: torch.Tensor, answer: Answer) -> None:
    """Apply the penalties to the `scores` float32 [vocabulary] of one answer, in place.

    repetition_penalty divides positive scores of ids in prompt and answer, and multiplies others; presence_penalty is
    taken from the score of every id in the answer, frequency_penalty for each time that it is there.
    """
    request = answer.request
    if request.repetition_penalty != 1:
        seen = torch.tensor(answer.ids, device=scores.device)
        factor = request.repetition_penalty
        scores[seen] = torch.where(scores[seen] > 0, scores[seen] / factor, scores[seen] * factor)
    if answer.made and (request.presence_penalty or request.frequency_penalty):
        made, counts = torch.tensor(answer.made_ids, device=scores.device).unique(return_counts=True)
        scores[made] -= request.presence_penalty + request.frequency_penalty * counts


def drawn(scores: torch.Tensor, answers: Sequence[Answer]) -> torch.Tensor:
    """An id for each answer, int64 [rows]: the first whose cumulated probability is more than the number drawn."""
    cumulated = filtered(scores, answers).softmax(-1).cumsum(-1, dtype=torch.float64)
    numbers = torch.tensor([[answer.draw()] for answer in answers], dtype=torch.float64, device=scores.device)
    return torch.searchsorted(cumulated, numbers * cumulated[:, -1:], right=True)[:, 0]


def filtered(scores: torch.Tensor, answers: Sequence[Answer]) -> torch.Tensor:
    """The scores at each request's temperature; minus infinity where min_p, top_k or top_p leave an id out."""
    requests = [answer.request for answer in answers]
    scores = scores / _column([request.temperature for request in requests], scores)
    if any(request.min_p > 0 for request in requests):
        scores = keep_min_p(scores, [request.min_p for request in requests])
    if any(request.top_k > 0 for request in requests):
        scores = keep_top_k(scores, [request.top_k for request in requests])
    if any(request.top_p < 1 for request in requests):
        scores = keep_top_p(scores, [request.top_p for request in requests])
    return scores


def keep_min_p(scores: torch.Tensor, min_p: Sequence[float]) -> torch.Tensor:
    """Leave out what is less likely than `min_p` times the likeliest; 0 leaves nothing out."""
    least = scores.amax(-1, keepdim=True) + _column(min_p, scores).log()
    return scores.masked_fill(scores < least, -math.inf)


def keep_top_k(scores: torch.Tensor, top_k: Sequence[int]) -> torch.Tensor:
    """Leave out all but the `top_k` likeliest, and those as likely as the last of them; 0 leaves nothing out."""
    limits = _column(top_k, scores, torch.int64)
    most = min(max(1, *top_k), scores.shape[-1])
    least = scores.topk(most).values.gather(-1, limits.clamp(1, most) - 1)
    return scores.masked_fill((scores < least) & (limits > 0), -math.inf)


def keep_top_p(scores: torch.Tensor, top_p: Sequence[float]) -> torch.Tensor:
    """Leave out what comes after the likeliest that make up `top_p` together; 1 leaves nothing out."""
    limits = _column(top_p, scores, torch.float64)
    ordered, order = scores.sort(descending=True)
    probabilities = ordered.softmax(-1, dtype=torch.float64)
    before = probabilities.cumsum(-1) - probabilities
    ordered = ordered.masked_fill((before >= limits) & (limits < 1), -math.inf)
    return torch.empty_like(scores).scatter(-1, order, ordered)


def token_logprobs(
    logits: torch.Tensor, ids: Sequence[int | None], answers: Sequence[Answer]
) -> list[tuple[TokenLogprob, ...]]:
    """One entry for the id that was chosen for each answer: log-softmax of the logits, whatever was applied to them.

    None for answers that do not ask, or have no id.
    """
    entries: list[tuple[TokenLogprob, ...]] = [()] * len(answers)
    asked = {
        row: (token, answer.request.top_logprobs)
        for row, (token, answer) in enumerate(zip(ids, answers, strict=True))
        if token is not None and answer.request.top_logprobs is not None
    }
    if asked:
        logprobs = logits[list(asked)].log_softmax(-1)
        top = logprobs.topk(min(max(count for _, count in asked.values()), logits.shape[-1]))
        chosen = logprobs.gather(-1, _column([token for token, _ in asked.values()], logprobs, torch.int64))
        likeliest = zip(top.indices.tolist(), top.values.tolist(), strict=True)
        for (row, (_, count)), [logprob], (tokens, values) in zip(
            asked.items(), chosen.tolist(), likeliest, strict=True
        ):
            entries[row] = (TokenLogprob(logprob, tuple(zip(tokens[:count], values[:count], strict=True))),)
    return entries


def _column(values: Sequence[float], beside: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """`values` as tensor [rows, 1] on the device of `beside`."""
    return torch.tensor(values, dtype=dtype, device=beside.device)[:, None]

"""Margins of texts that are already written, from a server that gives log-probabilities of a prompt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from math import exp
from typing import Any

from relaygen_lmeval.engines.server.abilities import PATH, Served
from relaygen_lmeval.engines.server.client import Client, read_json
from relaygen_lmeval.errors import EngineError


async def prompt_margins(
    client: Client, served: Served, rows: Sequence[Sequence[int]], n_context: Sequence[int]
) -> list[list[float]]:
    """Ask for `p(1) - p(2)` of the next-token distribution before every generated token.

    Args:
        client: The server.
        served: The model on it.
        rows: Token ids, prompt and generated text.
        n_context: How many of them are the prompt, at least 1.

    Returns:
        For every row the margins of its generated tokens, in [0, 1].

    Raises:
        EngineError: A server that gives no such log-probabilities.
        ServerError: One that failed.
    """
    if not served.abilities.prompt_logprobs:
        raise EngineError(
            f"server {client.url} gives no log-probabilities of a prompt, which margins are made "
            "of: calibrate with vLLM, or with engine=local"
        )
    places = asyncio.Semaphore(client.n_connections)

    async def one(row: Sequence[int], n: int) -> list[float]:
        async with places:
            return await _margins(client, served, row, n)

    return list(await asyncio.gather(*map(one, rows, n_context)))


async def _margins(client: Client, served: Served, row: Sequence[int], n: int) -> list[float]:
    body = {"model": served.name, "prompt": list(row), "max_tokens": 1, "prompt_logprobs": 2}
    asked = await client.post(PATH, json.dumps({**body, "temperature": 0.0}).encode(), read_json)
    told = asked.value["choices"][0]["prompt_logprobs"]
    return [margin_of(best) for best in told[n:]]


def margin_of(told: Mapping[str, Any]) -> float:
    """The margin at one place: of the two best; the token that stands there is told beside them.

    Examples:
        >>> margin_of({"7": {"logprob": 0.0}, "8": {"logprob": -800.0}, "5": {"logprob": -900.0}})
        1.0
    """
    best = sorted((float(entry["logprob"]) for entry in told.values()), reverse=True)
    return exp(best[0]) - (exp(best[1]) if len(best) > 1 else 0.0)

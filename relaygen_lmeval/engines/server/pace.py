"""How fast a server writes for one request alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import median
from time import perf_counter

from relaygen_lmeval.engines.server.abilities import PATH, Served
from relaygen_lmeval.engines.server.client import Client, read_json
from relaygen_lmeval.engines.server.wire import read_reply

_N_TOKENS = 32
_N_TIMES = 5


async def token_s(client: Client, served: Served, prompt: Sequence[int] | str) -> float:
    """Time of one more token, seconds: what a longer text takes beyond one token's, the median.

    Args:
        client: The server.
        served: The model on it.
        prompt: A short one, as ids or text.
    """
    found = []
    for _ in range(_N_TIMES):
        one_s, _ = await _time(client, served, prompt, 1)
        many_s, n_tokens = await _time(client, served, prompt, _N_TOKENS)
        found.append((many_s - one_s) / max(1, n_tokens - 1))
    return max(0.0, median(found))


async def _time(
    client: Client, served: Served, prompt: Sequence[int] | str, n: int
) -> tuple[float, int]:
    body = {"model": served.name, "prompt": prompt, "max_tokens": n, "temperature": 0.0}
    asked = await client.post(PATH, json.dumps(body).encode(), read_json)
    return perf_counter() - asked.began_s, read_reply(asked.value).n_tokens or n

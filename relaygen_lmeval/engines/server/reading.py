"""A reply is read into a turn's writing, whole or as it streams; its times are noted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from time import perf_counter

import httpx

from relaygen_lmeval.engines.server.client import events, read_json
from relaygen_lmeval.engines.server.wire import Reply, read_reply
from relaygen_lmeval.engines.server.writing import Writing

_HALF = "\ufffd"


@dataclass(frozen=True, slots=True)
class Heard:
    """What a reply told beside its tokens.

    Attributes:
        reply: Its last event that said why it ended or how long it took, or all of it.
        first_s: `time.perf_counter()` when the first token was known; of a whole reply by the
            server's own account, else when it came.
        last_s: The same when all was known.
    """

    reply: Reply
    first_s: float
    last_s: float


async def read_whole(
    response: httpx.Response,
    writing: Writing,
    stops: Sequence[str],
    encode: Callable[[str], list[int]],
) -> Heard:
    """Read a reply that comes at once; a text without ids is read by our own tokenizer."""
    reply = read_reply(await read_json(response), stops)
    now = perf_counter()
    if reply.ids is None:
        whole = reply.text.rstrip(_HALF) or reply.text  # a character that was cut in the middle
        reply = replace(reply, ids=tuple(encode(whole)))
    assert reply.ids is not None
    decode_s = reply.decode_s or 0.0
    writing.drop_round()
    writing.take(reply, _stamps(now - decode_s, now, len(reply.ids)))
    return Heard(reply, now - decode_s, now)


async def read_stream(response: httpx.Response, writing: Writing, *, with_ids: bool) -> Heard:
    """Read a reply token by token, and leave it as soon as the turn has ended.

    Leaving closes the connection, which tells the server to stop. Where the server has stopped
    by itself the rest is read, for the connection can then be used again.
    """
    writing.drop_round()
    told = Reply("", None, None)
    first_s = None
    async with aclosing(events(response)) as stream:
        async for event in stream:
            now = perf_counter()
            reply = read_reply(event)
            if not with_ids:
                reply = replace(reply, ids=None)
            if first_s is None and (reply.ids or reply.text):
                first_s = now
            if told.ended is None:
                writing.take(reply, [now] * max(1, len(reply.ids or ())))
            told = _told(told, reply)
            if writing.end and told.ended is None and writing.end.reason != "length":
                break
    now = perf_counter()
    return Heard(told, first_s or now, now)


def _told(before: Reply, event: Reply) -> Reply:
    """The reason of the end and the server's times come in different events of some servers."""
    ended = before.ended or event.ended
    return replace(event if event.decode_s is not None else before, ended=ended)


def _stamps(first_s: float, last_s: float, n: int) -> list[float]:
    """Times of tokens that came at once, spread evenly over the server's decode time."""
    gap_s = (last_s - first_s) / max(1, n - 1)
    return [last_s - gap_s * (n - 1 - i) for i in range(n)]

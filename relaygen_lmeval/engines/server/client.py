"""One server's pooled connections: sends bodies, reads replies and streams, tries again.

It knows HTTP and JSON, and nothing of models or turns.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from random import uniform
from time import perf_counter, time
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import httpx

from relaygen_lmeval.errors import ConfigError, ServerError
from relaygen_lmeval.options.checks import without_secrets

T = TypeVar("T")
Json = dict[str, Any]

KEY_VARIABLE = "OPENAI_API_KEY"  # the harness's own for its API models
# Hears of the connection's events, in httpcore's words, for who measures them.
TRACE: ContextVar[Callable[[str, Any], Awaitable[None]] | None] = ContextVar("TRACE", default=None)
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.5, 10.0
_LONGEST_ASKED_S = 300.0  # of a server's Retry-After that is waited for
_CONNECT_S = 10.0
_KEEP_S = 4.0  # uvicorn, under most servers, closes a connection that is idle for 5
_RUN_IT = "start it (`relaygen serve` starts a pair) or correct the URL"


class Unreadable(Exception):
    """A reply that breaks off or makes no sense; asking again may help."""


@dataclass(frozen=True, slots=True)
class Asked(Generic[T]):
    """What a request gave and what it cost: seconds, the failed attempts apart."""

    value: T
    began_s: float
    n_retries: int
    retry_s: float


class Client:
    """A server's address and connections.

    Args:
        base_url: With or without `/v1`.
        timeout_s: Longest silence of the server, seconds.
        max_retries: How often a request that may yet succeed is sent again.
        n_connections: Requests under way at once.

    Raises:
        ConfigError: An address that is none, or that holds a password.
    """

    def __init__(
        self, base_url: str, *, timeout_s: float, max_retries: int, n_connections: int
    ) -> None:
        self.url = check_url(base_url)
        self.n_connections = n_connections
        self.timeout_s = timeout_s
        self._max_retries = max_retries
        self._timeout = httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s))
        self._limits = httpx.Limits(
            max_connections=n_connections,
            max_keepalive_connections=n_connections,
            keepalive_expiry=_KEEP_S,
        )
        self._session: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner: AsyncGenerator[httpx.AsyncClient, None] | None = None
        # It would log every request's line, at the level the harness shows.
        logging.getLogger("httpx").setLevel(logging.WARNING)

    async def get(self, path: str, *, retries: int | None = None) -> Json:
        """Read a resource, its path beginning behind the server's root."""
        return (await self._ask("GET", path, None, read_json, retries)).value

    async def post(
        self,
        path: str,
        body: bytes,
        read: Callable[[httpx.Response], Awaitable[T]],
        *,
        retries: int | None = None,
    ) -> Asked[T]:
        """Send a body and have `read` take the reply; both anew where the server failed.

        Raises:
            ServerError: What the server said last, with its URL.
        """
        return await self._ask("POST", path, body, read, retries)

    async def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        read: Callable[[httpx.Response], Awaitable[T]],
        retries: int | None,
    ) -> Asked[T]:
        asked_s = perf_counter()
        most = self._max_retries if retries is None else retries
        for n in range(most + 1):
            began_s = perf_counter()
            try:
                value = await self._once(method, path, body, read)
                return Asked(value, began_s, n, began_s - asked_s if n else 0.0)
            except _Again as again:
                if n == most:
                    tried = f" (tried {n + 1} times)" if n else ""
                    raise ServerError(f"server {self.url}: {again}{tried}") from again
                await asyncio.sleep(_delay_s(n, again.wait_s))
        raise AssertionError("the loop returns or raises")

    async def _once(
        self,
        method: str,
        path: str,
        body: bytes | None,
        read: Callable[[httpx.Response], Awaitable[T]],
    ) -> T:
        session = await self._open()
        try:
            trace = TRACE.get()
            extensions = {"trace": trace} if trace else {}
            url = self.url + path
            async with session.stream(method, url, content=body, extensions=extensions) as response:
                if not response.is_success:
                    await response.aread()
                    raise _refusal(self.url, response)
                return await read(response)
        except httpx.ConnectError as error:
            raise _Again(f"no connection ({_cause(error)}); {_RUN_IT}") from error
        except httpx.TimeoutException as error:
            waited = f"{self._timeout.read:g} s" if self._timeout.read else "long"
            raise _Again(f"silent for {waited} (timeout=)") from error
        except (httpx.TransportError, httpx.StreamError, Unreadable) as error:
            raise _Again(f"the reply broke off ({_cause(error)})") from error

    async def _open(self) -> httpx.AsyncClient:
        """The connections of the running loop, which closes them as it ends."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop:
            # `asyncio.run` closes suspended generators as its last act: nothing has to be told.
            self._owner = self._sessions()
            self._loop, self._session = loop, await anext(self._owner)
        return self._session

    async def _sessions(self) -> AsyncGenerator[httpx.AsyncClient, None]:
        key = os.environ.get(KEY_VARIABLE)
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        async with httpx.AsyncClient(
            headers=headers, timeout=self._timeout, limits=self._limits, follow_redirects=False
        ) as session:
            yield session


class _Again(Exception):
    """A failure that may pass; `wait_s` is how long the server asks to be left alone."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


async def read_json(response: httpx.Response) -> Json:
    """The reply as one JSON object.

    Raises:
        Unreadable: It is none.
    """
    return parse(await response.aread())


async def events(response: httpx.Response) -> AsyncGenerator[Json, None]:
    """The objects of a server-sent stream, each as soon as it is whole.

    Raises:
        Unreadable: One that is no JSON, or an end without `[DONE]`.
    """
    held = b""
    async for part in response.aiter_bytes():
        *whole, held = (held + part).split(b"\n")
        for line in whole:
            data = line.strip().removeprefix(b"data:").strip()
            if data == b"[DONE]":
                return
            if line.startswith(b"data:"):
                yield parse(data)
    raise Unreadable("the stream ended before its [DONE]")


def parse(data: bytes) -> Json:
    """One JSON object.

    Raises:
        Unreadable: It is none.
    """
    try:
        value = json.loads(data)
    except ValueError as error:
        raise Unreadable(f"no JSON: {data[:60]!r}") from error
    if not isinstance(value, dict):
        raise Unreadable(f"no JSON object: {data[:60]!r}")
    return value


def check_url(base_url: str) -> str:
    """The root of a server, without `/v1` and without a slash at its end.

    Raises:
        ConfigError: No http address, or one that holds a password.

    Examples:
        >>> check_url("http://localhost:8000/v1/")
        'http://localhost:8000'
    """
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"base_url={without_secrets(base_url)} is no address: write http://HOST:PORT, with or without /v1"
        )
    if parts.username or parts.password:
        raise ConfigError(
            f"a base_url of {parts.hostname} holds a name or password, which would be logged: "
            f"put the key into the environment variable {KEY_VARIABLE}"
        )
    url = base_url.split("?")[0].rstrip("/")
    for end in ("/completions", "/v1"):
        url = url.removesuffix(end)
    return url


def _refusal(url: str, response: httpx.Response) -> Exception:
    status = response.status_code
    said = _message(response)
    if response.is_redirect:
        to = response.headers.get("location", "nowhere")
        return ServerError(
            f"server {url} redirects to {to}, which is not followed: give that address itself if "
            "you trust it"
        )
    if status in _RETRIED:
        return _Again(f"status {status}: {said}", _retry_after_s(response))
    return ServerError(f"server {url}: status {status}: {said}")


def _message(response: httpx.Response) -> str:
    """What the server says is wrong, in one line."""
    try:
        found = response.json()
    except ValueError:
        found = response.text
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and found.get(name):
            found = found[name]
    return " ".join(str(found).split())[:400] or response.reason_phrase


def _retry_after_s(response: httpx.Response) -> float:
    """Seconds or a date, as RFC 9110 has it."""
    said = response.headers.get("retry-after", "")
    try:
        return max(0.0, float(said))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time())
    except ValueError:
        return 0.0


def _delay_s(n: int, wanted_s: float) -> float:
    """Longer each time, and never the same for two: they must not all return at once."""
    own_s = min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2**n)
    return float(max(own_s, min(wanted_s, _LONGEST_ASKED_S)) * uniform(1.0, 1.25))


def _cause(error: BaseException) -> str:
    """The innermost reason, for httpx's own is often empty or general."""
    inner: BaseException = error
    while inner.__cause__:
        inner = inner.__cause__
    return str(inner) or str(error) or type(error).__name__

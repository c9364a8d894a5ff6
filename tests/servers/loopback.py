"""A server on a real socket that writes a given story, as different servers would; and fails to order.

Whatever it is asked, it goes on with its story from where the prompt ends, so every way of cutting
a relay into requests must give the same text.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Manner:
    """How a server behaves; the defaults are a recent vLLM's."""

    owner: str = "vllm"
    takes_ids: bool = True
    gives_ids: bool = True
    shows_stop: bool = True
    obeys_stops: bool = True
    streams: bool = True
    max_stops: int = 10_000
    strict: bool = False  # refuses fields it does not know
    max_length: int = 4096


@dataclass
class Story:
    """What is written: after a prompt of `n_prompt` tokens, `ids`, then the end of the text."""

    tokenizer: Any
    text: str
    ids: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.ids = self.tokenizer.encode(self.text, add_special_tokens=False)

    def after(self, prompt: list[int] | str) -> list[int]:
        """The ids that follow a prompt that ends within the story, or the story's beginning."""
        text = prompt if isinstance(prompt, str) else self.read(prompt)
        n_chars = next((n for n in range(len(self.text), 0, -1) if text.endswith(self.text[:n])), 0)
        for n in range(len(self.ids), 0, -1):
            if prompt[-n:] == self.ids[:n] and len(self.read(self.ids[:n])) >= n_chars:
                return self.ids[n:]
        # Read anew somewhere: it goes on by its text.
        return list(self.tokenizer.encode(self.text[n_chars:], add_special_tokens=False))

    def read(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))


class Loopback:
    """The running server.

    Attributes:
        asked: Bodies of all completions, in order.
        headers: Their headers.
        connections: Addresses of the clients' sockets, one for each request.
        faults: What happens to the next completions: a name of `_Handler.fault_*` each.
    """

    def __init__(self, story: Story, manner: Manner | None = None, port: int = 0) -> None:
        self.story, self.manner = story, manner or Manner()
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.connections: list[Any] = []
        self.faults: list[str] = []
        self.model = "story"
        self._start(port)

    def _start(self, port: int) -> None:
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = _Server(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self._server.open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def die(self, seconds: float) -> None:
        """Refuse connections for a while, then come back at the same port."""
        self.stop()
        threading.Timer(seconds, self._start, (self.port,)).start()


class _Server(ThreadingHTTPServer):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has left is no error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Loopback

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/health":
            return self.say(200, {})
        model = {"id": self.owner.model, "owned_by": self.owner.manner.owner}
        if self.owner.manner.max_length:
            model["max_model_len"] = self.owner.manner.max_length  # type: ignore[assignment]
        return self.say(200, {"data": [model]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.owner.asked.append(body)
        self.owner.headers.append(dict(self.headers))
        self.owner.connections.append(self.client_address)
        fault = self.owner.faults.pop(0) if self.owner.faults else None
        if fault:
            getattr(self, f"fault_{fault}")(body)
            return None
        if error := self.refused(body):
            return self.say(400, {"error": {"message": error}})
        return self.stream(body) if body.get("stream") else self.whole(body)

    def refused(self, body: dict[str, Any]) -> str | None:
        manner = self.owner.manner
        known = {"model", "prompt", "max_tokens", "temperature", "stop", "stream", "seed", "top_p"}
        if manner.strict and set(body) - known:
            return f"unknown fields: {sorted(set(body) - known)}"
        if isinstance(body["prompt"], list) and not manner.takes_ids:
            return "prompt must be a string"
        if len(body.get("stop", [])) > manner.max_stops:
            return f"List should have at most {manner.max_stops} items"
        if body.get("stream") and not manner.streams:
            return "streaming is not supported"
        n_prompt = len(body["prompt"])
        if isinstance(body["prompt"], list) and n_prompt + body["max_tokens"] > manner.max_length:
            return f"maximum context length is {manner.max_length} tokens, asked for {n_prompt}"
        return None

    def write(self, body: dict[str, Any]) -> Iterator[tuple[int, str, str | None]]:
        """Token by token: id, text so far, and why it is the last one."""
        story, ids = self.owner.story, self.owner.story.after(body["prompt"])
        eos = story.tokenizer.eos_token_id
        stops = body.get("stop", []) if self.owner.manner.obeys_stops else []
        before = ""
        for n, token in enumerate([*ids, eos][: body["max_tokens"]], start=1):
            text = story.read(ids[:n])
            if token == eos:
                yield token, text, "eos"
                return
            found = [(text.find(s) + len(s), s) for s in stops if s in text and s not in before]
            before = text
            if found and n >= body.get("min_tokens", 0):
                yield token, text[: min(found)[0]], min(found)[1]
                return
            yield token, text, "length" if n == body["max_tokens"] else None

    def whole(self, body: dict[str, Any]) -> None:
        written = list(self.write(body))
        _, text, why = written[-1]
        if why not in ("eos", "length", None) and not self.shows(body):
            text = text.removesuffix(str(why))
        ids = [token for token, _, _ in written]
        self.say(200, self.reply(body, text, ids, why, len(ids)))

    def shows(self, body: dict[str, Any]) -> bool:
        asked = body.get("include_stop_str_in_output") or body.get("no_stop_trim")
        return bool(self.owner.manner.shows_stop and asked)

    def reply(
        self, body: dict[str, Any], text: str, ids: list[int], why: str | None, n: int
    ) -> dict[str, Any]:
        finish = {None: None, "length": "length"}.get(why, "stop")
        choice: dict[str, Any] = {"index": 0, "text": text, "finish_reason": finish}
        reply: dict[str, Any] = {"choices": [choice]}
        gives = self.owner.manner.gives_ids
        if self.owner.manner.owner == "vllm":
            choice["stop_reason"] = why if finish == "stop" and why != "eos" else None
            if gives and body.get("return_token_ids"):
                choice["token_ids"] = ids
        if self.owner.manner.owner == "llamacpp" and body.get("verbose"):
            kind = {"length": "limit", "eos": "eos", None: "none"}.get(why, "word")
            reply["__verbose"] = {"stop_type": kind, **({"tokens": ids} if gives else {})}
        if not body.get("stream"):
            n_prompt = len(body["prompt"]) if isinstance(body["prompt"], list) else 1
            reply["usage"] = {"completion_tokens": n, "prompt_tokens": n_prompt}
        return reply

    def stream(self, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        before = ""
        try:
            for n, (token, text, why) in enumerate(self.write(body), start=1):
                new = "" if text.endswith("\ufffd") else text[len(before) :]
                before += new
                self.event(json.dumps(self.reply(body, new, [token], why, n)))
            self.event("[DONE]")
            self.wfile.write(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client has left

    def event(self, data: str) -> None:
        line = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))

    def say(self, status: int, content: Any, **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def fault_busy(self, body: dict[str, Any]) -> None:
        self.say(429, {"error": "too many"}, Retry_After="1")

    def fault_broken(self, body: dict[str, Any]) -> None:
        self.say(500, {"error": {"message": "a GPU fell over"}})

    def fault_gateway(self, body: dict[str, Any]) -> None:
        self.say(502, b"<html>bad gateway</html>")

    def fault_reset(self, body: dict[str, Any]) -> None:
        """The connection ends in the middle of the body, of a stream after some tokens."""
        if body.get("stream"):
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for n, (token, text, _) in enumerate(list(self.write(body))[:3], start=1):
                self.event(json.dumps(self.reply(body, text, [token], None, n)))
        else:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [{"text": "So, half')
        self.wfile.flush()
        self.close_connection = True
        self.connection.close()

    def fault_truncated(self, body: dict[str, Any]) -> None:
        self.say(200, b'{"choices": [{"text": "So, ha')

    def fault_empty(self, body: dict[str, Any]) -> None:
        self.say(200, {"choices": []})

    def fault_hang(self, body: dict[str, Any]) -> None:
        time.sleep(3)
        self.close_connection = True

    def fault_elsewhere(self, body: dict[str, Any]) -> None:
        self.say(307, {}, Location="http://elsewhere.invalid/v1/completions")

    def fault_unknown_model(self, body: dict[str, Any]) -> None:
        self.say(404, {"error": {"message": "The model does not exist."}})

    def fault_overflow(self, body: dict[str, Any]) -> None:
        self.say(400, {"error": {"message": "maximum context length is 4096 tokens"}})

"""A model behind HTTP as an engine: one turn is one request, unless the client sees it otherwise."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import httpx

from relaygen_lmeval.core.policy import Move
from relaygen_lmeval.core.timing import Timing, Wire
from relaygen_lmeval.core.types import Chunk, Role, Turn
from relaygen_lmeval.engines.local.detokenizer import make_detokenizer
from relaygen_lmeval.engines.server.abilities import PATH, Served
from relaygen_lmeval.engines.server.client import Asked, Client
from relaygen_lmeval.engines.server.hints import round_tokens, stop_hints
from relaygen_lmeval.engines.server.reading import Heard, read_stream, read_whole
from relaygen_lmeval.engines.server.seams import seam_changes
from relaygen_lmeval.engines.server.wire import encode, sampling_fields
from relaygen_lmeval.engines.server.writing import Writing
from relaygen_lmeval.errors import ConfigError, ServerError

_MOST_AT_ONCE = (
    1024  # tokens of a reply that comes at once: a longer silence would look like a hang
)


@dataclass
class Track:
    """What a model has read of one request: its text, as ids and as the JSON of a body."""

    ids: list[int]
    text: str
    json: str
    n_chunks: int = 0
    n_unread: int = 0
    changed_seams: int = 0


@dataclass
class Costs:
    """What the requests of a turn took, added up."""

    wire: Wire | None = None

    def add(self, asked: Asked[Heard], sent_bytes: int) -> None:
        """Count one more request that was answered."""
        heard = asked.value
        one = Wire(
            n_requests=1,
            n_retries=asked.n_retries,
            sent_bytes=sent_bytes * (1 + asked.n_retries),
            ttft_s=heard.first_s - asked.began_s,
            e2e_s=heard.last_s - asked.began_s,
            retry_s=asked.retry_s,
            queue_s=heard.reply.queue_s,
            server_s=heard.reply.server_s,
        )
        self.wire = self.wire + one if self.wire else one


class ServerEngine:
    """A served model.

    Args:
        role: Which model of the pair it is.
        client: Its server.
        served: Its name there, and what the server can.
        tokenizer: Its tokenizer, here.
        eos: Token ids that end a text.
        shares_ids: Whether the partner's token ids mean the same here; else its text is read.
        cut: Who cuts a turn: `server` by stop strings, `stream` the client alone, or `auto`.
        on_close: Called once by `close`.
    """

    def __init__(
        self,
        role: Role,
        client: Client,
        served: Served,
        tokenizer: Any,
        *,
        eos: frozenset[int],
        shares_ids: bool = True,
        cut: str = "auto",
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._role = role
        self._client = client
        self._served = served
        self._tokenizer = tokenizer
        self._eos = eos
        self._shares_ids = shares_ids
        self._cut = cut
        self._on_close = on_close
        self._tracks: dict[int, Track] = {}

    async def run(self, turn: Turn) -> Chunk:
        """Write one turn, beside all others that are under way."""
        track = self._read(turn)
        writing = Writing(
            turn,
            eos=self._eos,
            whole_characters=not self._shares_ids,
            make_step=partial(self._make_step, track),
        )
        costs = Costs()
        try:
            while writing.end is None:
                await self._round(track, writing, costs)
        except ServerError as error:
            raise ServerError(
                f"request {turn.request.seq_id}, {self._role.value} model: {error}"
            ) from error
        return self._chunk(track, writing, costs)

    def admit(self, move: Move) -> None:
        """See that moves like this one can be made.

        Raises:
            ConfigError: They need the model's probabilities.
        """
        if move.judge or move.rule.doubt:
            raise ConfigError(
                f"the policy needs the {self._role.value} model's probabilities while it writes, "
                "which are not read from servers: set engine=local"
            )

    def release(self, seq_id: int) -> None:
        """Forget a request; the server's own cache forgets when it must."""
        self._tracks.pop(seq_id, None)

    def close(self) -> None:
        """Stop a server that was started for this engine."""
        self._on_close()

    def _read(self, turn: Turn) -> Track:
        """Take in what was written since this model was last asked."""
        track = self._tracks.get(turn.request.seq_id)
        if track is None:
            prompt = turn.request.prompts[self._role]
            track = Track([], prompt.text, "")
            self._tracks[turn.request.seq_id] = track
            _append(track, prompt.token_ids)
            track.n_unread = len(prompt.token_ids)
        for chunk in turn.chunks[track.n_chunks :]:
            self._read_chunk(track, chunk)
        track.n_chunks = len(turn.chunks)
        return track

    def _read_chunk(self, track: Track, chunk: Chunk) -> None:
        own = self._shares_ids or chunk.role is self._role
        ids = chunk.token_ids if own else self._encode(chunk.text)
        by_text = not own or not self._served.abilities.prompt_ids
        if by_text and seam_changes(self._encode, track.text, chunk.text):
            track.changed_seams += 1
        _append(track, ids)
        track.n_unread += 0 if chunk.role is self._role else len(ids)
        track.text += chunk.text

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _make_step(self, track: Track, ids: Sequence[int]) -> Callable[[int], str]:
        return make_detokenizer(self._tokenizer, [*track.ids[-8:], *ids]).step

    async def _round(self, track: Track, writing: Writing, costs: Costs) -> None:
        """Send one request and read what comes; most turns need no second one."""
        writing.begin_round()
        streams = self._streams(writing.turn)
        hints = self._hints(writing.turn, streams=streams)
        body = self._body(track, writing, hints, streams=streams)
        asked = await self._client.post(PATH, body, self._reader(writing, hints, streams=streams))
        writing.finish(asked.value.reply)
        costs.add(asked, len(body))

    def _reader(
        self, writing: Writing, hints: tuple[str, ...], *, streams: bool
    ) -> Callable[[httpx.Response], Awaitable[Heard]]:
        if not streams:
            return partial(read_whole, writing=writing, stops=hints, encode=self._encode)
        with_ids = self._served.abilities.token_ids and self._served.flavour.ids_in_stream
        return partial(read_stream, writing=writing, with_ids=with_ids)

    def _streams(self, turn: Turn) -> bool:
        """Whether the client cuts the turn out of a stream, rather than the server by its stops."""
        abilities = self._served.abilities
        if not abilities.whole_replies or not abilities.streams:
            return abilities.streams
        if self._cut != "auto":
            return self._cut == "stream"
        return len(stop_hints(turn.rule)) > self._served.max_stops

    def _hints(self, turn: Turn, *, streams: bool) -> tuple[str, ...]:
        """In a stream they only spare a connection: those that the matcher always agrees to."""
        if not self._served.abilities.whole_replies:
            return ()
        hints = turn.rule.literals if streams else stop_hints(turn.rule)
        return hints[: self._served.max_stops]

    def _body(
        self, track: Track, writing: Writing, hints: tuple[str, ...], *, streams: bool
    ) -> bytes:
        turn, flavour = writing.turn, self._served.flavour
        n_tokens = round_tokens(
            turn.rule, len(writing.tokens), turn.max_tokens, cue_waits=writing.cue_waits
        )
        if not streams:
            n_tokens = min(n_tokens, _MOST_AT_ONCE)
        n_before = turn.n_before + len(writing.tokens)
        fields: dict[str, Any] = {
            "model": self._served.name,
            "max_tokens": n_tokens,
            **sampling_fields(flavour, turn.request.sampling, n_before),
            **flavour.plain_text,
        }
        if streams:
            fields["stream"] = True
        if self._served.abilities.token_ids:
            fields.update(flavour.with_ids)
        if hints:
            fields["stop"] = list(hints)
            if self._served.abilities.stop_text:
                fields.update(flavour.with_stop_text)
        if not self._served.abilities.prompt_ids:
            text = track.text + "".join(token.text for token in writing.tokens)
            return encode(fields, json.dumps(text))
        more = ",".join(map(str, self._ids_of(writing)))
        return encode(fields, f"[{track.json}{',' if more else ''}{more}]")

    def _ids_of(self, writing: Writing) -> list[int]:
        """The turn's ids so far; a text whose ids are not told is read anew."""
        ids = writing.ids
        if len(ids) == len(writing.tokens):
            return ids
        return self._encode("".join(token.text for token in writing.tokens))

    def _chunk(self, track: Track, writing: Writing, costs: Costs) -> Chunk:
        end = writing.end
        assert end is not None
        kept = writing.tokens[: end.n_kept]
        text = "".join(token.text for token in kept)
        ids = [token.id for token in kept if token.id is not None]
        n_unread, track.n_unread = track.n_unread, 0
        seams, track.changed_seams = track.changed_seams, 0
        assert costs.wire is not None
        wire = replace(costs.wire, changed_seams=seams)
        timing = Timing(
            wait_s=wire.queue_s,
            prefill_s=max(0.0, wire.ttft_s - wire.queue_s),
            decode_s=max(0.0, wire.e2e_s - wire.ttft_s),
            catch_up_tokens=n_unread,
            given_back_tokens=len(writing.tokens) - len(kept) + writing.n_given_back,
            stamps_s=tuple(token.stamp_s for token in kept),
            wire=wire,
        )
        return Chunk(
            role=self._role,
            phase=writing.turn.phase,
            text=text,
            token_ids=tuple(ids if len(ids) == len(kept) else self._encode(text)),
            n_tokens=len(kept),
            ended_by=end.reason,
            matched=end.matched,
            timing=timing,
        )


def _append(track: Track, ids: Sequence[int]) -> None:
    """Add ids; what is JSON of them already stays so."""
    more = ",".join(map(str, ids))
    track.json = ",".join(part for part in (track.json, more) if part)
    track.ids.extend(ids)

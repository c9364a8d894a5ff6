"""The product: two pure functions that relay one generation between two models.

`next_turn` says what is asked of whom; `advance` takes the answer in. Neither knows an engine.
"""

from __future__ import annotations

from dataclasses import replace

from relaygen_lmeval.core.policies import Policy
from relaygen_lmeval.core.types import (
    Chunk,
    EndedBy,
    Finish,
    Phase,
    RelayRequest,
    RelayState,
    Role,
    Segment,
    StopRule,
    Turn,
)

_CONTEXT = 64  # characters of earlier text that a stop may look back at, at least


def begin(request: RelayRequest, policy: Policy) -> RelayState:
    """The state before the first token: the leader holds, the reasoning is empty."""
    return RelayState(request, holder=policy.leader, thinks=request.thinks)


def next_turn(state: RelayState, policy: Policy) -> Turn | None:
    """Say what the holder is asked to write next.

    Returns:
        The turn, with at least one token to write, or `None` when the text is finished.
    """
    if state.finish:
        return None
    return Turn(
        request=state.request,
        role=state.holder,
        phase=state.phase,
        chunks=state.chunks,
        rule=_rule(state, policy),
        max_tokens=_turn_tokens(state, policy),
        n_before=state.n_tokens,
        before=_before(state),
    )


def advance(state: RelayState, chunk: Chunk, policy: Policy) -> RelayState:
    """Take in what the holder wrote; the holder changes here and nowhere else.

    | phase | holder | chunk ended by | next holder |
    |---|---|---|---|
    | reasoning | large | cue | small |
    | reasoning | small | boundary, or its token bound | large |
    | reasoning | small | end of text | large, who alone may end a relayed text |
    | reasoning | any | `</think>` | the answer's, in phase answer |
    | reasoning | any | budget spent, or end of text | the same, after `</think>` is added |
    | answer, or a model that does not think | any | `until`, end of text, length | done |
    """
    state = _append(state, chunk)
    if state.thinks is None:
        return _decide_thinking(state, chunk, policy)
    if state.phase is Phase.ANSWER:
        return _finish(state, chunk.ended_by)
    if chunk.ended_by == "think_end":
        return replace(state, phase=Phase.ANSWER, holder=policy.answer_by)
    if chunk.ended_by == "until":
        return _finish(state, "until")
    if chunk.ended_by == "eos" and state.holder is policy.leader:
        return _end_reasoning(state, "eos", policy)
    if _remaining(state) <= 0:
        return _end_reasoning(state, "length", policy)
    return replace(state, holder=_next_holder(state, chunk, policy))


def segments(chunks: tuple[Chunk, ...]) -> tuple[Segment, ...]:
    """Join chunks that one model wrote in a row, within one phase, into segments."""
    out: list[Segment] = []
    for chunk in chunks:
        last = out[-1] if out else None
        if last and (last.role, last.phase) == (chunk.role, chunk.phase):
            out[-1] = _join(last, chunk)
        elif chunk.n_tokens or chunk.role is None:
            out.append(_segment(chunk))
    return tuple(out)


def text_of(chunks: tuple[Chunk, ...]) -> str:
    """Everything written, special tokens shown."""
    return "".join(chunk.text for chunk in chunks)


def _rule(state: RelayState, policy: Policy) -> StopRule:
    request = state.request
    if state.thinks is None:
        return StopRule(opening=request.think_start)
    if state.phase is Phase.ANSWER:
        return StopRule(literals=request.until, after_space=True)
    hands_over = policy.cues is not None and state.holder is Role.LARGE
    return StopRule(
        literals=(request.think_end,) if state.thinks else request.until,
        literal_reason="think_end" if state.thinks else "until",
        cues=hands_over,
        boundaries=state.holder is not policy.leader,
        min_tokens=policy.min_large_tokens if hands_over else 0,
    )


def _remaining(state: RelayState) -> int:
    """Tokens left to the present phase; a model not known to think yet may use them all."""
    request = state.request
    reasons = state.thinks and state.phase is Phase.REASONING
    return (request.reasoning_budget if reasons else request.max_tokens) - state.n_tokens


def _turn_tokens(state: RelayState, policy: Policy) -> int:
    remaining = _remaining(state)
    if state.phase is Phase.REASONING and state.holder is not policy.leader:
        return min(remaining, policy.max_small_tokens)
    return remaining


def _before(state: RelayState) -> str:
    """The end of the text a stop may reach back into: in an answer, the answer alone."""
    needed = max([_CONTEXT, *map(len, state.request.until)])
    tail = ""
    for chunk in reversed(state.chunks):
        if state.phase is Phase.ANSWER and chunk.phase is not Phase.ANSWER:
            break
        tail = chunk.text + tail
        if len(tail) >= needed:
            break
    return tail[-needed:]


def _append(state: RelayState, chunk: Chunk) -> RelayState:
    return replace(state, chunks=(*state.chunks, chunk), n_tokens=state.n_tokens + chunk.n_tokens)


def _decide_thinking(state: RelayState, chunk: Chunk, policy: Policy) -> RelayState:
    """The first words tell whether the model reasons; stop strings wait for that."""
    text = text_of(state.chunks)
    if text.lstrip().startswith(state.request.think_start):
        state = replace(state, thinks=True)
        return state if _remaining(state) > 0 else _end_reasoning(state, "length", policy)
    state = replace(state, thinks=False)
    if any(stop in text for stop in state.request.until):
        return _finish(state, "until")
    if chunk.ended_by == "opening" and _remaining(state) > 0:
        return state
    return _finish(state, "eos" if chunk.ended_by == "eos" else "length")


def _end_reasoning(state: RelayState, why: Finish, policy: Policy) -> RelayState:
    """Without `</think>`: a thinking model still owes an answer, any other is done."""
    if not state.thinks:
        return _finish(state, why)
    closing = state.request.closing
    n_tokens = len(closing.token_ids)
    chunk = Chunk(None, Phase.REASONING, closing.text, closing.token_ids, n_tokens, "closed")
    return replace(
        _append(state, chunk),
        phase=Phase.ANSWER,
        holder=policy.answer_by,
        flags=(*state.flags, "reasoning_closed"),
    )


def _finish(state: RelayState, ended_by: EndedBy) -> RelayState:
    if ended_by == "until" or ended_by == "eos":
        return replace(state, finish=ended_by)
    return replace(state, finish="length", flags=(*state.flags, "truncated"))


def _next_holder(state: RelayState, chunk: Chunk, policy: Policy) -> Role:
    if chunk.ended_by == "cue":
        return state.holder.other
    return policy.leader


def _segment(chunk: Chunk) -> Segment:
    ended_by = chunk.ended_by
    if ended_by == "length" and chunk.phase is Phase.REASONING and chunk.role is Role.SMALL:
        ended_by = "bound"
    return Segment(
        chunk.role,
        chunk.phase,
        chunk.text,
        chunk.token_ids,
        chunk.n_tokens,
        ended_by,
        chunk.matched,
        chunk.timing,
    )


def _join(left: Segment, chunk: Chunk) -> Segment:
    right = _segment(chunk)
    return replace(
        right,
        text=left.text + right.text,
        token_ids=left.token_ids + right.token_ids,
        n_tokens=left.n_tokens + right.n_tokens,
        timing=left.timing + right.timing,
    )

"""The product: two pure functions that relay one generation between two models.

`next_turn` says what is asked of whom; `advance` takes the answer in. Neither knows an engine.
"""

from __future__ import annotations

from dataclasses import replace

from relaygen_lmeval.core.policy import Move, Policy
from relaygen_lmeval.core.repeats import repeats
from relaygen_lmeval.core.types import (
    Chunk,
    EndedBy,
    Finish,
    Phase,
    RelayRequest,
    RelayState,
    Segment,
    StopRule,
    Turn,
)

_CONTEXT = 64  # characters of earlier text that a stop may look back at, at least
_UNWRITTEN = ("doubt", "judged", "dropped")  # may have no tokens, but took time


def begin(request: RelayRequest, policy: Policy) -> RelayState:
    """The state before the first token."""
    return RelayState(request, thinks=request.thinks)


def next_turn(state: RelayState, policy: Policy) -> Turn | None:
    """Say who is asked to write what next.

    Returns:
        The turn, with at least one token to write, or `None` when the text is finished.
    """
    if state.finish:
        return None
    move = _move(state, policy)
    remaining = _remaining(state)
    return Turn(
        request=state.request,
        role=move.role,
        phase=state.phase,
        chunks=state.chunks,
        rule=move.rule,
        max_tokens=remaining if move.max_tokens is None else min(remaining, move.max_tokens),
        n_before=state.n_tokens,
        before=_before(state),
        judge=move.judge,
        step=state.on_trial if move.judge else None,
    )


def advance(state: RelayState, chunk: Chunk, policy: Policy) -> RelayState:
    """Take in what was written; whose turn is next follows from that and the policy alone.

    | phase | chunk ended by | then |
    |---|---|---|
    | reasoning | `</think>` | phase answer: the policy's `answer_by` writes |
    | reasoning | end of text, by the leader | the same, after `</think>` is added |
    | reasoning | anything, and its budget is spent | the same, after `</think>` is added |
    | reasoning | anything else | the policy's next move |
    | answer, or a model that does not think | `until`, end of text, length | done |
    """
    if chunk.ended_by == "judged":
        return _judge(state, chunk, policy)
    if chunk.ended_by == "length" and chunk.n_tokens < _remaining(state):
        chunk = replace(chunk, ended_by="bound")
    if chunk.n_tokens and _is_trial(state, policy):
        return replace(state, on_trial=chunk)
    return _follow(_append(state, chunk), chunk, policy)


def segments(chunks: tuple[Chunk, ...]) -> tuple[Segment, ...]:
    """Join chunks that one model wrote in a row, within one phase, into segments."""
    out: list[Segment] = []
    for chunk in chunks:
        last = out[-1] if out else None
        if last and _goes_on(last, chunk):
            out[-1] = _join(last, chunk)
        elif chunk.n_tokens or chunk.role is None or chunk.ended_by in _UNWRITTEN:
            out.append(_segment(chunk))
    return tuple(out)


def text_of(chunks: tuple[Chunk, ...]) -> str:
    """Everything written, special tokens shown."""
    return "".join(chunk.text for chunk in chunks)


def _move(state: RelayState, policy: Policy) -> Move:
    """The policy's next move; the opening and the answer are the same under every policy."""
    request = state.request
    if state.thinks is None:
        return Move(policy.leader, StopRule(opening=request.think_start))
    if state.phase is Phase.ANSWER:
        return Move(policy.answer_by, StopRule(literals=request.until, after_space=True))
    move = policy.move(state)
    rule = replace(
        move.rule,
        literals=(request.think_end,) if state.thinks else request.until,
        literal_reason="think_end" if state.thinks else "until",
    )
    return replace(move, rule=rule)


def _is_trial(state: RelayState, policy: Policy) -> bool:
    """Whether what was just written has to be judged."""
    shared = state.phase is Phase.REASONING and state.thinks is not None
    return shared and policy.move(state).on_trial


def _judge(state: RelayState, verdict: Chunk, policy: Policy) -> RelayState:
    """The step on trial becomes a part of the text, or all of it is given back."""
    step = state.on_trial
    assert step is not None
    state = replace(state, on_trial=None)
    if policy.keeps(verdict):
        return _follow(_append(_append(state, step), verdict), step, policy)
    n_given_back = step.timing.given_back_tokens + step.n_tokens
    timing = replace(step.timing, given_back_tokens=n_given_back, stamps_s=())
    dropped = replace(
        step, text="", token_ids=(), n_tokens=0, ended_by="dropped", matched=None, timing=timing
    )
    return _append(_append(state, dropped), verdict)


def _follow(state: RelayState, chunk: Chunk, policy: Policy) -> RelayState:
    """What follows from a chunk that has become a part of the text."""
    if state.thinks is None:
        return _decide_thinking(state, chunk)
    if state.phase is Phase.ANSWER:
        return _finish(state, chunk.ended_by)
    if chunk.ended_by == "think_end":
        return replace(state, phase=Phase.ANSWER)
    if chunk.ended_by == "until":
        return _finish(state, "until")
    if chunk.ended_by == "eos" and chunk.role is policy.leader:
        return _end_reasoning(state, "eos")
    if _remaining(state) <= 0:
        return _end_reasoning(state, "length")
    if chunk.ended_by == "eos" and _nothing_to_say(state):
        return _end_reasoning(state, "eos")
    return state


def _nothing_to_say(state: RelayState) -> bool:
    """Whether the last two turns wrote nothing, so that the next would hardly."""
    last = [chunk.n_tokens for chunk in state.chunks[-3:] if chunk.ended_by != "judged"]
    return len(last) > 1 and last[-2:] == [0, 0]


def _remaining(state: RelayState) -> int:
    """Tokens left to the present phase; a model not known to think yet may use them all."""
    request = state.request
    reasons = state.thinks and state.phase is Phase.REASONING
    return (request.reasoning_budget if reasons else request.max_tokens) - state.n_tokens


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


def _decide_thinking(state: RelayState, chunk: Chunk) -> RelayState:
    """The first words tell whether the model reasons; stop strings wait for that."""
    text = text_of(state.chunks)
    if text.lstrip().startswith(state.request.think_start):
        state = replace(state, thinks=True)
        return state if _remaining(state) > 0 else _end_reasoning(state, "length")
    state = replace(state, thinks=False)
    if any(stop in text for stop in state.request.until):
        return _finish(state, "until")
    if chunk.ended_by == "opening" and _remaining(state) > 0:
        return state
    return _finish(state, "eos" if chunk.ended_by == "eos" else "length")


def _end_reasoning(state: RelayState, why: Finish) -> RelayState:
    """Without `</think>`: a thinking model still owes an answer, any other is done."""
    if not state.thinks:
        return _finish(state, why)
    closing = state.request.closing
    n_tokens = len(closing.token_ids)
    chunk = Chunk(None, Phase.REASONING, closing.text, closing.token_ids, n_tokens, "closed")
    return replace(
        _append(state, chunk),
        phase=Phase.ANSWER,
        flags=(*state.flags, *_repeats(state, why), "reasoning_closed"),
    )


def _finish(state: RelayState, ended_by: EndedBy) -> RelayState:
    if ended_by == "until" or ended_by == "eos":
        return replace(state, finish=ended_by)
    flags = (*state.flags, *_repeats(state, "length"), "truncated")
    return replace(state, finish="length", flags=flags)


def _repeats(state: RelayState, why: Finish) -> tuple[str, ...]:
    """The flag of a phase whose budget went into saying the same again and again."""
    if why != "length" or "repeats" in state.flags:
        return ()
    written = [chunk for chunk in state.chunks if chunk.phase is state.phase]
    ids = [i for chunk in written for i in chunk.token_ids]
    known = len(ids) == sum(chunk.n_tokens for chunk in written)
    return ("repeats",) if repeats(ids if known else text_of(tuple(written))) else ()


def _goes_on(last: Segment, chunk: Chunk) -> bool:
    """Whether one model wrote on; what is not written stands alone, for it has a meaning."""
    unwritten = last.ended_by in _UNWRITTEN or chunk.ended_by in _UNWRITTEN
    return not unwritten and (last.role, last.phase) == (chunk.role, chunk.phase)


def _segment(chunk: Chunk) -> Segment:
    return Segment(
        chunk.role,
        chunk.phase,
        chunk.text,
        chunk.token_ids,
        chunk.n_tokens,
        chunk.ended_by,
        chunk.matched,
        chunk.timing,
        chunk.score,
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

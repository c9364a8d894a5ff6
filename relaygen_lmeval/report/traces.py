"""The texts that a page carries: who wrote which stretch, compact, within a budget of bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relaygen_lmeval.report.gather import Contestant, Gathered, Text

ROLES = ("large", "small", "added", "model")  # the last: of another model, nobody knows whose
_MS = 1000

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Traces:
    """What is shown of one task.

    Attributes:
        task: Of the harness.
        problems: Ready for JSON; see `traces_of`.
        n_problems: All there are; those that no room was left for are the last ones.
        words: What segments name by number.
    """

    task: str
    problems: list[Json]
    n_problems: int
    words: list[str]


def traces_of(gathered: Gathered, budget: int) -> list[Traces]:
    """The first text of every contestant on every problem, as far as there is room.

    Args:
        gathered: The texts.
        budget: Bytes of JSON, divided evenly between the tasks.

    Returns:
        A problem has its `prompt`, its `target`, and `texts`: one a contestant, `null` where it
        has none. A text is a list of: what it is worth, its flags, E2E in seconds, tokens, the
        large model's share, and segments. A segment is a list of: number of its role in `ROLES`,
        1 in the answer, its text, tokens, what ended it and the cue or stop string as numbers in
        `Traces.words`, milliseconds waited, prefilled and decoded; where tokens were drafted, these
        and the accepted ones.
    """
    tasks = gathered.tasks
    return [_of_task(task, gathered.contestants, budget // len(tasks)) for task in tasks]


def _of_task(task: str, contestants: Sequence[Contestant], budget: int) -> Traces:
    firsts = [_first_texts(one.of(task)) for one in contestants]
    names = dict.fromkeys(problem for of in firsts for problem in of)
    problems: list[Json] = []
    words: dict[str, int] = {}
    for problem in names:
        found = _problem([of.get(problem) for of in firsts], words)
        budget -= len(to_json(found).encode())
        if budget < 0:
            break
        problems.append(found)
    return Traces(task, problems, len(names), list(words))


def to_json(value: object) -> str:
    r"""JSON that may stand inside a `<script>`: no `<` in it can end that element.

    Examples:
        >>> to_json({"text": "</script>"})
        '{"text":"\\u003c/script>"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Half a surrogate pair, which a model may write byte by byte, is no UTF-8.
    return text.encode("utf-8", "replace").decode("utf-8").replace("<", "\\u003c")


def _first_texts(texts: Iterable[Text]) -> dict[str, Text]:
    """Of each problem that of the first run and repeat."""
    firsts: dict[str, Text] = {}
    for text in texts:
        kept = firsts.setdefault(text.problem, text)
        if (text.run, text.repeat) < (kept.run, kept.repeat):
            firsts[text.problem] = text
    return firsts


def _problem(texts: Sequence[Text | None], words: dict[str, int]) -> Json:
    some = next(text for text in texts if text)
    target = next((text.target for text in texts if text and text.target), "")
    return {
        "prompt": some.prompt,
        "target": target,
        "texts": [_text(text, words) if text else None for text in texts],
    }


def _text(text: Text, words: dict[str, int]) -> list[Any]:
    record = text.record
    if record is None:
        whole = [ROLES.index("model"), 1, text.answer]
        return [text.correct, [], None, None, None, [whole]]
    n = record["n_tokens"]
    share = round(record["n_large_tokens"] / n, 3) if n else 0
    segments = _segments(record, words)
    return [text.correct, record["flags"], round(record["e2e_s"], 3), n, share, segments]


def _segments(record: Mapping[str, Any], words: dict[str, int]) -> list[list[Any]]:
    """Their texts are cut out of the whole by their lengths."""
    out, start = [], 0
    for segment in record["segments"]:
        end = start + segment["n_chars"]
        said = (segment["ended_by"] or "", segment["matched"] or "")
        drafts = segment.get("drafts")
        out.append(
            [
                ROLES.index(segment["role"] or "added"),
                int(segment["phase"] == "answer"),
                record["text"][start:end],
                segment["n_tokens"],
                *(words.setdefault(word, len(words)) for word in said),
                *(round(_MS * segment[name]) for name in ("wait_s", "prefill_s", "decode_s")),
                *((drafts["drafted"], drafts["accepted"]) if drafts else ()),
            ]
        )
        start = end
    return out

"""Token ids to text, one token at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tokenizers.decoders import DecodeStream

_PRIMER = 6  # earlier tokens that decide how the next one reads: a blank, half a character
_INCOMPLETE = "\ufffd"


class Detokenizer(Protocol):
    """Gives the text that each token adds; empty while a character is incomplete."""

    def step(self, token_id: int) -> str:
        """Read one token."""


def make_detokenizer(tokenizer: Any, before: Sequence[int]) -> Detokenizer:
    """Begin after the tokens `before`.

    Args:
        tokenizer: A transformers tokenizer, fast or slow.
        before: The ids so far; only the last few are looked at.
    """
    primer = list(before[-_PRIMER:])
    if getattr(tokenizer, "is_fast", False):
        return _FastDetokenizer(tokenizer.backend_tokenizer, primer)
    return _SlowDetokenizer(tokenizer, primer)


class _FastDetokenizer:
    """The tokenizers library's own stream."""

    def __init__(self, tokenizer: Any, primer: list[int]) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(ids=primer, skip_special_tokens=False)

    def step(self, token_id: int) -> str:
        return self._stream.step(self._tokenizer, token_id) or ""


class _SlowDetokenizer:
    """Decodes a short window twice and takes the difference."""

    def __init__(self, tokenizer: Any, primer: list[int]) -> None:
        self._tokenizer = tokenizer
        self._ids = primer
        self._known = self._decode(primer)

    def step(self, token_id: int) -> str:
        self._ids.append(token_id)
        text = self._decode(self._ids)
        if text.endswith(_INCOMPLETE):
            return ""
        added = text[len(self._known) :]
        self._ids = self._ids[-_PRIMER:]
        self._known = self._decode(self._ids)
        return added

    def _decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False)
        return text

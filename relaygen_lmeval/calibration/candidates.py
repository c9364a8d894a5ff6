"""Candidates: the paper's words, a file's lines, or the openers that the traces themselves use."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from relaygen_lmeval.core.boundaries import find_boundary
from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.errors import CalibrationError

MAX_DISCOVERED = 100  # candidates beyond the most frequent only cost certainty
MAX_PHRASE_WORDS = 3  # an opener up to a comma: "On the contrary,"
MAX_UNSPACED = 12  # characters of an opener in a script without blanks

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_LETTER = rf"[^\W\d_{_UNSPACED}]"
_WORD = rf"{_LETTER}+(?:['’-]{_LETTER}+)*"
_PHRASE = re.compile(rf"((?:{_WORD}[ ]){{0,{MAX_PHRASE_WORDS - 1}}}{_WORD})([,，、])")
_FIRST_WORD = re.compile(rf"({_WORD})(?![\w{_UNSPACED}])")
_UNSPACED_OPENER = re.compile(rf"([{_UNSPACED}ー]{{1,{MAX_UNSPACED}}})([、，,])")
_CLAUSE = re.compile(r"[,;:，、；：]\s*")
_MARKUP = re.compile(r"<[^<>\s]*>")  # think marks and the like
_BLANK = re.compile(r"[\s\"'“”‘’«»「『（(*_#>-]*")


def read_candidates(path: Path) -> tuple[str, ...]:
    """Read candidates from a file: one a line, or a JSON list of texts.

    Args:
        path: UTF-8; blanks at the ends of a line belong to the candidate.

    Raises:
        CalibrationError: It cannot be read, is empty, or has an empty or repeated candidate.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "is not UTF-8"
        raise CalibrationError(f"candidate file {path} cannot be read: {why}") from error
    is_json = text.lstrip().startswith("[")
    entries = _json_list(path, text) if is_json else list[object](text.splitlines())
    cues: list[str] = []
    for number, cue in enumerate(entries, start=1):
        if not isinstance(cue, str) or not cue.strip():
            raise CalibrationError(
                f"candidate file {path}: entry {number} is {cue!r}; wanted: a text that is not "
                "empty; remove it"
            )
        if cue in cues:
            raise CalibrationError(
                f"candidate file {path}: entry {number}, {cue!r}, is there twice; remove one"
            )
        cues.append(cue)
    if not cues:
        raise CalibrationError(f"candidate file {path} is empty; wanted: one candidate a line")
    return tuple(cues)


def discover(texts: Sequence[str], *, min_occurrences: int = 10) -> tuple[str, ...]:
    """Find what sentences and clauses begin with, in any language.

    A first word, bare or with its comma; up to three words before a comma; in a script without
    blanks the text before a comma, and the same text bare where sentences begin with it. What
    stands elsewhere more often than at such a beginning, like "the", is no opener. No margin is
    looked at, so that to test what was found here stays honest.

    Args:
        texts: The reasoning of each trace.
        min_occurrences: An opener is kept from this number on, in at least two traces.

    Returns:
        At most `MAX_DISCOVERED`, the most frequent first.

    Examples:
        >>> texts = ["Somo tudo. Portanto, são 21.", "São 3 caixas. Portanto, são 9 livros."]
        >>> discover(texts, min_occurrences=2)
        ('Portanto,', 'são')
    """
    counts: Counter[str] = Counter()
    traces: dict[str, set[int]] = defaultdict(set)
    openings = [(i, opening) for i, text in enumerate(texts) for opening in _openings(text)]
    for i, opening in openings:
        for form in _forms(opening):
            counts[form] += 1
            traces[form].add(i)
    for stem in {form[:-1] for form in counts if re.match(rf"[{_UNSPACED}]", form)}:
        for i, opening in openings:
            if opening.startswith(stem) and opening[len(stem) : len(stem) + 1] not in "、，,":
                counts[stem] += 1
                traces[stem].add(i)
    often = [f for f, n in counts.items() if n >= min_occurrences and len(traces[f]) >= 2]
    everywhere = _count(often, texts)
    kept = [form for form in often if 2 * counts[form] >= everywhere[form]]
    return tuple(sorted(kept, key=lambda form: (-counts[form], form))[:MAX_DISCOVERED])


def _count(forms: Sequence[str], texts: Sequence[str]) -> Counter[str]:
    """How often each form stands anywhere, the longest counted alone."""
    table, counts = CueTable(tuple(forms)), Counter[str]()
    for text in texts:
        start = 0
        while found := table.search(text, start, final=True):
            counts[found.cue] += 1
            start = found.end
    return counts


def _json_list(path: Path, text: str) -> list[object]:
    try:
        found: list[object] = json.loads(text)
    except ValueError as error:
        raise CalibrationError(f"candidate file {path} is no JSON list: {error}") from error
    return found


def _openings(text: str) -> Iterator[str]:
    """What follows each beginning of a sentence or clause, up to the end of the sentence."""
    text = _MARKUP.sub("\n", text)
    start = 0
    while start < len(text):
        end = find_boundary(text, start, final=True) or len(text)
        sentence = text[start:end]
        for at in (0, *(found.end() for found in _CLAUSE.finditer(sentence))):
            blank = _BLANK.match(sentence, at)
            if opening := sentence[blank.end() if blank else at :]:
                yield opening
        start = end


def _forms(opening: str) -> set[str]:
    if found := _UNSPACED_OPENER.match(opening):
        return {found.group()}
    forms = {found.group()} if (found := _PHRASE.match(opening)) else set()
    if word := _FIRST_WORD.match(opening):
        comma = opening[word.end() : word.end() + 1]
        forms.add(word.group() + (comma if comma and comma in ",，、" else ""))
    return forms

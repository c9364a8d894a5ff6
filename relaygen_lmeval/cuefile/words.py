"""The words that the paper's calibration measures."""

from __future__ import annotations

# arXiv:2602.06454 (appendix): the words whose surface forms its calibration measures.
CANDIDATE_WORDS = (
    *("therefore", "thus", "so", "similarly", "also", "alternatively", "wait", "hmm", "but"),
    *("however", "hence", "another", "oh", "maybe", "other", "again", "now", "ah", "any"),
    *("specifically", "check", "double-check", "verify", "then", "next"),
)


def candidate_forms() -> tuple[str, ...]:
    """Give the surface forms of the paper's 25 candidate words.

    Each word lower case and capitalised, bare and with a comma: 100 forms. The paper counts 91
    and does not list them, so a few of these are ours.

    Examples:
        >>> candidate_forms()[:4]
        ('therefore', 'therefore,', 'Therefore', 'Therefore,')
    """
    cased = (form for word in CANDIDATE_WORDS for form in (word, word.capitalize()))
    return tuple(form for word in cased for form in (word, f"{word},"))

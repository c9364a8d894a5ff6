r"""Spells an answer as the verifier reads it: what models write, in LaTeX that math_verify knows.

Each rule is here because math_verify 0.9 misread the left side; the table of answers in the tests
has all of them. It changes how a number looks and never its value.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_SIGNS = str.maketrans(
    {
        "–": "-",
        "－": "-",
        "＋": "+",
        "＝": "=",
        "／": "/",
        "，": ",",
        "、": ",",
        "٬": ",",
        "．": ".",
        "٫": ".",
        "（": "(",
        "）": ")",
        "·": r"\cdot ",
        "∞": r"\infty ",
        "°": r"^{\circ}",
        "％": r"\%",
        "٪": r"\%",
        "€": r"\$",
        "£": r"\$",
        "¥": r"\$",
        "￥": r"\$",
        "₹": r"\$",
        "\u00a0": " ",
        "\u2009": " ",
        "\u202f": " ",
    }
)
_PERCENT = re.compile(r"\\?%")
_GROUPED = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})+")  # 1,234 is a thousand and some
_WITH_COMMA = re.compile(r"-?(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+),\d+")  # 3,14  1.234,5
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"
_RAISED = str.maketrans(_SUPERSCRIPTS, "0123456789-")

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # emphasis
        (r"^\*+([^*]+)\*+$", r"\1"),
        # thousands: 1\,000  1 000  1~000
        (r"(?<=\d)(?:\\[,;: ]|[ ~])(?=\d{3}(?!\d))", ""),
        # one and a half: 1 1/2, 1\ 1/2
        (r"^(-?\d+)\s+(\d+)\s*/\s*(\d+)$", r"\1\\frac{\2}{\3}"),
        # 1.5e3
        (r"^(-?\d+(?:\.\d+)?)[eE]([-+]?\d+)$", r"\1\\times 10^{\2}"),
        (r"√\{?(\d+|[a-z])\}?", r"\\sqrt{\1}"),
        (r"√\(([^()]*)\)", r"\\sqrt{\1}"),
        # a unit in another script: 42円, 42 рубля; Greek letters are unknowns
        (r"^([-+]?\d[\d.,]*)\s*[^\W\d_a-zA-Zα-ωΑ-Ω][^\x00-\x7f]*$", r"\1"),
        (r"\\degrees?(?![a-zA-Z])", r"^{\\circ}"),
        (r"(?:\\[,;: ]|~|\s)+(?=\\?%)", ""),
        (r"[.。]$", ""),
    )
)


def spelled(answer: str) -> str:
    r"""Spell one answer anew.

    Args:
        answer: The content of a box.

    Returns:
        LaTeX of the same value.

    Examples:
        >>> spelled("４２"), spelled("١٢٫٥"), spelled(r"1\,000"), spelled("2½"), spelled("－3²")
        ('42', '12.5', '1000', '2\\frac{1}{2}', '-3^{2}')
    """
    text = "".join(_spelled_character(c) for c in answer.strip())
    text = re.sub(f"[{_SUPERSCRIPTS}]+", lambda m: f"^{{{m[0].translate(_RAISED)}}}", text)
    text = text.translate(_SIGNS).strip()
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text).strip()
    return text


def readings(gold: str, answer: str) -> Iterator[tuple[str, str]]:
    r"""Give the pairs to compare: two answers as they stand, and as else they may be meant.

    A comma may stand before decimals, and a percent sign may be left out of either.

    Args:
        gold: The right answer, spelled.
        answer: Another, spelled.

    Examples:
        >>> list(readings("3.14", "3,14"))
        [('3.14', '3,14'), ('3.14', '3.14')]
        >>> list(readings(r"12.5\%", "12.5"))
        [('12.5\\%', '12.5'), ('12.5', '12.5')]
    """
    yield gold, answer
    if (decimal := _decimal_comma(answer)) is not None:
        yield gold, decimal
    if "%" in gold + answer:
        yield _PERCENT.sub("", gold), _PERCENT.sub("", answer)


def _decimal_comma(answer: str) -> str | None:
    """The number that `3,14` is where a comma stands before the decimals; else `None`."""
    if _GROUPED.fullmatch(answer) or not _WITH_COMMA.fullmatch(answer):
        return None
    return answer.replace(".", "").replace(",", ".")


def _spelled_character(character: str) -> str:
    """A digit of any script as 0 to 9; ½ as a fraction."""
    value = unicodedata.decimal(character, None)
    if value is not None:
        return str(value)
    if unicodedata.category(character) == "No" and "FRACTION" in unicodedata.name(character, ""):
        top, _, bottom = unicodedata.normalize("NFKC", character).partition("⁄")
        return rf"\frac{{{top}}}{{{bottom}}}"
    return character

"""A generated text that remembers what only its run can know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaygen_lmeval.scoring.reasoning import answer_part, opens_reasoning

if TYPE_CHECKING:
    from typing_extensions import Self


class Response(str):
    """A text as the harness hands it around, and whether its reasoning was finished.

    The harness passes a model's texts on as they are, so a task of ours can ask what the text
    alone does not tell; for everybody else this is a string.

    Args:
        text: What the model returned.
        unfinished: Whether its reasoning was cut, so that it cannot be right.
    """

    unfinished: bool
    __slots__ = ("unfinished",)

    def __new__(cls, text: str, unfinished: bool = False) -> Self:
        """Make it of a text."""
        made = super().__new__(cls, text)
        made.unfinished = unfinished
        return made

    def __reduce__(self) -> tuple[type[Response], tuple[str, bool]]:
        """Keep both in a cache."""
        return Response, (str(self), self.unfinished)

    @property
    def answer(self) -> str | None:
        """The part that may be scored; `None` of an unfinished reasoning."""
        return None if self.unfinished else answer_part(self)


def response_to(prompt: str, text: str, *, stripped: bool = False) -> Response:
    r"""Read any model's text for the prompt that it answers.

    Args:
        prompt: May have opened the reasoning.
        text: A `Response` says itself whether it was finished.
        stripped: Whether the model was told to leave its reasoning out, so that the text of
            such a prompt has no tag to look for.

    Examples:
        >>> response_to("Why?<think>\n", "Perhaps 3").unfinished
        True
    """
    if isinstance(text, Response):
        return text
    opened = opens_reasoning(prompt) and not stripped
    return Response(text, answer_part(text, opened=opened) is None)

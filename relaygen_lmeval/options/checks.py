"""What is said of an option whose value cannot be."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from relaygen_lmeval.errors import ConfigError


def one_of(name: str, value: object, allowed: Collection[str]) -> None:
    """Refuse a value that is none of those allowed, with the nearest of them.

    Examples:
        >>> one_of("policy", "relai", ("relay", "large"))
        Traceback (most recent call last):
        relaygen_lmeval.errors.ConfigError: policy=relai is not one of relay, large; did you mean 'relay'?
    """
    if value not in allowed:
        near = difflib.get_close_matches(str(value), list(allowed), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"{name}={value} is not one of {', '.join(allowed)}{hint}")


def at_least(name: str, value: object, least: int) -> None:
    """Refuse what is no whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name}={value} must be a whole number of at least {least}")


def without_secrets(url: str | None) -> str | None:
    """An address as it may be logged: no name, password or query.

    Examples:
        >>> without_secrets("http://me:secret@host:8000/v1?key=abc")
        'http://***@host:8000/v1'
    """
    if url is None:
        return None
    return re.sub(r"(^|//)[^/@]*@", r"\1***@", str(url).split("?")[0])

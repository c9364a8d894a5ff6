"""Tells runs apart by all that can change a text, and says in what two of them differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

# They change when and where a text is written, not the text.
_NEUTRAL = frozenset(
    {
        "log_dir",
        "resume",
        "batch_size",
        "max_batch_size",
        "num_concurrent",
        "timeout",
        "max_retries",
        "server_python",
    }
)
_SCORERS = frozenset({"math-verify"})

# A server moves to another port or machine and serves the same model, which its name tells.
PLACES = frozenset({"base_url", "small_base_url"})


def identity(header: Mapping[str, Any], *, but: Collection[str] = ()) -> str:
    """Name everything that can change a text: models, options, policy, cues and versions.

    Args:
        header: Of a journal.
        but: Options that are left out as well.

    Returns:
        Sixteen hexadecimal digits.
    """
    text = json.dumps(_parts(header, but), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(
    theirs: Mapping[str, Any], mine: Mapping[str, Any], *, but: Collection[str] = ()
) -> list[str]:
    """Say in what two headers differ that can change a text, as `name: theirs, now mine`."""
    old, new = (dict(_flat(_parts(header, but))) for header in (theirs, mine))
    names = [*old, *(name for name in new if name not in old)]
    return [
        f"{name}: {old.get(name)}, now {new.get(name)}"
        for name in names
        if old.get(name) != new.get(name)
    ]


def _parts(header: Mapping[str, Any], but: Collection[str]) -> dict[str, Any]:
    return {
        "config": _without(header.get("config", {}), {*_NEUTRAL, *but}),
        **{name: header.get(name) for name in ("policy", "cues", "handover", "models")},
        "versions": _without(header.get("versions", {}), _SCORERS),
    }


def _without(values: Any, names: Collection[str]) -> dict[str, Any]:
    if not isinstance(values, Mapping):  # a header that somebody has edited
        return {"": values}
    return {name: value for name, value in values.items() if name not in names}


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Every leaf with the path to it."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(part, Mapping) for part in value):
        for i, part in enumerate(value):
            role = part.get("role", i) if isinstance(part, Mapping) else i
            yield from _flat(part, f"{name}.{role}")
    else:
        yield name, json.dumps(value, ensure_ascii=False, default=str)

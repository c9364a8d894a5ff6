"""Tells which runs are one contestant, and what each contestant is called."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relaygen_lmeval.journal.identity import identity

_SEED = re.compile(r",?\bseed=\d+")  # in the name of a sweep's cell, which another may be named by
_LONG = 2  # differing options in a name


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Where the texts of a run come from.

    Attributes:
        stem: The sweep's cell without its seed, else the policy, else the harness's model.
        header: Of the journal, or what the results have of it.
        first: Its first request; empty of another model.
        journal: Its journal.
        date_s: When the run began, seconds since 1970.
    """

    stem: str
    header: Mapping[str, Any]
    first: Mapping[str, Any]
    journal: Path | None
    date_s: float

    @property
    def folder(self) -> Path | None:
        """Of its journal."""
        return self.journal.parent if self.journal else None

    @property
    def small_drafts(self) -> bool:
        """Whether the small model drafts for the large one."""
        return bool(self.header.get("config", {}).get("speculative") == "small")

    def key(self, *, seed: bool = True) -> str:
        """What is equal where two runs could have written the same texts.

        Args:
            seed: Whether it tells seeds apart.
        """
        asked = {name: self.first.get(name) for name in ("sampling", "max_tokens")}
        header = self.header
        if not seed:
            config = json.loads(_SEED.sub("", json.dumps(header.get("config", {}), default=str)))
            header = {**header, "config": {k: v for k, v in config.items() if k != "seed"}}
        return f"{self.stem} {identity(header)} {json.dumps(asked, sort_keys=True)}"

    def settings(self) -> dict[str, str]:
        """Its options as they may stand in a name: of a path its last part."""
        config = {**self.header.get("config", {}), **self.first.get("sampling", {})}
        options = {**config, **config.get("policy_options", {})}
        return {
            name: str(value).rsplit("/", 1)[-1]
            for name, value in options.items()
            if name not in ("seed", "log_dir", "resume", "policy_options")
        }


def names_of(sources: Sequence[Source]) -> list[str]:
    """Name the contestant of every source.

    Those that differ in their seed alone have one name. Where one stem would name several, what
    they differ in is added.
    """
    groups: dict[str, dict[str, Source]] = defaultdict(dict)
    for source in sources:
        groups[source.stem].setdefault(source.key(seed=False), source)
    names = {
        which: name
        for stem, members in groups.items()
        for which, name in zip(members, _told_apart(stem, list(members.values())), strict=True)
    }
    return [names[source.key(seed=False)] for source in sources]


def _told_apart(stem: str, members: Sequence[Source]) -> list[str]:
    if len(members) == 1:
        return [stem]
    settings = [member.settings() for member in members]
    known = dict.fromkeys(name for of in settings for name in of)
    differing = [name for name in known if len({of.get(name) for of in settings}) > 1][:_LONG]
    names: list[str] = []
    for of in settings:
        name = " ".join([stem, *(f"{option}={of.get(option)}" for option in differing)])
        again = sum(one == name or one.startswith(f"{name} (") for one in names)
        names.append(f"{name} ({again + 1})" if again else name)
    return names

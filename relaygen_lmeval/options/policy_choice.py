"""Finds the policy that `policy=` names, of the package or of the user, and makes it from options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.core.policies import POLICIES, AllCues
from relaygen_lmeval.core.policy import Policy
from relaygen_lmeval.core.types import Role
from relaygen_lmeval.cuefile import CueFile, cue_file_for
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.journal import FILE, read_journal

if TYPE_CHECKING:
    from relaygen_lmeval.options.config import RelayConfig

ENTRY_POINTS = "relaygen_lmeval.policies"

# Fields of a policy that are options of every run.
_OF_THE_RUN = frozenset({"cues", "answer_by", "min_large_tokens", "max_small_tokens"})
# Fields that a recorded run fills, and the option that names it.
_LENGTHS, _LIKE = frozenset({"large_lengths", "small_lengths"}), "like"


@lru_cache(maxsize=16)
def find_policy(name: str) -> type[Policy]:
    """The class of a policy: ours, one of an installed package, or `module:Class`.

    Raises:
        ConfigError: There is none of that name, or what is there is no policy.
    """
    if name in POLICIES:
        return POLICIES[name]
    if ":" in name:
        return _load(EntryPoint(name, name, ENTRY_POINTS))
    found = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name in found:
        return _load(found[name])
    known = [*POLICIES, *found]
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    raise ConfigError(
        f"policy={name} is not one of {', '.join(known)}{hint} Your own is named as "
        "policy=package.module:Class"
    )


def own_options(policy: type[Policy]) -> frozenset[str]:
    """Names of the options that a policy has for itself."""
    names = _fields(policy) - _OF_THE_RUN
    return names - _LENGTHS | {_LIKE} if names & _LENGTHS else names


def make_policy(config: RelayConfig, cue_file: CueFile | None) -> Policy:
    """The policy that the options name.

    Raises:
        ConfigError: A value that it refuses.
    """
    kind = find_policy(config.policy)
    of_the_run: dict[str, Any] = {
        "cues": _table(config, cue_file),
        "answer_by": Role(config.answer_by),
        "min_large_tokens": config.min_large_tokens,
        "max_small_tokens": config.max_small_tokens,
    }
    asked = _fields(kind)
    given = {name: value for name, value in of_the_run.items() if name in asked}
    own = dict(config.policy_options)
    if like := own.pop(_LIKE, None):
        own.update(_lengths(str(like)))
    try:
        return kind(**given, **own)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"policy={config.policy}: {error}") from error


def load_cues(config: RelayConfig) -> CueFile | None:
    """The cue file of the run, where the policy has a use for one."""
    kind = find_policy(config.policy)
    if "cues" not in _fields(kind):
        return None
    assert config.small is not None
    spec = "all_candidates" if issubclass(kind, AllCues) else config.cues
    return cue_file_for(spec, config.pretrained, config.small)


def _fields(policy: type[Policy]) -> frozenset[str]:
    return frozenset(field.name for field in fields(policy) if field.init)


def _load(point: EntryPoint) -> type[Policy]:
    """Import a class of the user's own."""
    module, _, name = point.value.partition(":")
    try:
        found = getattr(import_module(module), name, None)
    except ImportError as error:
        raise ConfigError(
            f"policy={point.name}: module '{module}' cannot be imported ({error}); is its package "
            "installed, or its folder on PYTHONPATH?"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Policy)):
        what = "has nothing of that name" if found is None else "names no policy"
        raise ConfigError(
            f"policy={point.name}: '{module}' {what}; '{name}' has to be a class made from "
            "relaygen_lmeval.core.policy.Policy"
        )
    return found


def _table(config: RelayConfig, cue_file: CueFile | None) -> CueTable | None:
    if cue_file is None or config.cue_match is None:
        return cue_file.table() if cue_file else None
    return CueTable(cue_file.cues, "substring" if config.cue_match == "substring" else "word")


def _lengths(like: str) -> Mapping[str, Any]:
    """How long the segments of a recorded run are, for handoffs at random."""
    path = Path(like).expanduser()
    lengths: dict[str, list[int]] = {role.value: [] for role in Role}
    for record in read_journal(path / FILE if path.is_dir() else path):
        for segment in record.get("segments", ()):
            if segment["phase"] == "reasoning" and segment["role"] and segment["n_tokens"]:
                lengths[segment["role"]].append(segment["n_tokens"])
    if not all(lengths.values()):
        raise ConfigError(
            f"{_LIKE}={like}: the run has no segments of both models to take lengths from; name "
            "the journal of a relay"
        )
    return {f"{role}_lengths": tuple(found) for role, found in lengths.items()}

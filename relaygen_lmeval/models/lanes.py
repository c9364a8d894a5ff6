"""Makes the engines of models in this process: lanes, and the pacers that step them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import torch

from relaygen_lmeval.core.types import Role
from relaygen_lmeval.engines.local import LocalEngine
from relaygen_lmeval.engines.local.choice import make_forward
from relaygen_lmeval.engines.local.drafts import Drafter, LookupDrafter, SmallDrafter
from relaygen_lmeval.engines.local.forward import Forward
from relaygen_lmeval.engines.local.lane import Lane
from relaygen_lmeval.engines.local.pacer import Pacer
from relaygen_lmeval.engines.local.speculative import SpeculativeLane
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.models.pair import Pair
from relaygen_lmeval.options.config import RelayConfig


def local_engines(
    config: RelayConfig, pair: Pair, roles: Collection[Role]
) -> dict[Role, LocalEngine]:
    """Make the engines of the roles that a policy asks.

    Raises:
        ConfigError: If this pair cannot speculate as asked.
    """
    lanes = _lanes(config, pair, roles)
    places = {role: _place(config, pair, role) for role in lanes}
    apart = len(set(places.values())) > 1
    pacers = {
        place: Pacer(apart=apart or place.n_threads is not None, n_threads=place.n_threads)
        for place in set(places.values())
    }
    return {role: LocalEngine(lane, pacers[places[role]]) for role, lane in lanes.items()}


class _Place(NamedTuple):
    """Where lanes step: those of one place one after the other, those of two at once."""

    device: str
    n_threads: int | None


def _lanes(config: RelayConfig, pair: Pair, roles: Collection[Role]) -> dict[Role, Lane]:
    """One for each role; the small model's is made for its drafts too."""
    drafted = config.speculative != "off" and Role.LARGE in roles
    if drafted:
        _check_drafts(config, pair)
    lanes = {}
    if Role.SMALL in roles or (drafted and config.speculative == "small"):
        lanes[Role.SMALL] = Lane(*_parts(config, pair, Role.SMALL))
    if drafted:
        drafter = _drafter(config, lanes)
        parts = _parts(config, pair, Role.LARGE, verifies=True)
        lanes[Role.LARGE] = SpeculativeLane(drafter, config.num_draft_tokens, *parts)
    elif Role.LARGE in roles:
        lanes[Role.LARGE] = Lane(*_parts(config, pair, Role.LARGE))
    return lanes


def _parts(
    config: RelayConfig,
    pair: Pair,
    role: Role,
    *,
    verifies: bool = False,
) -> tuple[Role, Any, Any, Forward, bool]:
    """What a lane is made of."""
    loaded = pair[role]
    forward = make_forward(
        loaded.model,
        config.n_rows,
        compile_steps=_compiles(config, loaded.device),
        verifies=verifies,
    )
    if verifies and not forward.crops:
        raise ConfigError(
            f"speculative={config.speculative} takes back what was drafted in vain, and the cache "
            f"of {type(loaded.model).__name__} cannot be cut: set speculative=off"
        )
    return role, loaded.model, loaded.tokenizer, forward, pair.shares_ids


def _drafter(config: RelayConfig, lanes: Mapping[Role, Lane]) -> Drafter:
    return SmallDrafter(lanes[Role.SMALL]) if config.speculative == "small" else LookupDrafter()


def _check_drafts(config: RelayConfig, pair: Pair) -> None:
    if config.speculative == "small" and not pair.shares_ids:
        raise ConfigError(
            f"speculative=small: '{config.small}' and '{config.pretrained}' have different "
            "tokenizers, so the one's drafts are no tokens of the other; "
            "set speculative=lookup or off"
        )


def _compiles(config: RelayConfig, device: torch.device) -> bool:
    """`auto` compiles where a step is many small launches: on a GPU."""
    return config.compile == "on" or (config.compile == "auto" and device.type == "cuda")


def _place(config: RelayConfig, pair: Pair, role: Role) -> _Place:
    """The small model drafts in the large one's step, so then it has no place of its own."""
    if config.speculative == "small" or role is Role.LARGE:
        return _Place(str(pair.large.device), config.threads)
    return _Place(str(pair[role].device), config.small_threads)

"""The cue file that a calibration makes: its cues, their statistics, and where they come from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from relaygen_lmeval import __version__
from relaygen_lmeval.calibration.selection import Decision, selected
from relaygen_lmeval.calibration.settings import Settings
from relaygen_lmeval.calibration.statistics import Measured
from relaygen_lmeval.calibration.traces import Record
from relaygen_lmeval.core.types import Role
from relaygen_lmeval.cuefile import CueFile
from relaygen_lmeval.demo import demo_path
from relaygen_lmeval.models.pair import Pair
from relaygen_lmeval.options.config import RelayConfig
from relaygen_lmeval.provenance import describe_model

_DIGITS = 6  # of a statistic in the file: more would differ between machines


def make_cue_file(
    settings: Settings,
    config: RelayConfig,
    pair: Pair,
    header: Record,
    records: Sequence[Record],
    measured: Measured,
    decisions: Mapping[str, Decision],
) -> CueFile:
    """Put together what was measured and decided.

    Args:
        settings: Of the calibration.
        config: Of the run that wrote the traces.
        pair: The models.
        header: Of the traces' journal.
        records: The traces.
        measured: The statistics of all candidates.
        decisions: On each of them.
    """
    statistics = {
        cue: {
            **{k: round(v, _DIGITS) if isinstance(v, float) else v for k, v in asdict(s).items()},
            **asdict(decisions[cue]),
        }
        for cue, s in measured.cues.items()
    }
    return CueFile(
        name=settings.output.stem,
        large=model_id(config.pretrained),
        small=model_id(str(config.small)),
        match=settings.table(()).match,
        cues=selected(decisions),
        statistics=statistics,
        source=_source(settings, config, pair, header, records, measured),
    )


def _source(
    settings: Settings,
    config: RelayConfig,
    pair: Pair,
    header: Record,
    records: Sequence[Record],
    measured: Measured,
) -> dict[str, Any]:
    """Where the cues come from; all of it follows from the traces and the options."""
    described = describe_pair(config, pair)
    models = {
        role.value: {
            "name": model_id(name),
            "sha": described[role.value].get("sha") or "",
            "dtype": described[role.value].get("dtype"),
            "tokenizer": tokenizer_hash(pair[role].tokenizer),
        }
        for role, name in ((Role.LARGE, config.pretrained), (Role.SMALL, str(config.small)))
    }
    return {
        "made_by": "relaygen calibrate",
        "version": __version__,
        "date": str(header.get("time", ""))[:10],
        "models": models,
        "task": sorted({record["task"] for record in records}),
        "n": len({(record["task"], record["doc_id"]) for record in records}),
        "repeats": 1 + max(record["repeat"] for record in records),
        "traces": measured.n_traces,
        "tokens": measured.n_tokens,
        "global_mean": round(measured.global_mean, _DIGITS),
        "sampling": records[0].get("sampling", "unknown"),
        "max_tokens": records[0]["max_tokens"],
        "seed": header.get("config", {}).get("seed"),
        "bootstrap_seed": settings.seed,
        "rule": settings.rule,
        "alpha": settings.alpha,
        "min_occurrences": settings.min_occurrences,
        "margins_by": settings.margins_by,
        "discover": settings.discover,
    }


def describe_pair(config: RelayConfig, pair: Pair) -> dict[str, dict[str, Any]]:
    """Both models by role, as a journal describes them."""
    names = {Role.LARGE: config.pretrained, Role.SMALL: str(config.small)}
    return {
        role.value: describe_model(role, pair[role].get_model_info(), names[role]) for role in Role
    }


def tokenizer_hash(tokenizer: Any) -> str:
    """A hash of all that turns text into ids."""
    content: Any = sorted(tokenizer.get_vocab().items())
    if getattr(tokenizer, "is_fast", False):
        content = json.loads(tokenizer.backend_tokenizer.to_str())
        for setting in ("padding", "truncation"):  # of the last call, not of the tokenizer
            content.pop(setting, None)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def model_id(name: str) -> str:
    """A hub name, or the name of a folder; where it lies is nobody's business."""
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return name
    folder = folder.resolve()
    return f"demo/{folder.name}" if folder.parent == demo_path().resolve() else folder.name

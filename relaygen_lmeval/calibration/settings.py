"""What `relaygen calibrate` is told, and what of it is refused before a model is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lm_eval.utils import simple_parse_args_string

from relaygen_lmeval.calibration.scoring import MARGINS_BY, MarginsBy
from relaygen_lmeval.calibration.selection import RULES, Rule
from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.errors import CalibrationError, ConfigError
from relaygen_lmeval.options.config import RelayConfig
from relaygen_lmeval.relay import parse_options


@dataclass(frozen=True)
class Settings:
    """The options of `relaygen calibrate`; see its `--help`."""

    output: Path
    model_args: str = ""
    tasks: tuple[str, ...] = ()
    limit: int | None = None
    repeats: int = 4
    batch_size: int = 8
    num_fewshot: int | None = None
    apply_chat_template: bool | None = None
    gen_kwargs: Mapping[str, Any] = field(default_factory=dict)
    log_dir: Path | None = None
    traces: Path | None = None
    margins_by: MarginsBy = "small"
    candidates: Path | None = None
    discover: bool = False
    rule: Rule = "ci"
    alpha: float = 0.05
    min_occurrences: int = 10
    seed: int = 1234
    match: str = "word"
    overwrite: bool = False
    pictures: bool = True

    def table(self, forms: Sequence[str]) -> CueTable:
        """These cues, matched as asked."""
        return CueTable(tuple(forms), "substring" if self.match == "substring" else "word")


def check(settings: Settings) -> None:
    """Refuse what cannot be meant.

    Raises:
        CalibrationError: An output that exists, or traces that do not.
        ConfigError: An option that is wrong.
    """
    output = settings.output
    if output.exists() and not settings.overwrite:
        raise CalibrationError(f"{output} exists and is kept; name another --output or --overwrite")
    if output.suffix != ".json":
        raise CalibrationError(f"--output {output} must end in .json: it is a cue file")
    if settings.traces is None and not settings.tasks:
        raise ConfigError("name the task to calibrate on with --tasks, or finished --traces")
    if settings.traces is not None and not settings.traces.is_file():
        raise CalibrationError(f"--traces {settings.traces} is no file; name a journal.jsonl")
    for name, value, known in (
        ("--rule", settings.rule, RULES),
        ("--margins-by", settings.margins_by, MARGINS_BY),
        ("--match", settings.match, ("word", "substring")),
    ):
        if value not in known:
            raise ConfigError(f"{name} {value} is not one of {', '.join(known)}")
    if not 0 < settings.alpha < 1:
        raise ConfigError(f"--alpha {settings.alpha} must lie between 0 and 1")
    for name, number in (("--limit", settings.limit), ("--repeats", settings.repeats)):
        if number is not None and number < 1:
            raise ConfigError(f"{name} {number} must be at least 1: there would be no traces")


def relay_config(settings: Settings) -> RelayConfig:
    """The large model alone, as its traces are written; the rest is for what comes after them."""
    options = {"seed": settings.seed, **simple_parse_args_string(settings.model_args)}
    options.pop("policy", None)  # the traces are the large model's, whatever a run would be
    config = parse_options({**options, "policy": "relay", "batch_size": settings.batch_size})
    log_dir = config.log_dir or str(
        settings.log_dir or Path("relaygen_logs") / "calibrate" / settings.output.stem
    )
    if config.engine == "vllm":
        raise ConfigError(
            "a calibration asks its servers after the traces, too: start them with `relaygen serve` "
            "and give engine=server with their URLs"
        )
    return replace(config, policy="large", log_dir=log_dir)


def relay_options(config: RelayConfig) -> dict[str, Any]:
    """The options that make this configuration again."""
    options = {k: v for k, v in asdict(config).items() if not k.endswith("_options")}
    small = {f"small_{k}": v for k, v in config.small_options.items()}
    return {**{k: v for k, v in options.items() if v is not None}, **config.large_options, **small}

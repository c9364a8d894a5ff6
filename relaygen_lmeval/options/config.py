"""The options of a run, checked before anything heavy is loaded."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relaygen_lmeval.core.types import Role
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.journal import files
from relaygen_lmeval.options.checks import at_least, one_of
from relaygen_lmeval.options.policy_choice import find_policy, own_options
from relaygen_lmeval.options.server_options import check_servers, n_concurrent

MATCH_RULES = ("word", "substring")

# Options that name a thing of one model: without the prefix they mean the large one alone.
_OF_ONE_MODEL = frozenset({"revision", "subfolder", "tokenizer", "peft", "delta", "gguf_file"})
_SMALL = "small_"


@dataclass(frozen=True)
class RelayConfig:
    """A run's options, as in `--model_args`.

    Attributes:
        pretrained: The large model: a folder or a hub name. Neither model given: the
            embedded pair.
        small: The small model.
        policy: Who writes what: a name of `core.policies`, or `module:Class`.
        policy_options: The options that the policy has for itself.
        cues: `auto` (the pair's file), the name of a shipped file, a path, or
            `all_candidates`.
        cue_match: `word` or `substring`; default: as the cue file says.
        answer_by: Who writes the answer after the reasoning: `small` or `large`.
        min_large_tokens: Tokens of the large model before a cue is followed.
        max_small_tokens: Bound of a small segment whose sentence does not end.
        max_gen_toks: Bound of generated tokens where the task sets none; default: 32,768
            for a model that thinks, else the harness's 256.
        max_answer_toks: Part of it kept for the answer of a model that thinks; default:
            a quarter, at most 1,024.
        seed: Base of the seeds of sampled requests.
        think_end_token: Ends the reasoning, a string or a token id; default: found out.
        batch_size: Requests under way at once, or `auto`.
        max_batch_size: What `auto` may take at most.
        speculative: `small`: in segments of the large model the small one drafts and the large
            one verifies; `lookup`: the text so far drafts; `off`. Greedy texts stay the same,
            sampled ones keep their distribution.
        num_draft_tokens: Tokens drafted at once, at most.
        compile: `on` compiles the short reads of both models with torch.compile: two to three
            times as fast for small models on a CPU, after half a minute or more of warm-up the
            first time (the result is kept on disk). `auto`, the default, does so on a GPU.
        threads: CPU threads of the large model. Where they differ from the small one's, or
            either is set alone, the two models step at once, each on threads of its own.
        small_threads: CPU threads of the small model.
        log_dir: Folder of the journal; default: a new one below `relaygen_logs/`.
        resume: `auto`: what the journal in `log_dir` holds is not done again, if there is one.
            A folder: that of a run that was ended, which goes on there.
        engine: `local` runs the models in this process, `server` asks servers that are
            running, `vllm` starts two vLLM servers for this run.
        base_url: The large model's server, for `engine=server`.
        small_base_url: The small model's.
        num_concurrent: Requests under way at once over servers; default: `batch_size`, or 16
            where that is 1.
        timeout: Longest silence of a server, seconds.
        max_retries: How often a failed request is sent again where that may help.
        abilities: What the large model's server can, against what probing finds.
        small_abilities: The same for the small model's.
        cut: Who cuts a turn: `server` by stop strings, `stream` we alone, or `auto`.
        server_args: More arguments for a server that is started, apart by blanks.
        small_server_args: The same for the small model's.
        server_python: The Python that has the server's package; default: this one.
        large_options: What the large model is loaded with, as `--model hf` names it.
        small_options: The same for the small one.
    """

    pretrained: str
    small: str | None
    policy: str = "relay"
    cues: str = "auto"
    cue_match: str | None = None
    answer_by: str = "small"
    min_large_tokens: int = 5
    max_small_tokens: int = 128
    max_gen_toks: int | None = None
    max_answer_toks: int | None = None
    seed: int = 1234
    think_end_token: str | int | None = None
    batch_size: int | str = 1
    max_batch_size: int = 64
    speculative: str = "off"
    num_draft_tokens: int = 5
    compile: str = "auto"
    threads: int | None = None
    small_threads: int | None = None
    log_dir: str | None = None
    resume: str | None = None
    engine: str = "local"
    base_url: str | None = None
    small_base_url: str | None = None
    num_concurrent: int | None = None
    timeout: float = 600
    max_retries: int = 6
    abilities: str | None = None
    small_abilities: str | None = None
    cut: str = "auto"
    server_args: str = ""
    small_server_args: str = ""
    server_python: str | None = None
    large_options: Mapping[str, Any] = field(default_factory=dict)
    small_options: Mapping[str, Any] = field(default_factory=dict)
    policy_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Requests under way at once."""
        if self.engine != "local":
            return self.num_concurrent or n_concurrent(self.batch_size)
        if isinstance(self.batch_size, int):
            return self.batch_size
        return min(16, self.max_batch_size)


_OPTIONS = frozenset(
    name for name in RelayConfig.__dataclass_fields__ if not name.endswith("_options")
)


def parse_config(
    options: Mapping[str, Any], model_options: Collection[str], embedded: Path
) -> RelayConfig:
    """Check and sort the options of a run.

    Args:
        options: As given, values already read as numbers and booleans.
        model_options: Names that the loader of one model understands.
        embedded: Folder of the embedded pair, taken where no model is named.

    Raises:
        ConfigError: An unknown name, a wrong value, a model that is not there.
    """
    given = _without_alias(dict(options))
    own = {name: given.pop(name) for name in list(given) if name in _OPTIONS}
    of_policy = own_options(find_policy(str(own.get("policy", "relay"))))
    policy_options = {name: given.pop(name) for name in list(given) if name in of_policy}
    large_options, small_options = _split(given, frozenset(model_options), of_policy)
    pretrained, small = _models(own, embedded)
    own.update(pretrained=pretrained, small=small)
    own.update(log_dir=_log_dir(own))
    config = RelayConfig(
        **own,
        large_options=large_options,
        small_options=small_options,
        policy_options=policy_options,
    )
    _check(config)
    return config


def _without_alias(given: dict[str, Any]) -> dict[str, Any]:
    if "large" in given:
        if "pretrained" in given:
            raise ConfigError("'large' and 'pretrained' name the same model: give one of them")
        given["pretrained"] = given.pop("large")
    return given


def _split(
    given: dict[str, Any], known: frozenset[str], of_policy: frozenset[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the large and of the small model."""
    large: dict[str, Any] = {}
    small: dict[str, Any] = {}
    alone: dict[str, Any] = {}
    for name, value in given.items():
        if name in known:
            large[name] = value
            if name not in _OF_ONE_MODEL:
                small[name] = value
        elif name.startswith(_SMALL) and name.removeprefix(_SMALL) in known:
            alone[name.removeprefix(_SMALL)] = value
        else:
            raise ConfigError(unknown_option(name, known | of_policy))
    return large, {**small, **alone}


def unknown_option(name: str, known: Collection[str]) -> str:
    """What to say of an option that nobody knows."""
    every = sorted({*_OPTIONS, "large", *known, *(f"{_SMALL}{other}" for other in known)})
    near = difflib.get_close_matches(name, every, n=1, cutoff=0.6)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return (
        f"unknown option '{name}' in --model_args; {hint}The relay's own: "
        f"{', '.join(sorted({*_OPTIONS, 'large'}))}; and every option of --model hf, "
        "with 'small_' before it for the small model alone"
    )


def _models(own: Mapping[str, Any], embedded: Path) -> tuple[str, str | None]:
    pretrained, small = own.get("pretrained"), own.get("small")
    if pretrained is None and small is None:
        return str(embedded / "large"), str(embedded / "small")
    if pretrained is None:
        raise ConfigError(f"small={small} is given without pretrained=: name the large model too")
    if small is None and own.get("policy", "relay") != "large":
        raise ConfigError(
            f"pretrained={pretrained} is given without small=: name the small model of the pair, "
            "or set policy=large"
        )
    for name in filter(None, (pretrained, small)):
        if own.get("engine") != "server":  # a server may lie on another machine
            _check_model(str(name))
    return str(pretrained), None if small is None else str(small)


def _log_dir(own: Mapping[str, Any]) -> str | None:
    """The folder of the journal; a run that goes on does so where it began."""
    log_dir: str | None = own.get("log_dir")
    resume = own.get("resume")
    if resume is None:
        return log_dir
    if not isinstance(resume, str):
        raise ConfigError(f"resume={resume} must be auto, or the log folder of an earlier run")
    if resume == "auto":
        if log_dir is None:
            raise ConfigError("resume=auto needs log_dir=: the folder to look for a journal in")
        return log_dir
    if log_dir is not None and Path(log_dir) != Path(resume):
        raise ConfigError(
            f"resume={resume} goes on in that folder, but log_dir={log_dir} is another: leave out "
            "log_dir="
        )
    if not files(Path(resume).expanduser()):
        raise ConfigError(
            f"resume={resume} holds no journal of an earlier run; name its log_dir, or begin with "
            "log_dir=FOLDER,resume=auto"
        )
    return resume


def _check_model(name: str) -> None:
    """A name that can only be a path must exist; a hub name is `owner/name` at most."""
    looks_local = name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name
    if looks_local and not Path(name).expanduser().is_dir():
        raise ConfigError(f"model folder '{name}' does not exist; give a folder or a hub name")


def _check(config: RelayConfig) -> None:
    one_of("answer_by", config.answer_by, [role.value for role in Role])
    one_of("compile", config.compile, ("auto", "on", "off"))
    one_of("speculative", config.speculative, ("off", "small", "lookup"))
    _check_speculation(config)
    if config.cue_match is not None:
        one_of("cue_match", config.cue_match, MATCH_RULES)
    for name, least in (
        ("min_large_tokens", 0),
        ("max_small_tokens", 1),
        ("max_batch_size", 1),
        ("num_draft_tokens", 1),
        ("seed", 0),
    ):
        at_least(name, getattr(config, name), least)
    for name in ("max_gen_toks", "max_answer_toks", "threads", "small_threads"):
        if getattr(config, name) is not None:
            at_least(name, getattr(config, name), 1)
    if not (isinstance(config.batch_size, str) and config.batch_size.startswith("auto")):
        at_least("batch_size", config.batch_size, 1)
    check_budget(config.max_gen_toks, config.max_answer_toks)
    check_servers(config)


def _check_speculation(config: RelayConfig) -> None:
    if config.speculative == "off":
        return
    if config.policy == "small":
        raise ConfigError(
            f"speculative={config.speculative} drafts for the large model, which policy=small "
            "never asks: set speculative=off"
        )
    if config.speculative == "small" and config.small is None:
        raise ConfigError("speculative=small needs a model that drafts: name small= too")
    if config.speculative == "small" and config.small_threads is not None:
        raise ConfigError(
            f"small_threads={config.small_threads} goes not with speculative=small, where the small "
            "model drafts within the large one's steps: leave it out; threads= is for both"
        )


def check_budget(max_gen_toks: int | None, max_answer_toks: int | None) -> None:
    """Refuse an answer that leaves no room for the reasoning."""
    if max_gen_toks is not None and max_answer_toks is not None and max_answer_toks >= max_gen_toks:
        raise ConfigError(
            f"max_answer_toks={max_answer_toks} leaves nothing of max_gen_toks={max_gen_toks} for "
            "the reasoning: lower the first or raise the second"
        )

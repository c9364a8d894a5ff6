"""The adapter: `lm_eval --model relaygen`. It translates, and decides nothing."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

# Imported for its effect: lm_eval adds its own models only while none is registered.
import lm_eval.models  # noqa: F401
from lm_eval.api.instance import Instance
from lm_eval.api.registry import register_model
from lm_eval.models.utils import normalize_gen_kwargs

from relaygen_lmeval.core.types import RelayRequest, Role, SamplingParams
from relaygen_lmeval.errors import ConfigError, FailedRequests
from relaygen_lmeval.harness.cache import check_sampling, separate
from relaygen_lmeval.harness.excepthook import say_errors_in_one_line
from relaygen_lmeval.harness.instances import (
    budget,
    drop_padding,
    labels_of,
    sampling,
    scored_text,
    until,
)
from relaygen_lmeval.harness.processes import join_processes, share
from relaygen_lmeval.harness.results_table import show_rows
from relaygen_lmeval.harness.seeded import SeededLM
from relaygen_lmeval.journal import Label, check_writable
from relaygen_lmeval.journal.identity import identity
from relaygen_lmeval.models.pair import n_parameters
from relaygen_lmeval.options.config import RelayConfig
from relaygen_lmeval.provenance import describe_config, describe_cues, describe_model, versions
from relaygen_lmeval.relay import Relay, parse_options
from relaygen_lmeval.run import Run
from relaygen_lmeval.scoring.response import Response
from relaygen_lmeval.sweep.plan import folder_name

log = logging.getLogger(__name__)


@register_model("relaygen")
class RelayLM(SeededLM):
    """A relaying pair as one model of the harness.

    Args:
        **options: `--model_args`; see `RelayConfig`.

    Raises:
        ConfigError: An option that is unknown or wrong, before any weights are read.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        say_errors_in_one_line()
        show_rows()
        if isinstance(size := options.get("batch_size"), str) and size.isdigit():
            options["batch_size"] = int(size)
        options.setdefault("batch_size", 1)
        config = parse_options(options)
        _warn_of_keys(options)
        folder = log_dir(config)
        check_writable(folder)
        join_processes(config)
        self.relay = Relay.from_config(config)
        self._large = self.relay.pair.large
        share(self._large, config)
        self._small_prompts: dict[str, str] = {}
        self._padded: Sequence[Instance] = ()
        self._header = self._describe()
        self.run = Run(
            self.relay,
            folder,
            self._header,
            rank=self.rank if self.world_size > 1 else None,
            barrier=self.barrier,
        )

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Relay every request; texts come back in their order, ready to be scored."""
        if not requests:
            return []
        labels = labels_of(requests)
        self._padded = requests[-1:] if self.world_size > 1 else []

        def on_record(i: int, record: Mapping[str, Any]) -> None:
            self.cache_hook.add_partial("generate_until", requests[i].args, _text(record))

        try:
            records = self.run.relay(
                self.requests_of(requests, labels),
                labels,
                on_record,
                quiet=disable_tqdm or self.rank != 0,
            )
        except FailedRequests:
            self.barrier()  # a launcher ends all processes with the first
            raise
        if self.world_size == 1:  # else `merge_records` does, when all are done
            self.run.print_totals(self._title())
        return [_text(record) for record in records]

    def requests_of(
        self, instances: Sequence[Instance], labels: Sequence[Label]
    ) -> list[RelayRequest]:
        """The harness's requests as a relay's, numbered by their place.

        Raises:
            ConfigError: Settings that cannot be followed; names task and document.
        """
        return [self._request(i, r, labels[i]) for i, r in enumerate(instances)]

    def close(self) -> None:
        """Stop the engines and close the journal."""
        self.relay.close()
        self.run.journal.close()

    def loglikelihood(self, requests: list[Instance], **kwargs: Any) -> list[tuple[float, bool]]:
        """The large model's own, through the harness's `hf`."""
        answers: list[tuple[float, bool]] = self._large.loglikelihood(requests, **kwargs)
        return answers

    def loglikelihood_rolling(self, requests: list[Instance], **kwargs: Any) -> list[float]:
        """The large model's own, through the harness's `hf`."""
        answers: list[float] = self._large.loglikelihood_rolling(requests, **kwargs)
        return answers

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """As the large model's template says; the small model's is kept beside it."""
        prompt = str(self._large.apply_chat_template(chat_history, add_generation_prompt))
        small = self.relay.pair.small
        if small is not None and not self.relay.pair.shares_ids and small.tokenizer.chat_template:
            self._small_prompts[prompt] = str(
                small.apply_chat_template(chat_history, add_generation_prompt)
            )
        return prompt

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """The large model's."""
        template: str | None = self._large.chat_template(chat_template)
        return template

    @property
    def tokenizer_name(self) -> str:
        """The large model's."""
        return str(self._large.tokenizer_name)

    @property
    def device(self) -> Any:
        """The large model's."""
        return self._large.device

    @property
    def rank(self) -> int:
        """This process of a run over many."""
        return int(self._large.rank)

    @property
    def world_size(self) -> int:
        """How many processes share the run."""
        return int(self._large.world_size)

    @property
    def accelerator(self) -> Any:
        """What joins the processes."""
        return self._large.accelerator

    def all_gather(self, tensor: Any) -> Any:
        """As `hf` does."""
        return self._large.all_gather(tensor)

    def gather_object(self, obj: Any, dst: int = 0) -> Any:
        """As `hf` does."""
        return self._large.gather_object(obj, dst)

    def barrier(self) -> None:
        """As `hf` does; the harness has taken the answers by then."""
        drop_padding(self._padded)
        self._large.barrier()

    def set_cache_hook(self, cache_hook: Any) -> None:
        """Keep this run's texts apart in the cache; the large model caches log-likelihoods."""
        separate(cache_hook, identity(self._header))
        super().set_cache_hook(cache_hook)
        self._large.set_cache_hook(cache_hook)

    def get_model_info(self) -> dict[str, Any]:
        """For `results.json`: the large model's entries as `hf` has them, the pair, the totals."""
        return {
            **self._large.get_model_info(),
            "relay": {**self._header, **self.run.describe()},
        }

    @property
    def relay_records(self) -> Sequence[Mapping[str, Any]]:
        """What stands in the journal of all that was asked so far, without what is long."""
        return self.run.records

    def merge_records(self) -> None:
        """Gather the new records of all processes on the first, in whose totals they count."""
        if self.world_size == 1:
            return
        everyones = self.gather_object(self.run.unmerged(), dst=0)
        if everyones is not None:
            self.run.merge(list(itertools.chain.from_iterable(everyones)))
            self.run.print_totals(self._title())

    def _request(self, seq_id: int, instance: Instance, label: Label) -> RelayRequest:
        context, gen_kwargs = instance.args
        try:
            return self.relay.requests.make(
                seq_id,
                context,
                small_prompt=self._small_prompts.get(context),
                max_tokens=budget(gen_kwargs),
                until=until(gen_kwargs, self._eos_text()),
                sampling=self._sampling(gen_kwargs, label),
            )
        except ConfigError as error:
            raise ConfigError(f"task '{label.task}', document {label.doc_id}: {error}") from error

    def _sampling(self, gen_kwargs: Mapping[str, Any], label: Label) -> SamplingParams:
        check_sampling(self.cache_hook, gen_kwargs, normalize_gen_kwargs(dict(gen_kwargs)))
        defaults = self.relay.requests.defaults()
        return sampling(gen_kwargs, label, defaults, self.relay.config.seed)

    def _eos_text(self) -> str:
        return str(self._large.tok_decode([self._large.eot_token_id], skip_special_tokens=False))

    def _describe(self) -> dict[str, Any]:
        relay = self.relay
        names = {Role.LARGE: relay.config.pretrained, Role.SMALL: relay.config.small}
        asked = [Role.LARGE] if relay.pair.small is None else list(Role)
        roles = [role for role in asked if names[role] is not None]
        return {
            "config": describe_config(relay.config),
            "policy": relay.policy.name,
            "cues": describe_cues(relay.cue_file),
            "handover": "token_ids" if relay.pair.shares_ids else "text",
            "models": [
                {
                    **describe_model(role, relay.pair[role].get_model_info(), str(names[role])),
                    "num_parameters": n_parameters(relay.pair[role]),
                }
                for role in roles
            ],
            "versions": versions(),
        }

    def _title(self) -> str:
        return f"relaygen, policy {self.relay.policy.name}: {self.run.journal.path}"


def log_dir(config: RelayConfig) -> Path:
    """The folder of the journal: as asked, or a new one named after time and pair."""
    if config.log_dir is not None:
        return Path(config.log_dir).expanduser()
    names = [Path(name).name for name in (config.pretrained, config.small) if name]
    time = datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    return Path("relaygen_logs") / folder_name(f"{time}-{'__'.join(names)}-{config.policy}")


def _warn_of_keys(options: Mapping[str, Any]) -> None:
    if names := sorted({"token", "small_token"} & options.keys()):
        log.warning(
            "lm_eval itself writes %s=, as all of --model_args, into its log and results.json: "
            "set HF_TOKEN in the environment instead",
            "= and ".join(names),
        )


def _text(record: Mapping[str, Any]) -> Response:
    return scored_text(record["answer"], record["until"], record["flags"])

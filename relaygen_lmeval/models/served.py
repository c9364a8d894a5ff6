"""A model that a server holds: tokenizer, template and lengths are here, its weights are not."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from lm_eval.models.openai_completions import LocalCompletionsAPI

from relaygen_lmeval.core.types import Role
from relaygen_lmeval.engines.launch import ServerProcess
from relaygen_lmeval.engines.local.lane import eos_ids
from relaygen_lmeval.engines.server.abilities import PATH, Served, find_served
from relaygen_lmeval.engines.server.client import Client
from relaygen_lmeval.engines.server.engine import ServerEngine
from relaygen_lmeval.engines.server.margins import prompt_margins
from relaygen_lmeval.engines.server.pace import token_s
from relaygen_lmeval.errors import ConfigError, EngineError
from relaygen_lmeval.models.elsewhere import Elsewhere
from relaygen_lmeval.models.pair import Pair, join
from relaygen_lmeval.models.serve import start_servers
from relaygen_lmeval.options.config import RelayConfig
from relaygen_lmeval.runner import run_here

log = logging.getLogger(__name__)

_PROBE = "Once upon a time there was a"


class ServedModel(HFLM):  # type: ignore[misc,unused-ignore]
    """The harness's `hf` without its weights, so that prompts are made exactly as for it.

    Args:
        name: As the server knows it, or a folder.
        client: The server.
        options: Those of `hf` that concern tokenizers and templates.
        process: The server's process, where it was started for this run.
    """

    def __init__(
        self,
        name: str,
        client: Client,
        options: Mapping[str, Any],
        *,
        process: ServerProcess | None = None,
    ) -> None:
        mine = {k: v for k, v in options.items() if k not in ("device", "dtype")}
        self.source = str(mine.pop("tokenizer", None) or name)
        try:
            super().__init__(pretrained=self.source, device="cpu", **mine)
        except (OSError, ValueError, TypeError) as error:
            first = str(error).strip().splitlines()[0]
            raise ConfigError(
                f"model '{name}': no tokenizer and configuration can be read ({first}); name their "
                "folder or hub name with tokenizer= (small_tokenizer= for the small model)"
            ) from error
        self.name = name
        self.client = client
        self.process = process
        self.served: Served | None = None
        self._completions: Any = None

    @property
    def model(self) -> Any:
        """What stands for the weights; nothing is wrapped around it in a run of many processes."""
        return self._model

    async def connect(self, said: str | None) -> None:
        """Find out what the server can; its longest text is then ours, too."""
        ids = self.tok_encode(_PROBE)
        self.served = await find_served(self.client, self.name, ids, _PROBE, said)
        length = self.served.max_length
        if length is not None and length < self.max_length:
            self._max_length = length

    def margins(self, rows: Sequence[Sequence[int]], n_context: Sequence[int]) -> list[list[float]]:
        """How sure the model is of texts that are written; see `prompt_margins`."""
        assert self.served is not None
        return run_here(prompt_margins(self.client, self.served, rows, n_context))

    def token_s(self) -> float:
        """Time of one token for a request alone, seconds; see `engines.server.pace`."""
        assert self.served is not None
        by_ids = self.served.abilities.prompt_ids
        prompt = self.tok_encode(_PROBE) if by_ids else _PROBE
        return run_here(token_s(self.client, self.served, prompt))

    def loglikelihood(self, requests: list[Instance], **kwargs: Any) -> list[tuple[float, bool]]:
        """The server's, as the harness's `local-completions` asks for them."""
        answers: list[tuple[float, bool]] = self.completions.loglikelihood(requests, **kwargs)
        return answers

    def loglikelihood_rolling(self, requests: list[Instance], **kwargs: Any) -> list[float]:
        """The server's, as the harness's `local-completions` asks for them."""
        answers: list[float] = self.completions.loglikelihood_rolling(requests, **kwargs)
        return answers

    def set_cache_hook(self, cache_hook: Any) -> None:
        """Log-likelihoods are cached where they are asked for."""
        super().set_cache_hook(cache_hook)
        if self._completions is not None:
            self._completions.set_cache_hook(cache_hook)

    @property
    def completions(self) -> Any:
        """The harness's own client of this server, made when it is first needed.

        Raises:
            EngineError: The server gives no log-probabilities of a prompt.
        """
        if self._completions is None:
            self._completions = self._make_completions()
            self._completions.set_cache_hook(self.cache_hook)
        return self._completions

    def _make_completions(self) -> Any:
        assert self.served is not None
        if not self.served.abilities.echo:
            raise EngineError(
                f"server {self.client.url} gives no log-probabilities of a prompt (echo=true with "
                "logprobs), which tasks with loglikelihood need; vLLM does"
            )
        return LocalCompletionsAPI(
            base_url=self.client.url + PATH,
            model=self.served.name,
            tokenizer=self.source,
            tokenizer_backend="huggingface",
            tokenized_requests=self.served.abilities.prompt_ids,
            add_bos_token=bool(self.add_bos_token),
            max_length=self.max_length,
            num_concurrent=self.client.n_connections,
            timeout=int(self.client.timeout_s),
        )

    def _create_model(self, pretrained: str, **options: Any) -> None:
        self._model = Elsewhere(pretrained, self.config, options)


def load_served_pair(config: RelayConfig) -> Pair:
    """Reach both models' servers, or start them; with `policy=large` the large one may do.

    Raises:
        ConfigError: A tokenizer that is not there.
        ServerError: A server that is not there, or cannot serve a relay.
    """
    names = {Role.LARGE: config.pretrained, Role.SMALL: config.small}
    if config.policy == "large" and not config.small_base_url:
        names[Role.SMALL] = None
    processes = _launch(config, names) if config.engine == "vllm" else {}
    try:
        models = {
            role: _model(role, name, config, processes.get(role))
            for role, name in names.items()
            if name
        }
        run_here(_connect(models, config))
    except BaseException:
        for process in processes.values():
            process.stop()
        raise
    return join(models[Role.LARGE], models.get(Role.SMALL))


def server_engines(
    config: RelayConfig, pair: Pair, roles: Collection[Role]
) -> dict[Role, ServerEngine]:
    """The engines of models whose servers have been reached."""
    return {
        role: make_server_engine(role, pair[role], shares_ids=pair.shares_ids, cut=config.cut)
        for role in roles
    }


def make_server_engine(role: Role, model: Any, *, shares_ids: bool, cut: str) -> ServerEngine:
    """The engine of a model whose server has been reached."""
    assert isinstance(model, ServedModel)
    assert model.served is not None
    return ServerEngine(
        role,
        model.client,
        model.served,
        model.tokenizer,
        eos=eos_ids(model.model, model.tokenizer),
        shares_ids=shares_ids,
        cut=cut,
        on_close=model.process.stop if model.process else lambda: None,
    )


def _model(
    role: Role, name: str, config: RelayConfig, process: ServerProcess | None
) -> ServedModel:
    own_url = config.base_url if role is Role.LARGE else config.small_base_url
    url = process.url if process else own_url
    client = Client(
        str(url),
        timeout_s=float(config.timeout),
        max_retries=config.max_retries,
        n_connections=config.n_rows,
    )
    options = config.large_options if role is Role.LARGE else config.small_options
    return ServedModel(name, client, options, process=process)


async def _connect(models: Mapping[Role, ServedModel], config: RelayConfig) -> None:
    said = {Role.LARGE: config.abilities, Role.SMALL: config.small_abilities}
    await asyncio.gather(*(model.connect(said[role]) for role, model in models.items()))


def _launch(config: RelayConfig, names: Mapping[Role, str | None]) -> dict[Role, ServerProcess]:
    wanted = {
        Role.LARGE: f"{config.server_args}",
        Role.SMALL: f"{config.server_args} {config.small_server_args}",
    }
    return start_servers(
        {role: (name, shlex.split(wanted[role])) for role, name in names.items() if name},
        "vllm",
        python=config.server_python,
    )

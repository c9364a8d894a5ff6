"""The options of a run over servers, and which of the others go with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.options.checks import at_least, one_of

if TYPE_CHECKING:
    from relaygen_lmeval.options.config import RelayConfig

ENGINES = ("local", "server", "vllm")
CUTS = ("auto", "server", "stream")
_N_CONCURRENT = 16

# Of the harness's `hf` what concerns tokenizers, templates and lengths: the rest loads weights.
_OF_TOKENIZERS = frozenset(
    {
        "add_bos_token",
        "cache_dir",
        "chat_template_args",
        "enable_thinking",
        "force_download",
        "gguf_file",
        "local_files_only",
        "max_length",
        "prefix_token_id",
        "revision",
        "subfolder",
        "token",
        "tokenizer",
        "truncation",
        "trust_remote_code",
        "use_fast_tokenizer",
    }
)
_DEVICES = frozenset({"device", "dtype"})  # the command line's own defaults


def n_concurrent(batch_size: int | str) -> int:
    """Requests at once where nothing says how many: the harness's 1 would waste a server."""
    asked = batch_size if isinstance(batch_size, int) else _N_CONCURRENT
    return asked if asked > 1 else _N_CONCURRENT


def check_servers(config: RelayConfig) -> None:
    """Refuse options of servers that are wrong, or that do not go together.

    Raises:
        ConfigError: Which, and what to do.
    """
    one_of("engine", config.engine, ENGINES)
    one_of("cut", config.cut, CUTS)
    at_least("max_retries", config.max_retries, 0)
    if config.num_concurrent is not None:
        at_least("num_concurrent", config.num_concurrent, 1)
    if not isinstance(config.timeout, int | float) or config.timeout <= 0:
        raise ConfigError(f"timeout={config.timeout} must be a number of seconds above 0")
    _check_urls(config)
    if config.engine == "local":
        return
    if config.compile == "on":
        raise ConfigError(
            f"compile=on is for engine=local; with engine={config.engine} the server compiles"
        )
    _check_local_options(config)
    _check_loader_options(config)


def _check_local_options(config: RelayConfig) -> None:
    """Options of the lanes in this process."""
    if config.speculative != "off":
        raise ConfigError(
            f"speculative={config.speculative} is for engine=local; a server speculates itself: "
            "start it with its own options (server_args=)"
        )
    if config.threads is not None or config.small_threads is not None:
        raise ConfigError(
            f"threads and small_threads are for engine=local; with engine={config.engine} give "
            "them to the server"
        )


def _check_urls(config: RelayConfig) -> None:
    urls = {"base_url": config.base_url, "small_base_url": config.small_base_url}
    if config.engine != "server":
        given = [name for name, url in urls.items() if url]
        if given:
            raise ConfigError(
                f"{given[0]} is for engine=server, but engine={config.engine}: add engine=server "
                "or leave it out"
            )
        return
    needed = ["base_url"] if config.policy == "large" else list(urls)
    for name in needed:
        if not urls[name]:
            raise ConfigError(
                f"engine=server needs {name}=http://HOST:PORT, the server of the "
                f"{'large' if name == 'base_url' else 'small'} model; `relaygen serve` starts a pair"
            )


def _check_loader_options(config: RelayConfig) -> None:
    for options in (config.large_options, config.small_options):
        for name, value in options.items():
            if name not in _OF_TOKENIZERS | _DEVICES and value is not None:
                raise ConfigError(
                    f"{name}={value} loads weights in this process: with engine={config.engine} "
                    "give it to the server (server_args= with engine=vllm)"
                )

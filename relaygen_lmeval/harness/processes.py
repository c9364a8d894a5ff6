"""The processes that share a run, as a launcher started them: `accelerate launch`, `torchrun`, MPI.

The harness's `hf` joins them where there are several GPUs, and nowhere else.
"""

from __future__ import annotations

import logging
import os
from datetime import timedelta
from typing import Any

from accelerate import PartialState
from accelerate.utils import is_cuda_available

from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.options.config import RelayConfig

log = logging.getLogger(__name__)

# One process may be done hours before another; torch would give up after half an hour.
_PATIENCE = timedelta(weeks=52)


def join_processes(config: RelayConfig) -> None:
    """Let this process hear of the others: over gloo without a GPU, and where servers have them.

    Call it before a model is loaded, which would decide otherwise.

    Raises:
        ConfigError: Each of them would start servers of its own.
    """
    if _splits_layers(config):
        return
    if _is_one_of_many():
        log.warning(
            "accelerate launch has started one process only, as it does without a GPU: give it "
            "--multi_gpu all the same, or take torchrun --nproc-per-node N -m lm_eval"
        )
    on_cpu = config.engine != "local" or not is_cuda_available()
    state = PartialState(cpu=on_cpu, timeout=_PATIENCE)
    if config.engine not in ("local", "server") and state.num_processes > 1:
        raise ConfigError(
            f"engine={config.engine} would start servers for each of {state.num_processes} "
            "processes: start one pair with `relaygen serve`, and give all engine=server and its "
            "base_url="
        )


def share(model: Any, config: RelayConfig) -> None:
    """Tell the harness which of the processes this is.

    Args:
        model: A `HFLM`.
        config: Of the run.
    """
    if not _splits_layers(config):
        state = PartialState()
        model._rank, model._world_size = state.process_index, state.num_processes


def _splits_layers(config: RelayConfig) -> bool:
    """Whether all processes hold one model together, which transformers sees to."""
    return bool(config.large_options.get("tp_plan"))


def _is_one_of_many() -> bool:
    """Of several, `accelerate launch` says where to meet; without a GPU it starts but one."""
    told = os.environ
    launched = "ACCELERATE_MIXED_PRECISION" in told and "MASTER_PORT" in told
    return launched and "WORLD_SIZE" not in told

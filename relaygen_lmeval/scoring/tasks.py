"""The harness task of the reasoning tasks: all repeats are scored, and cut reasonings known.

It knows the harness; what an answer is worth, it asks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from lm_eval.api.task import ConfigurableTask

from relaygen_lmeval.scoring.metrics import metric_names
from relaygen_lmeval.scoring.response import response_to

log = logging.getLogger(__name__)


class ReasoningTask(ConfigurableTask):
    """A task of the harness whose YAML says `class: !function ...`.

    Args:
        config: The YAML's content. `repeats` decides how many texts are asked for and what the
            metrics are called; `process_results` gets all of them.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = {name: value for name, value in config.items() if name != "class"}
        repeats = settings.setdefault("repeats", 1)
        settings.setdefault(
            "metric_list",
            [
                {"metric": name, "aggregation": "mean", "higher_is_better": up}
                for name, up in metric_names(repeats).items()
            ],
        )
        # The harness's default filter keeps the first repeat alone.
        keep_all = [{"function": "take_first_k", "k": repeats}]
        settings.setdefault("filter_list", [{"name": "none", "filter": keep_all}])
        super().__init__(config=settings)

    def apply_filters(self) -> Any:
        """Note of every text whether its reasoning was finished, as the prompt may have begun it.

        `think_end_token` makes other models leave their reasoning out, and then the text of a
        prompt that opened it tells nothing.
        """
        stripped = bool((self.config.metadata or {}).get("think_end_token"))
        for instance in self._instances:
            prompt = str(instance.args[0])
            instance.resps = [response_to(prompt, r, stripped=stripped) for r in instance.resps]
        return super().apply_filters()

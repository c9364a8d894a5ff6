"""The local engine: transformers models in this process, many requests at once."""

from relaygen_lmeval.engines.local.engine import LocalEngine

__all__ = ["LocalEngine"]

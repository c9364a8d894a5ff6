"""Sweeps: one file, many runs of the harness over models that are loaded once."""

"""Tries everything that a run needs, before hours of work."""

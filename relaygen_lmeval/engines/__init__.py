"""Engines carry a turn to a model and bring a chunk back; they take no decision."""

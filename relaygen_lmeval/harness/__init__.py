"""The adapter to lm-evaluation-harness: what it asks becomes a relay, what comes back its results."""

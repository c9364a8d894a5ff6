"""Is an answer right: which text is the answer, what it is worth, and what a task counts."""

"""From a task to the cue file of a pair: traces, margins, statistics, selection, pictures."""

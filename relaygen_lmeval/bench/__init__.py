"""Speed, as ratios measured in one process; `relaygen bench`.

Rounds are interleaved, so that a machine that slows down slows all alike; a ratio is taken
within its round, and what is reported is the median of the rounds with their least and most.
"""

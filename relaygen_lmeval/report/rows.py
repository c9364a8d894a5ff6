"""What a relay adds to the harness's table: means with errors clustered by document.

It knows the journal's records and no harness.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

Record = Mapping[str, Any]

# Each row is the sum of one field of the records over the sum of another; `None` counts requests.
ROWS: dict[str, tuple[str, str | None]] = {
    "e2e_s": ("e2e_s", None),
    "large_share": ("n_large_tokens", "n_tokens"),
    "tokens": ("n_tokens", None),
}


class Row(NamedTuple):
    """A value and its standard error; `None` of fewer than two documents."""

    value: float
    stderr: float | None


def rows_by_task(records: Iterable[Record]) -> dict[str, dict[str, Row]]:
    """Mean end-to-end seconds, the large model's share and mean tokens of each task.

    Args:
        records: Requests of a journal.

    Returns:
        Task to `ROWS`. The share is the large model's tokens over all generated tokens, as in
        the totals; a task of which nothing was generated has no share.
    """
    by_task: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_task[record["task"]].append(record)
    return {task: _rows(group) for task, group in by_task.items()}


def clustered_ratio(above: ArrayLike, below: ArrayLike, clusters: ArrayLike) -> Row | None:
    """Estimate a ratio of sums, and its error where the values of a cluster hang together.

    Args:
        above: Numerators, one a request.
        below: Denominators; ones for a mean.
        clusters: Which cluster each belongs to: a document and all its repeats.

    Returns:
        `None` where the denominators are 0.

    Examples:
        >>> clustered_ratio([1.0, 1.0, 3.0, 3.0], [1, 1, 1, 1], [0, 0, 1, 1])
        Row(value=2.0, stderr=1.0)

    Source:
        Cochran, Sampling Techniques (1977), section 6.4, with clusters as units.
    """
    total = float(np.sum(below))
    if not total:
        return None
    ratio = float(np.sum(above)) / total
    _, index = np.unique(clusters, return_inverse=True)
    residuals = np.bincount(index, np.asarray(above) - ratio * np.asarray(below))
    n = len(residuals)
    if n < 2:
        return Row(ratio, None)
    return Row(ratio, float(np.sqrt(n / (n - 1) * np.sum(residuals**2)) / total))


def _rows(records: Sequence[Record]) -> dict[str, Row]:
    documents = [record["doc_id"] for record in records]
    rows = {}
    for name, (above, below) in ROWS.items():
        row = clustered_ratio(
            [float(record[above]) for record in records],
            [float(record[below]) if below else 1.0 for record in records],
            documents,
        )
        if row is not None:
            rows[name] = row
    return rows

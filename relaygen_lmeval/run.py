"""One start of a run: relays requests, journals them, and leaves out what is finished already."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from tqdm import tqdm

from relaygen_lmeval.core.types import RelayRequest, RelayResult
from relaygen_lmeval.errors import FailedRequests, JournalError, RelayGenError
from relaygen_lmeval.journal import Journal, Label, asked, key
from relaygen_lmeval.journal.records import light
from relaygen_lmeval.journal.resume import Earlier, count_runs, read_earlier
from relaygen_lmeval.relay import Relay
from relaygen_lmeval.report.totals import runs, totals_by_task, totals_table

log = logging.getLogger(__name__)

Record = Mapping[str, Any]
OnRecord = Callable[[int, Record], None]


class Run:
    """What one process does of a run.

    Args:
        relay: The pair.
        folder: Of the journal.
        header: What identifies the run.
        rank: This process of several; `None`: there is one.
        barrier: Waits for all processes.

    Attributes:
        journal: What is written.
        records: Finished requests, those of earlier starts that were asked for again as well;
            of all processes after `merge`. Without what is long: see `records.light`.

    Raises:
        JournalError: A folder that cannot be written, or, with `resume`, that of another run.
    """

    def __init__(
        self,
        relay: Relay,
        folder: Path,
        header: Mapping[str, Any],
        *,
        rank: int | None = None,
        barrier: Callable[[], None] = lambda: None,
    ) -> None:
        self._relay = relay
        self._rank = rank
        if relay.config.resume is None:
            self._earlier = Earlier(count_runs(folder))
        else:
            self._earlier = read_earlier(folder, header)
        barrier()  # all have read before one writes
        self.journal = Journal(folder, header, rank=rank, run=self._earlier.runs + 1)
        self.records: list[Record] = []
        self._n_merged = 0
        log.info("journal: %s", self.journal.path)

    def relay(
        self,
        requests: Sequence[RelayRequest],
        labels: Sequence[Label],
        on_record: OnRecord = lambda seq_id, record: None,
        *,
        title: str = "relaying",
        quiet: bool = False,
    ) -> list[Record]:
        """Relay what is not finished.

        Args:
            requests: In any order; what is asked twice is done once.
            labels: Where they come from, by the requests' `seq_id`.
            on_record: Hears of each that was relayed now, as it is finished.
            title: Of the progress bar.
            quiet: No progress bar.

        Returns:
            The record of every request, in their order, without what is long.

        Raises:
            RelayGenError: With what is finished, and how to go on.
            Stopped: A signal came; what was in flight is lost, the rest is in the journal.
        """
        keys = {r.seq_id: key(asked(r, labels[r.seq_id])) for r in requests}
        held = self._earlier.finished
        done = {name: held[name] for name in keys.values() if name in held}
        todo = {keys[r.seq_id]: r for r in reversed(requests) if keys[r.seq_id] not in done}
        self._say_resumed(len(done), len(todo))
        self.records += done.values()
        n = len(done) + len(todo)
        bar = tqdm(total=n, initial=len(done), disable=quiet or not todo, desc=title)

        def on_result(result: RelayResult) -> None:
            seq_id = result.request.seq_id
            record = light(self.journal.write(result, labels[seq_id]))
            done[keys[seq_id]] = record
            self.records.append(record)
            on_record(seq_id, record)
            bar.update(1)

        def on_stop(name: str) -> None:
            self._say_stopped(name, len(done), n)

        try:
            self._relay.run_each([*reversed(todo.values())], on_result, on_stop)
        except RelayGenError as error:
            raise self._failed(error, len(done), n, labels) from error
        finally:
            bar.close()
        return [done[keys[request.seq_id]] for request in requests]

    def unmerged(self) -> list[Record]:
        """This process's records since the last `merge`."""
        return self.records[self._n_merged :]

    def merge(self, everyones: Sequence[Record]) -> None:
        """Take in what is unmerged of all processes, this one's included."""
        self.records[self._n_merged :] = everyones
        self._n_merged = len(self.records)

    def totals(self) -> dict[str, dict[str, float]]:
        """Totals per task of all records."""
        return totals_by_task(self.records)

    def describe(self) -> dict[str, Any]:
        """The journal, which start of the run this is, the totals, and what each start did."""
        return {
            "journal": str(self.journal.path),
            "run": self.journal.run,
            "totals": self.totals(),
            "runs": runs(self.records),
        }

    def print_totals(self, title: str) -> None:
        """The totals, on stderr."""
        Console(file=sys.stderr).print(totals_table(self.totals(), title))

    def _say_resumed(self, n_done: int, n_todo: int) -> None:
        if self._relay.config.resume is not None and self._earlier.runs:
            log.warning("resume: %d requests are finished already, %d are left", n_done, n_todo)

    def _say_stopped(self, name: str, n_done: int, n: int) -> None:
        if not self._rank:
            done = f"{n_done} of {n} requests are finished, in {self.journal.path}"
            sys.stderr.write(f"\nrelaygen: stopped by {name}. {done}. {self._how_to_go_on()}\n")

    def _how_to_go_on(self) -> str:
        return (
            "To go on, give the same command with "
            f"resume={self.journal.path.parent} in --model_args"
        )

    def _failed(
        self, error: RelayGenError, n_done: int, n: int, labels: Sequence[Label]
    ) -> RelayGenError:
        """The error with the place of what is finished; failed requests by task and document."""
        if isinstance(error, JournalError):  # it says so, and nothing can be written
            return error
        done = f"({n_done} of {n} finished requests are in {self.journal.path}. {self._how_to_go_on()})"
        if not isinstance(error, FailedRequests):
            self.journal.write_failure(f"{error} {done}")
            return type(error)(f"{error} {done}")
        for i, message in error.failed.items():
            self.journal.write_failure(message, labels[i])
        names = ", ".join(f"{labels[i].task} {labels[i].doc_id}" for i in sorted(error.failed))
        first = error.failed[min(error.failed)]
        return FailedRequests(
            f"{len(error.failed)} of {n} requests failed: {names}; the first: {first} {done}",
            error.failed,
        )

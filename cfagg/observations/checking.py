"""Checking a store of observations for errors in its rows, index, statistics and attributes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import (
    CfaggError,
    ConventionError,
    FragmentMismatchError,
    FragmentReadError,
    LimitError,
    SourceError,
    StaleError,
)
from cfagg.errors.arguments import a_function, a_path
from cfagg.findings.finding import Finding
from cfagg.observations.checking_rows import (
    BREACHES,
    EntryCheck,
    RowRules,
    chosen_range,
    compare_part,
    compare_statistics,
    plausible_statistics,
    runs_of,
)
from cfagg.observations.describe import ranges_of
from cfagg.observations.findings import CheckReport, finding_of
from cfagg.observations.indexes.protocol import Joining
from cfagg.observations.statistics import Accumulator

if TYPE_CHECKING:
    from cfagg.observations.indexes.protocol import Index
    from cfagg.observations.store import ObservationStore

__all__ = ["check_store"]

type Block = npt.NDArray[np.float32]

#: Number of rows read at once.
_BLOCK = 2**17
#: Number of rows of a large store that are checked unless all are requested, and the number of places.
_SAMPLE_ROWS, _PLACES = 2**20, 64


def check_store(
    path: str | os.PathLike[str],
    full: bool = False,
    *,
    options: Mapping[str, Any] | None = None,
    allow: Iterable[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> CheckReport:
    """Check a store of observations.

    Rows must be distinct and sorted by all their columns, with whole days and seconds, latitudes from -90 to 90 and
    longitudes at least 0 and below 360.  Each index must agree with the rows, and the statistics with the rows that the
    store names.

    Parameters
    ----------
    path : path or str
        The store; see `cfagg.open_observations`.
    full : bool
        Whether all rows are read.  Otherwise a store of more than a million rows is checked in 64 places, and its
        statistics are only checked for plausibility.
    options, allow
        As for `cfagg.open_observations`.
    progress : callable, optional
        Called as ``progress(done, rows)`` with numbers of rows.

    Returns
    -------
    CheckReport
        Every violated rule, with the first rows concerned.  A store that cannot be opened is a finding, too.

    Raises
    ------
    SourceError, AccessError, UnsupportedError
        If there is nothing at `path`, or it cannot be reached.

    Examples
    --------
    >>> report = check_store("synop.zarr")  # doctest: +SKIP
    >>> print(report)  # doctest: +SKIP
    synop.zarr: nothing wrong in all 4,000 rows
    """
    from cfagg.observations.store import open_store

    path = a_path(path, expected="name a store")
    a_function(progress, "progress")
    try:
        store = open_store(path, options, allow)
    except CfaggError as error:
        if _nothing_to_check(path, error):
            raise
        problems = [str(p) for p in error.problems]
        message = "; ".join([error.message, *problems])
        return CheckReport(os.fspath(path), 0, 0, full, (), (finding_of("OBS001", "store", message),))
    return _Check(store, full, progress).run()


def _nothing_to_check(path: str | os.PathLike[str], error: CfaggError) -> bool:
    """Return whether a store could not be reached at all, so that there is nothing to check."""
    if not isinstance(error, ConventionError | FragmentMismatchError | LimitError | SourceError):
        return True
    text = os.fspath(path)
    return isinstance(error, SourceError) and ("://" in text or not Path(os.path.expanduser(text)).is_dir())  # noqa: PTH111


class _Check:
    """The check of one store."""

    def __init__(self, store: ObservationStore, full: bool, progress: Callable[[int, int], None] | None) -> None:
        from cfagg.observations.rows import Rows

        self.store = store
        self.rows = Rows(store.source, store.data.array, cached=False)
        self.whole = full or store.rows <= _SAMPLE_ROWS
        self.progress = progress
        self.findings: list[Finding] = []
        self.indexes: dict[str, Index] = {}

    def run(self) -> CheckReport:
        """Return the report."""
        kinds = self._open_indexes()
        self._attributes()
        self._chunks()
        rules = RowRules()
        index = next(iter(self.indexes.values()), None)
        chosen = chosen_range(self.store, index)
        accumulator = Accumulator(len(self.store.variables)) if self.whole and chosen is not None else None
        entries = {kind: EntryCheck(index.blocks()) for kind, index in self.indexes.items()} if self.whole else {}
        runs = Joining()
        before: Block | None = None
        for start, stop, block in self._blocks():
            if block is None:
                before, accumulator, entries = None, None, {}
                continue
            if start > 0 and before is None:
                before = self._row_before(start)
            rules.check(block, start, before)
            before = block[-1:]
            if not self.whole:
                self._compare_parts(block, start, stop)
                before = None
            else:
                self._compare_entries(entries, runs.feed(runs_of(block, start)))
            if accumulator is not None and chosen is not None:
                lo, hi = max(start, chosen[0]), min(stop, chosen[1])
                accumulator.accumulate(block[max(lo - start, 0) : max(hi - start, 0), 4:])
            if self.progress is not None:
                self.progress(stop, self.store.rows)
        self._compare_entries(entries, runs.close(), last=True)
        self._rules(rules)
        self._statistics(accumulator)
        ordered = tuple(sorted(self.findings, key=lambda f: f.code))
        return CheckReport(self.store.path, self.store.rows, rules.checked, self.whole, kinds, ordered)

    def _open_indexes(self) -> tuple[str, ...]:
        """Open every index of the store and check it on its own."""
        from cfagg.observations.indexes import stored_kinds
        from cfagg.observations.indexes.pages import has_pages

        kinds = list(stored_kinds(self.store))
        said = self.store.attributes.date_indexing
        if said is not None and said not in kinds:
            message = f"the attribute names the index {said!r}, which the store does not have"
            self.findings.append(finding_of("OBS021", "date_indexing", message))
        elif not kinds and self.store.rows:
            self.findings.append(finding_of("OBS021", "store", "it has no index of its dates"))
        if has_pages(self.store):
            kinds.append("pages")
        for kind in kinds:
            self._open_index(kind)
        return tuple(kinds)

    def _open_index(self, kind: str) -> None:
        """Open one index and check it on its own."""
        where = f"index {kind}"
        try:
            index = self.store.index(kind)
            problems = index.validate(self.whole)
        except StaleError as error:
            self.findings.append(finding_of("OBS023", where, error.message))
        except CfaggError as error:
            message = "; ".join([error.message, *map(str, error.problems)])
            self.findings.append(finding_of("OBS021", where, message))
        else:
            self.findings += [finding_of("OBS021", where, p.message) for p in problems]
            if not problems:
                self.indexes[kind] = index

    def _attributes(self) -> None:
        """Compare the shape in the attributes with the arrays."""
        columns = 4 + len(self.store.variables)
        counts = {index.entries for index in self.indexes.values()}
        expected: dict[str, Any] = {"shape": [self.store.rows, columns]}
        if len(counts) == 1:
            expected["index_length"] = counts.pop()
        for name, value in expected.items():
            given = self.store.attributes.all.get(name, value)
            if given != value:
                self.findings.append(finding_of("OBS041", f"attribute {name}", f"is {given!r:.80}; expected {value}"))

    def _chunks(self) -> None:
        """Search for absent chunks."""
        array = self.store.data.array
        absent = [(row, key) for row, key, size in self.store.objects() if size is None]
        for row, key in absent[:5]:
            stop = min(row + array.held[0], self.store.rows)
            message = f"is absent, with the rows {row:,} to {stop - 1:,}"
            self.findings.append(finding_of("OBS002", key, message))
        if len(absent) > 5:
            self.findings.append(finding_of("OBS002", "data", f"{len(absent) - 5:,} more chunks are absent"))

    def _blocks(self) -> Iterator[tuple[int, int, Block | None]]:
        """Yield blocks of rows while the next is being read; `None` for unreadable ones."""
        ranges = ranges_of(self.store.rows, _BLOCK, None if self.whole else _SAMPLE_ROWS, _PLACES)
        with ThreadPoolExecutor(1, thread_name_prefix="cfagg-check") as pool:
            coming = [pool.submit(self._read, *r) for r in ranges[:1]]
            for k, (start, stop) in enumerate(ranges):
                block = coming.pop().result()
                if k + 1 < len(ranges):
                    coming.append(pool.submit(self._read, *ranges[k + 1]))
                yield start, stop, block

    def _read(self, start: int, stop: int) -> Block | None:
        try:
            found: Block = self.rows.read(start, stop)
        except FragmentReadError as error:
            if error.message not in {f.message for f in self.findings}:
                self.findings.append(finding_of("OBS002", "data", error.message))
            return None
        return found

    def _row_before(self, start: int) -> Block | None:
        try:
            found: Block = self.rows.read(start - 1, start)
        except FragmentReadError:
            return None
        return found

    def _compare_entries(self, entries: dict[str, EntryCheck], runs: npt.NDArray[np.int64], last: bool = False) -> None:
        for kind, check in list(entries.items()):
            try:
                check.feed(runs)
                if last:
                    check.close()
            except CfaggError as error:
                self._broken(entries, kind, error)
            else:
                self._disagree(entries, kind, check)

    def _compare_parts(self, block: Block, start: int, stop: int) -> None:
        ends = {"whole_start": start == 0, "whole_end": stop == self.store.rows}
        for kind, index in list(self.indexes.items()):
            try:
                check = compare_part(index, runs_of(block, start), **ends)
            except CfaggError as error:
                self._broken(self.indexes, kind, error)
            else:
                self._disagree(self.indexes, kind, check)

    def _broken(self, of: dict[str, Any], kind: str, error: CfaggError) -> None:
        self.findings.append(finding_of("OBS021", f"index {kind}", error.message))
        del of[kind]

    def _disagree(self, of: dict[str, Any], kind: str, check: EntryCheck | None) -> None:
        """Report once that an index disagrees with the rows."""
        if check is not None and check.problem:
            rows = (check.row,) if check.row >= 0 else ()
            self.findings.append(finding_of("OBS022", f"index {kind}", check.problem, rows, len(rows)))
            del of[kind]

    def _rules(self, rules: RowRules) -> None:
        for code, tally in rules.tallies.items():
            if tally.count:
                column, breach = BREACHES[code]
                message = f"{breach}; found at row {tally.rows[0]:,}: {column}{tally.texts[0]}"
                self.findings.append(finding_of(code, "data", message, tuple(tally.rows), tally.count))

    def _statistics(self, accumulator: Accumulator | None) -> None:
        try:
            self.findings += plausible_statistics(self.store)
            if accumulator is not None:
                self.findings += compare_statistics(self.store, accumulator)
        except CfaggError as error:
            self.findings.append(finding_of("OBS031", "statistics", error.message))

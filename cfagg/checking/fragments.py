"""Opening the fragments of aggregations, each file once, and comparing each fragment with its expected properties.

Files are opened by several threads in batches.  Nothing is kept about a fragment without problems.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.arrays.stated_formats import is_field
from cfagg.cf.references import Resolver
from cfagg.cf.uris import scheme_of
from cfagg.checking.context import Context, once
from cfagg.checking.described import described
from cfagg.checking.fragment_coordinates import Line, lines
from cfagg.checking.fragment_rules import Expectation, compare
from cfagg.errors import AccessError, CfaggError, FragmentNotFoundError, UnsupportedError
from cfagg.findings.finding import Severity
from cfagg.model import Aggregation
from cfagg.model.dataset import Dataset, Group, Variable
from cfagg.runtime.progress import task
from cfagg.storage.access import Access
from cfagg.storage.files import open_regular
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url, a_place, is_url

__all__ = ["Problem", "Survey", "survey"]

#: Number of files that one task of a thread opens.
_BATCH = 16

#: Largest number of waiting tasks.
_WAITING = 64

#: Number of problems of one rule that are kept for one variable; others are only counted.
_KEPT = 100

_GONE = "there is no such file"


class Problem(NamedTuple):
    """A problem of one fragment; `severity` is given if it differs from that of the rule."""

    code: str
    variable: Variable
    message: str
    severity: Severity | None = None


@dataclass(eq=False)
class Survey:
    """The problems of all fragments: the first problems of each rule and variable, and the number of further ones."""

    problems: list[Problem] = field(default_factory=list)
    more: dict[tuple[str, Variable], int] = field(default_factory=dict)
    _count: dict[tuple[str, Variable], int] = field(default_factory=dict)

    def add(self, problem: Problem, times: int = 1) -> None:
        """Record a problem that `times` fragments have."""
        key = (problem.code, problem.variable)
        seen = self._count[key] = self._count.get(key, 0) + 1
        if seen <= _KEPT:
            self.problems.append(problem)
            times -= 1
        if times and seen > _KEPT:
            self.more[key] = self.more.get(key, 0) + times


@dataclass(frozen=True, slots=True)
class _Use:
    """The fragments of one aggregation in one file; the file name is empty for the dataset itself."""

    variable: Variable
    aggregation: Aggregation
    file: str
    fragments: npt.NDArray[np.int64]
    lines: Mapping[str, Line]

    def problem(self, code: str, message: str, severity: Severity | None = None) -> Problem:
        """Return a problem with a message that begins with the first fragment of the file."""
        n = len(self.fragments)
        more = f" and {n - 1:,} more" if n > 1 else ""
        where = f"fragment {self.index}{more} in {self.file or 'the dataset itself'!r}"
        return Problem(code, self.variable, f"{where}: {message}", severity)

    @property
    def index(self) -> list[int]:
        """The index of the first fragment in the array of fragments."""
        shape = self.aggregation.grid.matrix_shape
        return [int(k) for k in np.unravel_index(int(self.fragments[0]), shape)] if shape else []

    @property
    def format(self) -> str | None:
        """Name of the declared format of the fragments."""
        return self.aggregation.partitions.layout_of(int(self.fragments[0])).format

    @property
    def is_readable(self) -> bool:
        """Whether the fragments are in a format whose files are opened."""
        return self.format is None or self.format.lower().startswith(("netcdf", "nc", "hdf5", "zarr"))

    def each(self) -> Iterator[tuple[int, _Use]]:
        """Yield the number of each fragment with a use that contains only this one."""
        for fragment in self.fragments.tolist():
            yield fragment, replace(self, fragments=np.array([fragment]))


@once
def survey(c: Context) -> Survey:
    """Open the fragments of all aggregations of a dataset; for an object in memory, only those within it."""
    found = Survey()
    uses = [
        use
        for d in described(c).values()
        if d.aggregation is not None
        for use in _uses(d.variable, d.aggregation, lines(d.variable, d.aggregation.dims) if c.options.data else {})
    ]
    if not uses:
        return found
    access = _access(c)
    by_path: dict[str, list[_Use]] = {}
    for use in uses:
        if use.file == "":
            for problem in _check(c.dataset, use, use.variable.group):
                found.add(problem)
            continue
        try:
            by_path.setdefault(_path(use, access), []).append(use)
        except (AccessError, UnsupportedError) as error:
            found.add(use.problem("REF002", error.message), len(use.fragments))
    if access is not None:
        with task("fragments", len(by_path)) as step:
            for problem in _Opening(by_path, access, step, c.options.word_size, _times(c)).problems():
                found.add(problem)
    return found


def _access(c: Context) -> Access | None:
    """Return the access policy: fragments beside a file, a store or a URL, and those in allowed places."""
    if c.dataset.path is not None:
        return Access(c.dataset.path, c.options.allow)
    if not is_url(c.dataset.source):
        return None
    given = {} if c.options.storage is None else c.options.storage.given
    return Access(a_place(c.dataset.source.rstrip("/"), {**_times(c), **given}, c.options.allow), c.options.allow)


def _times(c: Context) -> dict[str, float]:
    """Return the time limits of requests, those for the dataset itself, as options of URLs."""
    from cfagg.formats.metadata.url import WAIT

    return dict.fromkeys(("timeout", "deadline"), c.options.timeout or WAIT)


def _uses(variable: Variable, aggregation: Aggregation, coordinates: Mapping[str, Line]) -> Iterator[_Use]:
    """Yield the files of an aggregation with the fragments in each."""
    partitions = aggregation.partitions
    present = np.flatnonzero(partitions.present & (partitions.value < 0))
    if not present.size:
        return
    codes = partitions.file[present]
    order = np.argsort(codes, kind="stable")
    ordered, members = codes[order], present[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-2))
    for start, stop in zip(starts, [*starts[1:], len(ordered)], strict=True):
        code = int(ordered[start])
        file = "" if code < 0 else str(partitions.files[code])
        yield _Use(variable, aggregation, file, members[start:stop], coordinates)


def _path(use: _Use, access: Access | None) -> str:
    """Return the path or URL at which a fragment dataset may be opened."""
    if access is None:
        raise UnsupportedError("it is not opened, since fragments are looked for only next to a file or store")
    name = use.file
    if "aggregated_data" in use.variable.attributes and scheme_of(name) is not None and not is_url(name):
        raise UnsupportedError(
            f"{name[:200]!r} is not opened: of absolute URIs only those of files, web servers and object stores are"
        )
    return access.resolve(name)


@dataclass(frozen=True, slots=True)
class _Opening:
    """The files to open, each once, and the options for opening them."""

    uses: dict[str, list[_Use]]
    access: Access
    step: Callable[[], None]
    word_size: int | None
    times: dict[str, float]

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of all files, in their order."""
        names = list(self.uses)
        batches = [names[i : i + _BATCH] for i in range(0, len(names), _BATCH)]
        workers = min(len(batches), 2 * (os.cpu_count() or 1), 16)
        if workers <= 1:
            for batch in batches:
                yield from self._files(batch)
            return
        with ThreadPoolExecutor(workers) as pool:
            waiting: list[Future[list[Problem]]] = []
            try:
                for batch in batches:
                    waiting.append(pool.submit(self._files, batch))
                    if len(waiting) > _WAITING:
                        yield from waiting.pop(0).result()
                while waiting:
                    yield from waiting.pop(0).result()
            finally:
                for future in waiting:
                    future.cancel()

    def _files(self, paths: list[str]) -> list[Problem]:
        """Return the problems of some files."""
        found: list[Problem] = []
        for path in paths:
            found += self._file(path)
            self.step()
        return found

    def _file(self, path: str) -> Iterator[Problem]:
        """Yield the problems of one file."""
        uses = [u for u in self.uses[path] if u.is_readable]
        for use in self.uses[path]:
            if not use.is_readable:
                yield from self._fields(path, use) if is_field(use.format) else [_unread(path, use)]
        if not uses:
            return
        try:
            with ExitStack() as stack:
                dataset = stack.enter_context(self._dataset(path, stack))
                found = [problem for use in uses for problem in _check(dataset, use, dataset.root)]
        except (AccessError, UnsupportedError) as error:
            found = [u.problem("REF002", error.message) for u in uses]
        except CfaggError as error:
            found = [u.problem("REF003", error.message) for u in uses]
        except Exception as error:  # noqa: BLE001 - a file may be damaged in any way; this is what is looked for
            found = [u.problem("REF003", f"it cannot be read: {type(error).__name__}: {error}") for u in uses]
        yield from found

    def _dataset(self, path: str, stack: ExitStack) -> Dataset:
        """Return the model of a fragment dataset."""
        from cfagg.checking.opening import open_dataset, open_file

        if isinstance(path, Url):
            return _elsewhere(Url(path, replace(path.options, given={**self.times, **path.options.given})))
        if os.path.isdir(path):  # noqa: PTH112
            return open_dataset(path)
        # The open file itself is checked and read, even if another one replaces it meanwhile.
        handle = stack.enter_context(open_regular(path))
        self.access.judge(handle.real, path)
        return open_file(handle.library_path, path)

    def _fields(self, path: str, use: _Use) -> Iterator[Problem]:
        """Yield the problems that prevent reading fragments that are fields of PP files."""
        from cfagg.arrays.aggregated import AggregationReader

        if handles.lacks(path):
            yield use.problem("REF003", _GONE)
            return
        reader = AggregationReader(use.aggregation, self.access, word_size=self.word_size)
        for fragment, one in use.each():
            try:
                reader.recipe(fragment)
            except AccessError as error:
                yield one.problem("REF002", error.message)
            except FragmentNotFoundError as error:
                yield one.problem("REF004", error.message)
            except CfaggError as error:
                yield one.problem("REF003", error.message)


def _elsewhere(url: Url) -> Dataset:
    """Return the model of a fragment dataset on another machine, read under the policy that admitted its URL."""
    from cfagg.arrays.datasets import with_aggregations
    from cfagg.formats.metadata.url import file_at, of_handle, store_at
    from cfagg.formats.metadata.zarr import open_store

    handle = file_at(url)
    if handle is None and not url.rstrip("/").endswith(".zarr"):
        handle = handles.renew(url)  # raises an error if it is absent or may not be read
    return with_aggregations(open_store(store_at(url)) if handle is None else of_handle(handle))


def _unread(path: str, use: _Use) -> Problem:
    """Return the problem for fragments in a format whose files are not opened."""
    if handles.lacks(path):
        return use.problem("REF003", _GONE)
    message = f"not checked: fragments in the format {use.format!r} are not read; convert them to netCDF"
    return use.problem("REF003", message, "warning")


def _check(dataset: Dataset, use: _Use, group: Group) -> Iterator[Problem]:
    """Yield the problems of the fragments in an open dataset, whose variables are searched for from a group."""
    resolver = Resolver(dataset)
    aggregation, partitions = use.aggregation, use.aggregation.partitions
    absent: set[str] = set()
    for fragment, one in use.each():
        name = partitions.address_name(fragment)
        number = int(partitions.offset[fragment])
        if name is None and number >= 0:  # CFA 0.3, varid
            own = list(dataset.root.variables)
            name = own[number] if number < len(own) else f"of number {number}"
        if name is None:
            yield one.problem("REF004", "it is unclear which variable it is")
            continue
        target = resolver.variable(name, group)[0]
        if target is None:
            if name not in absent:
                yield one.problem("REF004", f"there is no variable {name!r} in it; correct the name")
            absent.add(name)
            continue
        place = aggregation.grid.extent(one.index)
        layout, part = partitions.layout_of(fragment), partitions.part_text(fragment)
        wanted = Expectation(use.variable, aggregation.dims, place, layout, part, use.lines)
        for code, message, severity in compare(target, wanted):
            yield one.problem(code, message, severity)

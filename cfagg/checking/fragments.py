"""Opening the fragments of aggregations, each file once, and comparing each fragment with what it is meant to be.

Files are opened by several threads in batches.  Of a fragment that is as it should be nothing is kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.arrays.fragments import is_field
from cfagg.cf.references import Resolver
from cfagg.cf.uris import scheme_of
from cfagg.checking.context import Context, once
from cfagg.checking.described import Description, described
from cfagg.checking.fragment_rules import Expectation, compare
from cfagg.errors import AccessError, CfaggError, FragmentNotFoundError, UnsupportedError
from cfagg.findings.finding import Severity
from cfagg.model.dataset import Dataset, Variable
from cfagg.runtime.progress import task
from cfagg.storage.access import Access
from cfagg.storage.files import open_regular
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url, a_place, is_url

__all__ = ["Problem", "Survey", "survey"]

#: Files that one task of a thread opens.
_BATCH = 16

#: Tasks that wait at most.
_WAITING = 64

#: Problems of one rule that are kept for one variable; others are counted.
_KEPT = 100


class Problem(NamedTuple):
    """What is wrong with one fragment; `severity` where it is other than the rule's own."""

    code: str
    variable: Variable
    message: str
    severity: Severity | None = None


@dataclass(eq=False)
class Survey:
    """The problems of all fragments: the first problems of each rule and variable, and how many more."""

    problems: list[Problem] = field(default_factory=list)
    more: dict[tuple[str, Variable], int] = field(default_factory=dict)
    _count: dict[tuple[str, Variable], int] = field(default_factory=dict)

    def add(self, problem: Problem, times: int = 1) -> None:
        """Note a problem that `times` fragments have."""
        key = (problem.code, problem.variable)
        seen = self._count[key] = self._count.get(key, 0) + 1
        if seen <= _KEPT:
            self.problems.append(problem)
            times -= 1
        if times and seen > _KEPT:
            self.more[key] = self.more.get(key, 0) + times


class _Use(NamedTuple):
    """The fragments of one aggregation in one file."""

    description: Description
    file: str
    fragments: npt.NDArray[np.int64]


@once
def survey(c: Context) -> Survey:
    """Open the fragments of all aggregations of a dataset; of an object in memory only those in itself."""
    found = Survey()
    known = [d for d in described(c).values() if d.aggregation is not None]
    if not known:
        return found
    access = _access(c)
    uses: dict[str, list[_Use]] = {}
    for description in known:
        for use in _uses(description):
            if use.file == "":
                for problem in _check(c.dataset, use, ""):
                    found.add(problem)
                continue
            if access is None:
                message = "it is not opened, since fragments are looked for only next to a file or store"
                found.add(Problem("REF002", description.variable, _about(use, message)), len(use.fragments))
                continue
            try:
                path = access.resolve(_path(use.file, description))
            except (AccessError, UnsupportedError) as error:
                found.add(Problem("REF002", description.variable, _about(use, error.message)), len(use.fragments))
                continue
            uses.setdefault(path, []).append(use)
    with task("fragments", len(uses)) as step:
        for problem in _opened(uses, access, step, c.options.word_size) if access is not None else ():
            found.add(problem)
    return found


def _access(c: Context) -> Access | None:
    """Return which fragments may be opened: those beside a file, a store or a URL, and those that are allowed."""
    if c.dataset.path is not None:
        return Access(c.dataset.path, c.options.allow)
    if not is_url(c.dataset.source):
        return None
    given = {} if c.options.storage is None else c.options.storage.given
    times = {} if c.options.timeout is None else dict.fromkeys(("timeout", "deadline"), c.options.timeout)
    return Access(a_place(c.dataset.source.rstrip("/"), {**times, **given}, c.options.allow), c.options.allow)


def _uses(description: Description) -> Iterator[_Use]:
    """Yield the files of an aggregation with the fragments in each; the dataset itself is an empty name."""
    aggregation = description.aggregation
    if aggregation is None:
        return
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
        yield _Use(description, "" if code < 0 else str(partitions.files[code]), members[start:stop])


def _path(name: str, description: Description) -> str:
    """Return a path or a URL for the name of a fragment dataset."""
    if "aggregated_data" in description.variable.attributes and scheme_of(name) is not None and not is_url(name):
        raise UnsupportedError(
            f"{name[:200]!r} is not opened: of absolute URIs only those of files, web servers and object stores are"
        )
    return name


def _opened(uses: dict[str, list[_Use]], access: Access, step: object, word_size: int | None) -> Iterator[Problem]:
    """Yield the problems of all files, in their order."""
    tell = step if callable(step) else None
    names = list(uses)
    batches = [names[i : i + _BATCH] for i in range(0, len(names), _BATCH)]
    workers = min(len(batches), 2 * (os.cpu_count() or 1), 16)
    if workers <= 1:
        for batch in batches:
            yield from _files(batch, uses, access, tell, word_size)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: list[Future[list[Problem]]] = []
        try:
            for batch in batches:
                waiting.append(pool.submit(_files, batch, uses, access, tell, word_size))
                if len(waiting) > _WAITING:
                    yield from waiting.pop(0).result()
            while waiting:
                yield from waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()


def _files(
    paths: list[str], uses: dict[str, list[_Use]], access: Access, tell: object, word_size: int | None
) -> list[Problem]:
    """Return the problems of some files."""
    found: list[Problem] = []
    for path in paths:
        found += _file(path, uses[path], access, word_size)
        if callable(tell):
            tell()
    return found


def _file(path: str, uses: list[_Use], access: Access, word_size: int | None) -> list[Problem]:
    """Return the problems of one file."""
    from cfagg.checking.opening import open_dataset, open_file

    others = [u for u in uses if not _is_readable(u)]
    uses = [u for u in uses if _is_readable(u)]
    found: list[Problem] = []
    for use in others:
        found += _fields(path, use, access, word_size) if is_field(_format(use)) else [_unread(path, use)]
    if not uses:
        return found
    try:
        with ExitStack() as stack:
            if isinstance(path, Url):
                dataset = stack.enter_context(_elsewhere(path))
            elif os.path.isdir(path):  # noqa: PTH112
                dataset = stack.enter_context(open_dataset(path))
            else:
                # What was opened is judged and read, whatever takes its place meanwhile.
                handle = stack.enter_context(open_regular(path))
                access.judge(handle.real, path)
                dataset = stack.enter_context(open_file(handle.library_path, path))
            for use in uses:
                found += _check(dataset, use, path)
    except (AccessError, UnsupportedError) as error:
        found += [Problem("REF002", u.description.variable, _about(u, error.message)) for u in uses]
    except CfaggError as error:
        found += [Problem("REF003", u.description.variable, _about(u, error.message)) for u in uses]
    except Exception as error:  # noqa: BLE001 - a file may be damaged in any way; this is what is looked for
        message = f"it cannot be read: {type(error).__name__}: {error}"
        found += [Problem("REF003", u.description.variable, _about(u, message)) for u in uses]
    return found


def _elsewhere(url: Url) -> Dataset:
    """Return the model of a fragment dataset on another machine, read as the policy that admitted its URL says."""
    from cfagg.formats.metadata.url import file_at, of_handle, store_at
    from cfagg.formats.metadata.zarr import open_store

    handle = file_at(url)
    if handle is None and not url.rstrip("/").endswith(".zarr"):
        handle = handles.renew(url)  # says that it is not there, or why it may not be read
    return open_store(store_at(url)) if handle is None else of_handle(handle)


def _fields(path: str, use: _Use, access: Access, word_size: int | None) -> Iterator[Problem]:
    """Yield the problems of fragments that are fields of PP files: those for which they could not be read."""
    from cfagg.arrays.aggregated import AggregationReader

    aggregation, master = use.description.aggregation, use.description.variable
    if handles.lacks(path) or aggregation is None:
        yield _gone(use)
        return
    reader = AggregationReader(aggregation, access, word_size=word_size)
    for fragment in use.fragments.tolist():
        one = use._replace(fragments=np.array([fragment]))
        try:
            reader.recipe(fragment)
        except AccessError as error:
            yield Problem("REF002", master, _about(one, error.message))
        except FragmentNotFoundError as error:
            yield Problem("REF004", master, _about(one, error.message))
        except CfaggError as error:
            yield Problem("REF003", master, _about(one, error.message))


def _gone(use: _Use) -> Problem:
    return Problem("REF003", use.description.variable, _about(use, "there is no such file"))


def _unread(path: str, use: _Use) -> Problem:
    """Return what is to be said of fragments in a format that is not looked into."""
    if handles.lacks(path):
        return _gone(use)
    message = f"not checked: fragments in the format {_format(use)!r} are not read; convert them to netCDF"
    return Problem("REF003", use.description.variable, _about(use, message), "warning")


def _format(use: _Use) -> str | None:
    """Return the name of the format that fragments are said to have."""
    aggregation = use.description.aggregation
    return None if aggregation is None else aggregation.partitions.layout_of(int(use.fragments[0])).format


def _is_readable(use: _Use) -> bool:
    """Return whether fragments are in a format that is looked into."""
    if use.description.aggregation is None:
        return False
    name = _format(use)
    return name is None or name.lower().startswith(("netcdf", "nc", "hdf5", "zarr"))


def _about(use: _Use, message: str) -> str:
    """Return a message that begins with the first fragment of a file."""
    n = len(use.fragments)
    more = f" and {n - 1:,} more" if n > 1 else ""
    return f"fragment {_index(use, int(use.fragments[0]))}{more} in {use.file or 'the dataset itself'!r}: {message}"


def _index(use: _Use, fragment: int) -> list[int]:
    """Return the place of a fragment in the array of fragments."""
    aggregation = use.description.aggregation
    shape = () if aggregation is None else aggregation.grid.matrix_shape
    return [int(k) for k in np.unravel_index(fragment, shape)] if shape else []


def _check(dataset: Dataset, use: _Use, path: str) -> Iterator[Problem]:
    """Yield the problems of the fragments in an open dataset."""
    aggregation, master = use.description.aggregation, use.description.variable
    if aggregation is None:
        return
    resolver = Resolver(dataset)
    group = dataset.root if path else master.group
    partitions = aggregation.partitions
    absent: set[str] = set()
    for fragment in use.fragments.tolist():
        name = partitions.address_name(fragment)
        one = use._replace(fragments=np.array([fragment]))
        number = int(partitions.offset[fragment])
        if name is None and number >= 0:  # CFA 0.3, varid
            own = list(dataset.root.variables)
            name = own[number] if number < len(own) else f"of number {number}"
        if name is None:
            yield Problem("REF004", master, _about(one, "it is unclear which variable it is"))
            continue
        target = _target(resolver, name, group)
        if target is None:
            if name not in absent:
                yield Problem("REF004", master, _about(one, f"there is no variable {name!r} in it; correct the name"))
            absent.add(name)
            continue
        extent = tuple(b - a for a, b in aggregation.grid.extent(_index(use, fragment)))
        layout = partitions.layout_of(fragment)
        wanted = Expectation(master, aggregation.dims, extent, layout, partitions.part_text(fragment))
        for code, message, severity in compare(target, wanted):
            yield Problem(code, master, _about(one, message), severity)


def _target(resolver: Resolver, name: str, group: object) -> Variable | None:
    """Return the variable of a name."""
    from cfagg.model.dataset import Group

    return resolver.variable(name, group)[0] if isinstance(group, Group) else None

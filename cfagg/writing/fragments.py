"""Fragments beside an aggregation file, for values that are in no other file or out of reach of its dialect."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from cfagg.formats.values.locks import LIBRARY
from cfagg.model import Aggregation
from cfagg.runtime.budget import worker_count
from cfagg.runtime.netcdf_files import closing_written, created
from cfagg.runtime.threads import run_threads
from cfagg.writing.content import Read
from cfagg.writing.netcdf import BLOCK, blocks, check_texts, define, locked
from cfagg.writing.plan import Work

__all__ = [
    "names_of",
    "others",
    "place_for",
    "write_fragments",
]

#: Attributes that define the meaning of values: a fragment has its own.
_KEPT = ("standard_name", "long_name", "units", "calendar", "_FillValue", "missing_value", "_Unsigned")
_PACKING = ("scale_factor", "add_offset")


def place_for(target: Path) -> Path:
    """Return a directory for fragments of a file, which does not exist yet."""
    number = 1
    while True:
        found = target.with_name(f"{target.name}.fragments{f'-{number}' if number > 1 else ''}")
        if not os.path.lexists(found):
            return found
        number += 1


def others(target: Path) -> Iterator[Path]:
    """Yield the existing directories of fragments."""
    for found in sorted(target.parent.glob(f"{_escaped(target.name)}.fragments*")):
        rest = found.name[len(target.name) + len(".fragments") :]
        own = not rest or (rest[0] == "-" and rest[1:].isdecimal())
        if own and found.is_dir() and not found.is_symlink() and all(_is_fragment(p) for p in found.iterdir()):
            yield found


def _escaped(name: str) -> str:
    import glob

    return glob.escape(name)


def _is_fragment(path: Path) -> bool:
    return path.suffix == ".nc" and path.is_file() and not path.is_symlink()


def names_of(works: Mapping[str, Work]) -> dict[str, list[str]]:
    """Return the names of the fragments of aggregations by their paths, all distinct even if case is ignored."""
    found: dict[str, list[str]] = {}
    taken: set[str] = set()
    for path, work in works.items():
        base = path.strip("/").replace("/", ".")
        stems = chain([base], (f"{base}_{n}" for n in count(1)))  # variable `a.b` and `b` of group `a` share a base
        names = next(n for n in (_names(work, stem) for stem in stems) if taken.isdisjoint(map(str.casefold, n)))
        taken.update(map(str.casefold, names))
        found[path] = names
    return found


def _names(work: Work, stem: str) -> list[str]:
    """Return the names of the fragments of one aggregation."""
    matrix = work.aggregation.grid.matrix_shape
    if not matrix:
        return [f"{stem}.nc"] * work.rows.size
    index = np.stack(np.unravel_index(work.rows, matrix), 1).tolist()
    return [f"{stem}.{'.'.join(map(str, i))}.nc" for i in index]


def write_fragments(work: Work, folder: Path, names: list[str], to: str, step: Callable[[], None]) -> None:
    """Write the values of partitions into files, in parallel; `step` is called after each."""
    read = work.aggregated.read
    if read is None:  # a plan without a reader has no such partitions
        return
    aggregation = work.aggregation

    def write(given: tuple[int, str]) -> None:
        row, name = given
        box = aggregation.grid.extent(aggregation.grid.index(row))
        _write(folder / name, aggregation, box, read, to, work.aggregated.storage)

    tasks = zip(work.rows.tolist(), names, strict=True)
    for _ in run_threads(write, tasks, min(worker_count(None), len(names)), "fragments"):
        step()


def _write(
    path: Path,
    aggregation: Aggregation,
    box: tuple[tuple[int, int], ...],
    read: Read,
    to: str,
    storage: Mapping[str, Any],
) -> None:
    """Write one fragment; other threads may read meanwhile, but not write."""
    import netCDF4

    shape = tuple(b - a for a, b in box)
    parts = (
        (slices, read(tuple(slice(a + s.start, a + s.stop) for (a, _), s in zip(box, slices, strict=True))))
        for slices in blocks(shape, aggregation.dtype.itemsize, BLOCK, storage.get("chunksizes", ()))
    )
    first = next(parts, None)  # if reading fails, no file is left
    options = {} if first is None else dict(storage)
    if first is not None and "chunksizes" in storage:
        # Chunks longer than what is written at once would be packed several times.
        options["chunksizes"] = tuple(min(c, s.stop) for c, s in zip(storage["chunksizes"], first[0], strict=True))
    with locked(lambda: closing_written(created(lambda: netCDF4.Dataset(path, "w"), path), path)) as file:
        with LIBRARY:
            file.setncattr("Conventions", "CF-1.6")
            for dim, size in zip(aggregation.dims, shape, strict=True):
                file.createDimension(dim, size)
            attributes = _attributes(aggregation, to)
            made = define(file, aggregation.name, aggregation.dims, aggregation.dtype, attributes, **options)
        for slices, values in chain([] if first is None else [first], parts):
            check_texts(values, aggregation.name)
            with LIBRARY:
                made[slices if shape else ...] = values


def _attributes(aggregation: Aggregation, to: str) -> dict[str, Any]:
    """Return the attributes of a fragment; only NCA and CFA 0.4 pack the values of fragments together."""
    names = _KEPT if to in ("CF-1.13", "CFA-0.6.2") else (*_KEPT, *_PACKING)
    units = {"units": aggregation.units, "calendar": aggregation.calendar}
    given = {**aggregation.attributes, **{k: v for k, v in units.items() if v is not None}}
    return {k: given[k] for k in names if k in given}

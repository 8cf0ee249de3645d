"""Adopting a copy of a store whose contents are the same as those of the store that was summed.

The times and inodes of a copy differ from those of the original.  Objects whose stamps differ are read once, and their
checksums are compared with those recorded by the build; if all are equal, the new stamps replace the old ones.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.building import GroupStaging, consolidate, finish_dead, put_attributes
from cfagg.accumulation.description import Neighbour, differences_of, neighbours_of, table_of
from cfagg.accumulation.group import Group, Looks, adopt_command, command, stale
from cfagg.accumulation.growth_tables import stamp_rows, write_table
from cfagg.accumulation.in_objects import Place
from cfagg.accumulation.integrity import BUILD, ROWS, STAMPS, sealed
from cfagg.accumulation.layout import ArraySpec
from cfagg.accumulation.opening import open_group
from cfagg.accumulation.report import Report
from cfagg.accumulation.source import settled, write_back
from cfagg.accumulation.writing import Target, codec_of, read_documents
from cfagg.conventions.accumulation_fields import record
from cfagg.conventions.accumulation_record import Related
from cfagg.errors import CfaggError, NotAccumulatedError, Problem, StaleError
from cfagg.formats.zarr import ZarrArray, compare, object_checksum, open_array, stamps
from cfagg.formats.zarr.creating import group_documents, write_documents
from cfagg.formats.zarr.documents import Document, read_group
from cfagg.runtime.publishing import refusals_of, remove, sync_tree
from cfagg.storage.urls import Url

__all__ = ["adopt_copy", "adopted", "renew"]

Int64 = npt.NDArray[np.int64]
Progress = Callable[[int, int], None]

#: Largest number of changed objects that are named one by one.
_NAMED = 15


def adopted(group: Group) -> Group:
    """Return an accumulation that accepts the present objects; nothing is written."""
    table = _table(group, None)[0]
    return group.copied(adopted=table, objects=table, looks=Looks())


def adopt_copy(
    store: str | os.PathLike[str], variable: str, progress: Progress | None = None, allow: Sequence[str] = ()
) -> Report:
    """Write the stamps of the present objects into an accumulation, if their contents are the same."""
    finish_dead(open_array(store, variable, allow=allow))
    group = open_group(store, variable, allow=allow)
    if isinstance(group.source.store, Url):
        table, read, size = _table(group, progress)
        if read:
            _write_there(group, table, None)
        return _report(group, table, read, size)
    shop = GroupStaging.of(group.source)
    shop.enter()
    try:
        with refusals_of(group.folder):
            group = open_group(store, variable, allow=allow)
            table, read, size = _table(group, progress)
            if read:
                _write(group, table, None, shop.root)
            else:
                # Remove the remains of a killed run.
                _free(Path(group.folder), "" if group.extra is None else group.extra.stamps)
                consolidate(group.source, Path(group.folder), shop.root)
            shop.remove_unless_unfinished()
    finally:
        shop.abandon_if_useless()
    return _report(group, table, read, size)


def _report(group: Group, table: Int64, read: int, size: int) -> Report:
    known = group.objects[: group.source.objects.size, 0]
    note = f"{read:,} of {len(table):,} stored objects were read ({size:,} bytes), and are the same"
    return Report(
        group.store,
        group.variable,
        group.path,
        "adopted" if read else "up to date",
        (),
        group.source.size * group.source.dtype.itemsize,
        int(known[known > 0].sum()),
        0,
        0,
        notes=(note,) if read else (),
    )


def renew(group: Group, neighbours: tuple[Neighbour, ...], aside: Path | None) -> None:
    """Record the present state of related arrays when the sums remain valid; `aside` is None in an object store."""
    count = group.source.objects.size
    table = np.concatenate([group.objects[:count], table_of(neighbours)])
    for neighbour in neighbours:
        neighbour.unchanged(group.source)
    if aside is None:
        _write_there(group, table, neighbours)
    else:
        _write(group, table, neighbours, aside)


def _table(group: Group, progress: Progress | None) -> tuple[Int64, int, int]:
    """Return current stamps and checksums, the number of objects read to compute them, and their size in bytes."""
    extra = group.extra
    if extra is None:
        raise NotAccumulatedError(
            f"{group.store}: the accumulation of {group.variable!r} was written by another program and keeps no "
            "checksums, so it cannot be adopted; replace it with: "
            f"{command(group.store, group.variable, '--overwrite')}"
        )
    if group.differences:
        raise stale(group, group.differences.problems)
    table = group.objects.copy()
    parts: list[tuple[ZarrArray, str, int]] = [(group.source, "chunk", 0)]
    if group.source.objects is not group.source.grid:
        parts = [(group.source, "shard", 0)]
    place = extra.source.objects
    problems: list[Problem] = []
    for then, neighbour in zip(extra.related, neighbours_of(group.source, extra.related), strict=True):
        problems += differences_of(neighbour, then)
        if neighbour.array is not None:
            parts.append((neighbour.array, f"{then.path!r}, object", place))
        place += then.objects
    if problems:
        raise stale(group, problems)
    looked = [(array, name, place, settled(array)) for array, name, place in parts]
    differing = [
        (array, name, place, now, compare(table[place : place + len(now), :4], now))
        for array, name, place, now in looked
    ]
    total = sum(int(now[which, 0].clip(0).sum()) for *_, now, which in differing)
    done = count = 0
    for array, *_, which in differing:
        if which:
            write_back(array)
    for array, name, place, now, which in differing:
        for i in which:
            held = array.objects.index(i)
            found = object_checksum(array, held)
            old = table[place + i]
            if (found or (-1, 0)) != (int(old[0]), int(old[4])):
                problems.append(Problem(f"{name} {held}", _difference(old, found)))
            done, count = done + (found or (0, 0))[0], count + 1
            if progress is not None:
                progress(done, total)
        if which and compare(now[which], stamps(array, np.array(which))):
            raise StaleError(
                f"{group.store}: {array.path!r} was written to while it was compared; run again when nothing writes "
                f"to it: {adopt_command(group.store, group.variable)}"
            )
        table[place : place + len(now), :4] = now
    if problems:
        rest = [Problem("", f"{len(problems) - _NAMED:,} more")] if len(problems) > _NAMED else []
        raise stale(group, [*problems[:_NAMED], *rest])
    return table, count, done


def _difference(old: Int64, found: tuple[int, int] | None) -> str:
    if found is None:
        return "no longer stored"
    if old[0] < 0:
        return "stored since"
    return f"{old[0]:,} bytes before, now {found[0]:,}" if found[0] != old[0] else "has other contents"


def _write(group: Group, table: Int64, neighbours: tuple[Neighbour, ...] | None, aside: Path) -> None:
    """Replace the table of stamps, writing first a new array, then the attributes that name it."""
    source, document, old = group.source, _document(group), _stamps(group)
    folder = Path(group.folder)
    name = _free(folder, old)
    try:
        attributes = _stamped(group, document.content, folder, name, table, neighbours)
        sync_tree(folder / name)
        documents = {k: v for k, v in read_documents(folder, source.zarr_format).items() if k not in ("", old)}
        put_attributes(source, folder, attributes, documents, aside)
    except BaseException:
        with contextlib.suppress(CfaggError, OSError):
            now = read_group(source.store, group.path, source.zarr_format, source.allow)
            # As long as the attributes are unchanged, nothing names the new array.
            if now is not None and now.identity == document.identity:
                remove(folder / name)
        raise
    remove(folder / old)


def _write_there(group: Group, table: Int64, neighbours: tuple[Neighbour, ...] | None) -> None:
    """Do the same in an object store, where one conditional write of the attributes names the new array."""
    source, document, old = group.source, _document(group), _stamps(group)
    place = Place.of(source)
    tag, keys = place.found(document.identity)
    with tempfile.TemporaryDirectory(prefix="cfagg-") as aside:
        folder = Path(aside)
        name = f"chunk_stamps.{secrets.token_hex(4)}"
        attributes = _stamped(group, document.content, folder, name, table, neighbours)
        write_documents(folder, group_documents(attributes, source.zarr_format))
        gone = frozenset(key for key in keys if key.startswith(f"{place.group}/{old}/"))
        place.publish(folder, tag, gone, place.documents(keys - gone))


def _document(group: Group) -> Document:
    """Return the attributes of a group, which must not have changed since it was opened."""
    source = group.source
    document = read_group(source.store, group.path, source.zarr_format, source.allow)
    if document is None or document.identity != group.identity:
        raise StaleError(
            f"{group.store}: the accumulation of {group.variable!r} was written by another process meanwhile; run again"
        )
    return document


def _stamps(group: Group) -> str:
    """Return the name of the array of stamps."""
    assert group.extra is not None  # noqa: S101  (its table was read)
    return group.extra.stamps


def _stamped(
    group: Group,
    content: Mapping[str, Any],
    folder: Path,
    name: str,
    table: Int64,
    neighbours: tuple[Neighbour, ...] | None,
) -> dict[str, Any]:
    """Write a new array of stamps below a folder, and return the attributes of the group that name it."""
    source, extra = group.source, group.extra
    assert extra is not None  # noqa: S101  (its table was read)
    codec = codec_of(next(iter(group.sums.values())).data.document)
    target = Target(folder, codec, source.zarr_format, extra.checks.build)
    dims = (f"{name}_0", f"{name}_1")
    attributes = {"_ARRAY_DIMENSIONS": list(dims), BUILD: extra.checks.build}
    own: dict[str, Any] = {**content["cfagg"], "stamps": name}
    listed = {k: v for k, v in own["checks"]["own"].items() if k != extra.stamps}
    if extra.growth is not None and group.grows is not None:
        known = neighbours_of(source, extra.related) if neighbours is None else neighbours
        rows = stamp_rows(source, group.grows, table, known)
        spec = ArraySpec(name, "stamps", dims, (ROWS, STAMPS), (ROWS, STAMPS), np.dtype("i8"), attributes)
        written = write_table(target, spec, None, rows)
        own["growth"] = {**own["growth"], "stamps": list(written)}
        listed[name] = [target.metadata[name]]
    else:
        chunks = (min(max(len(table), 1), 1 << 14), 5)
        spec = ArraySpec(name, "stamps", dims, table.shape, chunks, np.dtype("i8"), attributes)
        target.create(spec)
        target.write_whole(spec, table)
        listed[name] = [target.metadata[name], *target.checksums[name].tolist()]
    own["checks"] = {**own["checks"], "own": listed}
    if neighbours is not None:
        own["related"] = [record(Related).write(n.record) for n in neighbours]
    return sealed({**content, "cfagg": own})


def _free(folder: Path, taken: str) -> str:
    """Return a name for the new array, and remove any array that a killed run left under it."""
    name = "chunk_stamps" if taken != "chunk_stamps" else "chunk_stamps.2"
    remove(folder / name)
    return name

"""Appending to a Zarr store: first chunks, then the document of each array, and last the one that publishes everything.

The state of a store is defined by the consolidated metadata at its root. Until these are replaced by a single rename or
put, readers that open the group see the store as it was: new chunks are beyond the end of the arrays that they know,
and a last chunk that was not full keeps its former values and has more after them.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cfagg.arrays.chunked import ZarrReader
from cfagg.errors import CfaggError, ConformError, LossError, OptionError, SourceError, UnsupportedError
from cfagg.errors.arguments import is_one
from cfagg.findings.losses import Loss
from cfagg.formats.opening import is_repository
from cfagg.formats.zarr.creating import document_bytes
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.runtime.budget import worker_count
from cfagg.runtime.reports import WrittenReport
from cfagg.runtime.threads import run_threads
from cfagg.storage.urls import Url
from cfagg.writing.zarr.chunk_writing import Object, Slab, check_growth, put_objects, slabs
from cfagg.writing.zarr.group_state import GroupState, Node, below, digest, load, take_back
from cfagg.writing.zarr.growing import Growth, grow
from cfagg.writing.zarr.increments import Increment, increment_of, stored_array
from cfagg.writing.zarr.place import Claim, Place, place_of
from cfagg.writing.zarr.session_place import SessionPlace
from cfagg.writing.zarr.text import TEXT

__all__ = ["Appended", "append_to"]

#: Number of small objects that one thread writes in turn; on another machine, where each takes a round trip, only one.
_RUN = 64


@dataclass(frozen=True, kw_only=True, repr=False)
class Appended(WrittenReport):
    """The result of appending.

    Parameters
    ----------
    target : str
        The store.
    group : str
        The group in it, ``""`` for the root.
    variables : tuple of str
        Paths of the arrays that grew.
    dim : str
        The dimension along which they grew.
    start, stop : int
        The range of the new elements along it.
    chunks, stored : int
        Number of objects written, and their size in bytes.
    losses : tuple of Loss
        What the appended data have and the store does not: attributes, and variables without an array.
    notes : tuple of str
        Information that users should know.
    """

    title: ClassVar[str] = "Appended"

    group: str
    dim: str
    start: int
    stop: int
    chunks: int = 0
    stored: int = 0

    def __str__(self) -> str:
        from cfagg.display.sizes import count_text

        count = count_text(self.stop - self.start, "step")
        arrays = count_text(len(self.variables), "array")
        return f"{self.target}: {count} of {self.dim!r} appended to {arrays}, {self.stop:,} now"

    @property
    def facts(self) -> tuple[tuple[str, object], ...]:
        """The facts shown in a notebook, by name."""
        return (
            ("store", self.target),
            ("group", self.group or None),
            ("dimension", self.dim),
            ("appended", f"{self.start:,} to {self.stop:,}"),
            ("chunks written", f"{self.chunks:,}"),
        )


def append_to(
    store: str | os.PathLike[str],
    data: Any,
    dim: str,
    *,
    group: str = "",
    on_loss: str = "error",
    any_order: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
    after: Sequence[Callable[[Place, Appended], Any]] = (),
) -> Appended:
    """Append a dataset, or arrays by name, to a group of a store; `cfagg.api.appending.append` describes it."""
    # The callables `after` are called after publishing, while no other process can write to the store.
    if not is_one(on_loss, ("error", "drop")):
        raise OptionError(f"on_loss={on_loss!r} is neither 'error' nor 'drop'")
    with contextlib.ExitStack() as stack:
        claim, state, recovered = _begin(stack, store, group, storage_options)
        place = state.place
        growing = _growing(state, dim)
        increment = increment_of(data, state, dim, growing)
        _refuse_losses(place, increment.losses, on_loss)
        notes = _notes(state, recovered=recovered)
        size = _size(state, growing, dim)
        growths = {
            name: grow(place.store, node.path, node.documents, node.dims.index(dim), increment.count, place.opens)
            for name, node in growing.items()
            if increment.count
        }
        if growths and not any_order and increment.coordinate is not None:
            _check_order(growths[dim], dim, increment.coordinate, lambda: stored_array(growing[dim], state))
        report = Appended(
            target=place.store, group=group.strip("/"), variables=tuple(n.path for n in growing.values()), dim=dim,
            start=size, stop=size + increment.count, losses=increment.losses, notes=notes,
        )  # fmt: skip
        if increment.count:
            report = _write(place, claim, state, growing, growths, increment, report, worker_count(workers))
        for each in after:
            each(place, report)
    return report


def _begin(
    stack: contextlib.ExitStack,
    store: str | os.PathLike[str],
    group: str,
    storage_options: Mapping[str, Any] | None,
) -> tuple[Claim, GroupState, bool]:
    """Become the writer of a store or repository; also return its state, and whether a killed writer was undone."""
    place = place_of(store, storage_options)
    if not place.remote:
        if is_repository(place.store):
            place = SessionPlace(Path(place.store))
        else:
            _check_is_store(place, group)
    claim = stack.enter_context(place.writer("appending"))
    recovered = take_back(place, claim)
    try:
        return claim, load(place, group), recovered
    except SourceError:
        # Asked only now, which saves every other append to an object store a request.
        if not isinstance(place.store, Url) or not is_repository(place.store):
            raise
    stack.close()
    place = SessionPlace(place.store)
    return stack.enter_context(place.writer("appending")), load(place, group), False


def _check_is_store(place: Place, group: str) -> None:
    """Raise an error if this is not a store, before a lock is created in it."""
    names = ("zarr.json", ".zgroup", ".zarray")
    if not any(place.read(f"{folder}{name}") for folder in {"", f"{group.strip('/')}/".lstrip("/")} for name in names):
        raise SourceError(f"{place.store} is not a Zarr store: it has neither zarr.json nor .zgroup; name one that has")


def _growing(state: GroupState, dim: str) -> dict[str, Node]:
    """Return the arrays along a dimension, all of which grow."""
    store, found = state.place.store, {n: node for n, node in state.nodes.items() if dim in node.dims}
    if not found:
        dims = sorted({str(d) for node in state.nodes.values() for d in node.dims if d is not None})
        raise OptionError(
            f"{store}: no array has the dimension {dim!r}; there are {', '.join(map(repr, dims)) or 'none'}"
        )
    for node in found.values():
        if node.dims.count(dim) > 1 or len(node.dims) != len(node.shape):
            raise UnsupportedError(f"{store}: array {node.path!r} has the dimensions {node.dims}, and cannot grow")
    others = [node.path for node in below(state) if dim in node.dims]
    if others:
        raise UnsupportedError(
            f"{store}: {', '.join(map(repr, others[:5]))} in groups below have the dimension {dim!r} too; each call "
            "appends to one group, and these would be left behind"
        )
    return found


def _size(state: GroupState, growing: Mapping[str, Node], dim: str) -> int:
    """Return the length of a dimension, which all arrays along it share."""
    sizes = {node.path: node.shape[node.dims.index(dim)] for node in growing.values()}
    if len(set(sizes.values())) > 1:
        raise SourceError(f"{state.place.store}: arrays differ in length along {dim!r}: {sizes}; write the store again")
    return next(iter(sizes.values()))


def _refuse_losses(place: Place, losses: tuple[Loss, ...], on_loss: str) -> None:
    if losses and on_loss == "error":
        things = f"{len(losses)} thing{'s'[: len(losses) > 1]}"
        raise LossError(
            f"nothing was appended to {place.store}, which has no place for {things} of the appended data; leave them "
            "out, or pass on_loss='drop' (--on-loss drop)",
            losses,
        )


def _notes(state: GroupState, *, recovered: bool) -> tuple[str, ...]:
    notes = []
    if recovered:
        notes.append("what a killed run had begun was undone first")
    if state.made:
        notes.append("the store now has consolidated metadata, which publish whole appends")
    return tuple(notes)


def _check_order(growth: Growth, dim: str, new: npt.NDArray[Any], whole: Callable[[], ZarrArray]) -> None:
    """Raise an error if coordinate values do not continue in the direction of those of the store.

    The direction is that from the first value, as the last ones may have been appended in any order.
    """
    end = growth.tail
    if end.dtype.kind in TEXT:
        return  # names have no direction
    former = growth.former - end.start
    last: list[Any] = []
    # Read at most the last two chunks, so that the cost does not increase with the size of the store.
    for index in range(end.grid.matrix_shape[0]):
        (a, b), *_ = end.grid.extent((index,))
        if a < former and b > former - 2 * max(b - a, 1):
            if end.decoder is None:
                raise UnsupportedError(
                    f"{end.store}: array {end.path!r} has codecs that cfagg does not decode, so the order of {dim!r} "
                    "is unknown; pass any_order=True (--any-order)"
                )
            last += ZarrReader(end).filled((index,))[: former - a].tolist()
    if growth.former > 2:
        last = [*ZarrReader(whole() if end.before else end).filled((0,))[:1].tolist(), *last[-2:]]
    values = [*last, *new.tolist()]
    odd = next((v for v in values if isinstance(v, float) and not math.isfinite(v)), None)
    if odd is not None:
        found = "missing values" if math.isnan(odd) else f"the value {odd}"
        raise ConformError(
            f"{end.store}: coordinate {dim!r} has {found}; pass any_order=True (--any-order) to append them"
        )
    steps = np.sign(np.diff(np.array(values, dtype=new.dtype).astype("O")))
    is_down = bool(len(steps)) and steps[0] < 0 and (len(last) != 1 or len(new) > 1)
    wrong = [k for k, s in enumerate(steps) if s != (-1 if is_down else 1)]
    if wrong:
        k = wrong[0]
        where = ("within the store", "where the appended data begin", "within the appended data")
        raise ConformError(
            f"{end.store}: coordinate {dim!r} would go from {values[k]} to {values[k + 1]} "
            f"{where[min(max(k - len(last) + 2, 0), 2)]}, but it {'decreases' if is_down else 'increases'}: they "
            "overlap the existing ones, or are out of order; pass any_order=True (--any-order) to append them as "
            "they are"
        )


def _write(
    place: Place,
    claim: Claim,
    state: GroupState,
    growing: Mapping[str, Node],
    growths: Mapping[str, Growth],
    increment: Increment,
    report: Appended,
    workers: int,
) -> Appended:
    """Write chunks and documents, and publish them."""
    own = state.own(list(growing.values()))
    encoders = {name: check_growth(growth) for name, growth in growths.items()}
    documents = {state.key(node): growths[name].document for name, node in growing.items()}
    own_keys = {state.key(node): own[name] for name, node in growing.items()}
    if state.levels:
        *lower, top = [(level.key, level.changed(documents), level.tag) for level in reversed(state.levels)]
    else:
        ((key, document),) = documents.items()
        lower, top = [], (key, document_bytes(document), own_keys.pop(key)[1])
        documents = {}
    writes = [(key, document_bytes(documents[key]), own_keys[key][1]) for key in documents]
    writes += lower
    former = {key: own_keys[key][0] for key in documents}
    former |= {level.key: document_bytes(level.document) for level in state.levels[1:]}
    intent = {
        "publishes": top[0],
        "published": digest(top[1].rstrip()),
        "former": {key: [former[key].decode(), digest(text.rstrip())] for key, text, _ in writes},
        "objects": [_objects(growth) for growth in growths.values()],
        "level": state.levels[0].path if state.levels else "",
        "grown": [[node.path, node.dims.index(report.dim), report.stop] for node in growing.values()],
    }
    claim.record(json.dumps(intent).encode())
    try:
        if place.commits:
            for write in (*writes, top):
                place.swap(*write)  # a session accepts chunks only within the shapes that it knows
        chunks, stored = _put_all(place, _tasks(growths, increment, encoders, 1 if place.remote else _RUN), workers)
        place.swap_all([*writes, top])
    except BaseException:
        if not place.commits:
            # Roll back as the next run would do after a killed one.
            with contextlib.suppress(CfaggError):
                claim.left = json.dumps(intent).encode()
                take_back(place, claim)
        raise
    claim.forget()
    return Appended(**{**vars(report), "chunks": chunks, "stored": stored})


def _objects(growth: Growth) -> list[Any]:
    """Return the objects that were not part of an array, in the form in which they are recorded."""
    tail = growth.tail
    ranges = [[0, n] for n in tail.objects.matrix_shape]
    first = growth.objects.start
    index = [0] * tail.ndim
    if growth.objects:
        index[tail.axis] = first
        if tail.objects.extent(index)[tail.axis][0] + tail.start < growth.former:
            first += 1
    ranges[tail.axis] = [first + tail.before, growth.objects.stop + tail.before]
    prefix = f"{tail.path}/" if tail.path else ""
    return [f"{prefix}{tail.prefix}{tail.separator if tail.prefix else ''}", tail.separator, ranges]


def _tasks(
    growths: Mapping[str, Growth], increment: Increment, encoders: Mapping[str, Any], most: int
) -> Iterator[tuple[Slab, Iterable[Object]]]:
    """Yield objects to write with their values, one row of objects in memory at a time."""
    for name, growth in growths.items():
        for slab in slabs(growth, increment.values[name], encoders[name]):
            yield from ((slab, run) for run in slab.runs(most))


def _put_all(place: Place, tasks: Iterator[tuple[Slab, Iterable[Object]]], workers: int) -> tuple[int, int]:
    """Write objects; return their number and bytes."""
    first = list(islice(tasks, 9))
    done: Generator[tuple[int, int]]
    if len(first) <= 8 and not place.remote:
        done = (put_objects(place, *task) for task in first)  # threads would cost more than they save
    else:
        threads = max(workers, 8 if place.remote else 1)
        done = run_threads(lambda task: put_objects(place, *task), chain(first, tasks), threads, "append")
    count = stored = 0
    # Threads end before an interrupt is passed on: nothing may be written while the append is taken back.
    with contextlib.closing(done):
        for n, size in done:
            count, stored = count + n, stored + size
    return count, stored

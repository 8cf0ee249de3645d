"""Building a group next to the store: partial sums of all chunks, their running sums, and moving the group into place.

::

    .STORE.VARIABLE.cfagg-accumulation/      next to the store; `.cfagg-accumulation.VARIABLE` in one that is mounted
                                             or next to which no directory can be created
        identity   the array and the options of the build
        records    one record for every chunk that was read
        scratch/   partial sums
        increment  changes to a group that grows in place, see `cfagg.accumulation.writing`
        group/     the group; after the exchange, the one that it replaced
        ...        as in `cfagg.runtime.staging.Staging`

The exchanged directory is always complete, so that a reader sees the old group or the new one, never a partial one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.build_plan import Plan
from cfagg.accumulation.description import table_of
from cfagg.accumulation.finish import describe, finish, missing_before, write_attributes
from cfagg.accumulation.group import group_path, object_counts
from cfagg.accumulation.growth_tables import infinite_before
from cfagg.accumulation.options import Order
from cfagg.accumulation.outliers import judge
from cfagg.accumulation.partials import Pass
from cfagg.accumulation.recipe import Recipe
from cfagg.accumulation.report import Report, report_of
from cfagg.accumulation.scratch import Journal, Scratch
from cfagg.accumulation.source import settled, unchanged, write_back
from cfagg.accumulation.summing import PartialSums
from cfagg.accumulation.writing import (
    Increment,
    Target,
    finish_there,
    place_of_array,
    read_documents,
    renew_consolidated,
    replaced,
)
from cfagg.errors import AccessError, CfaggError, LimitError, TargetError, TargetExistsError
from cfagg.formats.fastzlib import crc32
from cfagg.formats.zarr import ZarrArray
from cfagg.formats.zarr.creating import document_bytes, group_documents
from cfagg.formats.zarr.documents import node_folder
from cfagg.runtime.publishing import read_own, reason, refusals_of, remove, replace_file, sync_directory, write_synced
from cfagg.runtime.staging import Staging, is_known, renames_into
from cfagg.storage.urls import Url

__all__ = ["GroupStaging", "build", "consolidate", "finish_dead", "put_attributes", "working"]

#: Longest name of an array, in bytes, within that of a work directory; longer names are replaced by a digest.
_LONGEST = 160


class GroupStaging(Staging):
    """A locked work directory for the accumulation of one array of a store, with links in paths resolved."""

    def __init__(self, store: str | os.PathLike[str], variable: str, target: str | os.PathLike[str]) -> None:
        home, place = Path(os.path.realpath(store)), Path(os.path.realpath(target))
        # Without dots after the store's name, no two arrays of any stores share a work directory.
        name = variable.replace("%", "%25").replace(".", "%2E").replace("/", "%2F")
        if len(name.encode()) > _LONGEST:  # no other name has a % before a -
            name = f"%-{hashlib.sha256(name.encode()).hexdigest()}"
        root, inside = _roots(home, name)
        former = [p for p in _roots(home, variable.replace("/", ".")) if name != variable and _is_of(p, variable)]
        if inside.is_dir() or not (root.exists() or renames_into(home.parent, place.parent)):
            root = inside
        self._put_up(place, former[0] if former and not root.exists() else root, place)

    @classmethod
    def of(cls, array: ZarrArray) -> GroupStaging:
        """Return the work directory for the accumulation of an array."""
        return cls(array.store, array.path, node_folder(array.store, group_path(array.path)))

    def _put_up(self, place: Path, root: Path, public: object) -> None:
        names = frozenset({"identity", "records", "scratch", "increment"})
        super().__init__(place, root, "group", names, f"accumulating into {public}")
        self.group, self.scratch = self.product, self.root / "scratch"
        self._record = self.root / "increment"

    def enter(self) -> None:
        """Create and lock the directory, and tidy up after an exchange by a killed process."""
        self.hold()
        try:
            if self.published:
                self.settle()
        except OSError:
            self.leave()
            with refusals_of(self.target):
                raise

    @property
    def unfinished(self) -> bool:
        """Whether the directory has chunks read by a build that can be finished."""
        records = self.root / "records"
        there = (self.root / "identity").exists() and records.exists() and records.stat().st_size > 0
        return there and not self.published

    def make(self, increment: Increment, array: ZarrArray) -> None:
        """Change the group in place; if the process is killed meanwhile, another one can finish."""
        write_synced(self._record, increment.encoded())
        sync_directory(self.root.parent)
        if not self._make(increment, array):
            raise replaced(array)

    def finish_increment(self, array: ZarrArray) -> None:
        """Finish a change begun by a killed process, unless the group has been replaced since."""
        try:
            increment = Increment.decoded(read_own(self._record))
        except FileNotFoundError:
            return
        if increment is None:
            self._record.unlink()
        else:
            self._make(increment, array)

    def _make(self, increment: Increment, array: ZarrArray) -> bool:
        made = increment.apply(array, place_of_array(array))
        # Not synced: a record that reappears after a power loss describes the present state and changes nothing.
        self._record.unlink()
        return made

    def abandon_if_useless(self) -> None:
        """Remove the directory unless a build can be finished from it, and release the lock."""
        if is_known(self._record.exists):
            self.leave()
        else:
            super().abandon_if_useless()

    def start_anew(self) -> None:
        """Remove the remains of an earlier build."""
        super().start_anew()
        self.scratch.mkdir()

    def start_group(self) -> None:
        """Create an empty directory for the new group."""
        self._done.unlink(missing_ok=True)
        remove(self.group)
        self.group.mkdir()

    def publish(self) -> None:
        """Move the finished group into place in one step; until then, the old one remains."""
        if os.path.lexists(self.target) and (not self.target.is_dir() or self.target.is_symlink()):
            raise TargetError(f"{self.target} is not a directory, so it is not replaced; remove it")
        self.put_in_place()

    def remove_unless_unfinished(self) -> None:
        """Remove the directory after finished work, unless a build can be finished; a failure only gives a warning."""
        if self.unfinished:
            self.leave()
        else:
            self.remove_after()


def build(
    plan: Plan,
    order: Order,
    shop: GroupStaging,
    threads: int,
    summers: int,
    client: Any,
    progress: Callable[[int, int], None] | None,
) -> Report:
    """Build the group in a work directory that is already locked, and move it into place."""
    recipe, array = plan.recipe, plan.array
    identity, count = plan.identity(), recipe.window.size
    goes_on = _goes_on(plan, order, shop, identity, count)
    if not goes_on:
        shop.start_anew()
    seen = settled(array)
    write_back(array)
    begin = Journal.resume if goes_on else Journal.create
    with (
        closing(begin(shop.root, identity, count, recipe.record_type)) as journal,
        closing(Scratch(shop.scratch, recipe.window, recipe.files)) as scratch,
    ):
        done = _trusted(recipe, journal, scratch, seen) if goes_on else np.zeros(count, bool)
        reading = Pass(recipe, np.flatnonzero(~done), seen, scratch, journal, progress, order.memory)
        if client is None:
            reading.by_threads(threads)
        else:
            reading.by_dask(client)
        unchanged(array, seen)
        others = table_of(plan.related)
        records, good = journal.read()
        if not good.all():
            raise TargetError(
                f"{array.store}: the partial sums of array {array.path!r} were changed by another program; run again"
            )
        missing, nonfinite = _excluded(plan, records)
        judgement = judge(recipe, records, plan.basis)
        if len(judgement.values):
            layout = plan.layout.with_outliers(len(judgement.values), array.ndim, recipe.meaning.dtype)
            plan = replace(plan, layout=layout)
        plan = replace(plan, notes=(*plan.notes, *judgement.notes(array.dims)))
        shop.start_group()
        target = Target(shop.group, plan.settings.codec, array.zarr_format)
        excluded = missing > 0 or len(judgement.values) > 0
        partial = PartialSums(recipe, scratch, records, plan.layout, plan.basis, excluded, judgement.repairs)
        table = np.concatenate([np.column_stack([seen, _checksums(plan, records)]), others])
        finish(partial, target, plan.weights, table, judgement, summers, plan.related)
        write_attributes(target, describe(plan, target, missing, nonfinite, judgement))
    unchanged(array, seen)
    for neighbour in plan.related:
        neighbour.unchanged(array)
    shop.publish()
    renew(array, target.documents, shop.root)
    found = {"missing": missing, "nonfinite": nonfinite, "resumed": int(done.sum())}
    report = report_of(plan, plan.action.word, counts=excluded, seen=seen, **found)
    shop.remove_after()
    return report


def _roots(home: Path, name: str) -> tuple[Path, Path]:
    """Return the work directories next to a store and in it."""
    return home.with_name(f".{home.name}.{name}.cfagg-accumulation"), home / f".cfagg-accumulation.{name}"


def _is_of(root: Path, variable: str) -> bool:
    """Return whether a directory was left for this array by an older version, in which arrays could share a name."""
    try:
        if Journal.array_in(root) == variable:
            return True
        increment = Increment.decoded(read_own(root / "increment"))
    except OSError:
        return False
    return increment is not None and increment.group == group_path(variable)


def _goes_on(plan: Plan, order: Order, shop: GroupStaging, identity: dict[str, Any], count: int) -> bool:
    """Return whether to finish an unfinished build; refuse to discard one unless asked to."""
    if not shop.unfinished:
        return False
    if Journal.belongs(shop.root, identity, count) and (order.resume or order.append or order.refresh):
        return True
    if order.append or order.refresh or order.overwrite:
        return False
    if order.resume:
        # Raises an error that lists the differences.
        Journal.resume(shop.root, identity, count, plan.recipe.record_type).close()
        return True
    raise TargetExistsError(
        f"{plan.array.store}: there is an unfinished accumulation of array {plan.array.path!r}; finish it with "
        "resume=True (--resume) or start again with overwrite=True (--overwrite)"
    )


def _trusted(recipe: Recipe, journal: Journal, scratch: Scratch, seen: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which chunks an earlier run finished, with complete records, unchanged objects and intact partial sums."""
    records, good = journal.read()
    now = seen[recipe.window.objects]
    for column, name in enumerate(("size", "time", "changed", "inode")):
        good &= records[name] == now[:, column]
    for number in np.flatnonzero(good).tolist():
        check = 0
        for field in recipe.files:
            if field.kind == "excluded" and not records["missing"][number]:
                continue
            check = crc32(scratch.part(field, number), check)
        good[number] = check == records["parts"][number]
    return good


def _checksums(plan: Plan, records: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the checksums of all objects, both those that were read and those of the part that remains."""
    window, out = plan.recipe.window, np.zeros(plan.array.objects.size, np.int64)
    if plan.basis is not None and plan.basis.group.extra is not None:
        group = plan.basis.group
        old = object_counts(group, plan.array)
        both = tuple(slice(min(a, b)) for a, b in zip(old, plan.array.objects.matrix_shape, strict=True))
        count = plan.basis.group.extra.source.objects
        known = group.objects[:count, 4].reshape(old)
        out.reshape(plan.array.objects.matrix_shape)[both] = known[both]
    first = window.leading
    out[window.objects[first]] = records["checksum"][first]
    return out


def _excluded(plan: Plan, records: npt.NDArray[Any]) -> tuple[int, int]:
    """Return the number of missing elements of the whole array, and how many of them are infinite."""
    missing, nonfinite = int(records["missing"].sum()), int(records["nonfinite"].sum())
    basis = plan.basis
    if basis is not None and basis.group.extra is not None:
        missing += missing_before(basis, plan.layout)
        # An upper bound: if it is unknown which of them remain, those of chunks that are read again count twice.
        nonfinite = min(missing, nonfinite + infinite_before(basis))
    return missing, nonfinite


def put_attributes(
    array: ZarrArray, folder: Path, attributes: dict[str, Any], documents: Mapping[str, Any], aside: Path
) -> None:
    """Replace the attributes of a group, and bring consolidated metadata up to date."""
    group = group_documents(attributes, array.zarr_format)
    for name, document in group.items():
        # The marker of a Zarr version 2 group exists already and is left alone.
        if name != ".zgroup":
            part = aside / f".{name}.part"
            write_synced(part, document_bytes(document))
            replace_file(part, folder / name)
    renew(array, {**documents, "": group}, aside)


def renew(array: ZarrArray, documents: Mapping[str, Mapping[str, Any]], aside: Path) -> None:
    """Update the consolidated metadata, if any, of the store and of groups above the array with the new group."""
    if isinstance(array.store, Url):
        return  # this is done when the group is published
    parts = group_path(array.path).split("/")
    for depth in range(len(parts)):
        above = Path(node_folder(array.store, "/".join(parts[:depth])))
        renew_consolidated(above, "/".join(parts[depth:]), documents, array.zarr_format, aside)


def _finish(shop: GroupStaging, array: ZarrArray) -> None:
    """Finish the work of a killed process that had put a group in place; consolidated metadata may still be old."""
    if not shop.published:
        return
    consolidate(array, shop.target, shop.root)
    shop.clear()


def consolidate(array: ZarrArray, folder: Path, aside: Path) -> None:
    """Bring consolidated metadata up to date with a group that is already in place."""
    if folder.is_dir():
        renew(array, read_documents(folder, array.zarr_format), aside)


def finish_dead(array: ZarrArray) -> None:
    """Finish or remove the work of a killed process; do nothing if another process is still at work."""
    if isinstance(array.store, Url):
        finish_there(array)
        return
    shop = GroupStaging.of(array)
    if not shop.root.is_dir():
        return
    try:
        shop.enter()
    except TargetError:
        return  # another process is at work, or the directory is not ours, which an attempt to build here will report
    try:
        shop.finish_increment(array)
        if not shop.published:
            # Its attributes may have been written without renewing consolidated metadata.  A group that cannot be read
            # is reported when it is needed.
            with suppress(CfaggError):
                consolidate(array, shop.target, shop.root)
        _finish(shop, array)
    except OSError as error:
        raise TargetError(f"{shop.target} is in place, but not finished: {reason(error, shop.target)}") from error
    finally:
        shop.abandon_if_useless()


@contextmanager
def working(shop: GroupStaging, plan: Plan, order: Order) -> Iterator[None]:
    """Hold the work directory, turn system errors into one-sentence messages, and leave no useless directory behind."""
    shop.enter()
    more = " and overwrite=True (--overwrite)" if order.overwrite and plan.existing else ""
    # An append of data, which may have called, must not be repeated.
    again = "with refresh=True (--refresh)" if order.append or order.refresh else f"with resume=True (--resume){more}"
    hint = f"; finished work is kept, finish it {again}"
    try:
        _finish(shop, plan.array)
        yield
    except KeyboardInterrupt:
        what = "is complete" if is_known(lambda: shop.published) else "was not written"
        rest = hint if is_known(lambda: shop.unfinished) else ""
        raise KeyboardInterrupt(f"interrupted: {plan.folder} {what}{rest}") from None
    except LimitError:
        # The same data would exceed the limit again.
        shop.clear()
        raise
    except AccessError:
        # Access is refused until another run allows other places.
        shop.take_back()
        raise
    except CfaggError:
        raise
    except OSError as error:
        if is_known(lambda: shop.published):
            rest = f"is in place, but not finished; finish it {again}"
            raise TargetError(f"{plan.folder} {rest}: {reason(error, plan.folder)}") from error
        rest = hint if is_known(lambda: shop.unfinished) else ""
        raise TargetError(f"{plan.folder} was not written: {reason(error, plan.folder)}{rest}") from error
    finally:
        shop.abandon_if_useless()

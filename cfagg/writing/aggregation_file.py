"""Writing a complete aggregation file: plan it, write its fragments, write the file aside and move it into place."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cfagg.arrays.netcdf_source import open_source
from cfagg.conventions.encoded import Names
from cfagg.display.sizes import count_text
from cfagg.errors import CfaggError, LossError, OptionError, TargetError, TargetExistsError
from cfagg.findings.losses import Loss
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.zarr.attributes import with_members
from cfagg.model import Aggregation
from cfagg.runtime.files import check_file, written_aside
from cfagg.runtime.netcdf_files import closing_written, created
from cfagg.runtime.object_files import check_object, exists, object_at
from cfagg.runtime.progress import task
from cfagg.runtime.publishing import refusals_of, remove, sync_directory, sync_tree
from cfagg.storage.access import Access, NamedAccess
from cfagg.storage.objects import ObjectStore
from cfagg.storage.urls import Url, are_nested, is_url
from cfagg.writing import dialects, fragments, replacing
from cfagg.writing.attributes import NAMED_AS_A_DIMENSION, expressible, name_flaw
from cfagg.writing.content import Aggregated, Content, Held
from cfagg.writing.netcdf import define, locked, set_attributes, type_flaw, write_held, write_small
from cfagg.writing.plan import OnLoss, Work, decreasing, plan
from cfagg.writing.references import as_path, relative, used_files
from cfagg.writing.report import Report

__all__ = ["Target", "write_file", "written"]


@dataclass(frozen=True)
class Target:
    """Where and how an aggregation file is written; with a `url`, it is written at `path` and then uploaded."""

    path: Path
    to: str
    on_loss: OnLoss = "error"
    relative_to: str | None = None
    overwrite: bool = False
    url: Url | None = None
    #: The expected tag of the object at `url`: it is only replaced if it still has this tag.
    match: str | None = None
    #: The file is replaced by a grown one, and those to which this refers are known to be others.
    grows: bool = False

    @property
    def base(self) -> str:
        """The directory to which references are relative."""
        return os.path.abspath(self.relative_to) if self.relative_to is not None else str(self.path.parent)  # noqa: PTH100

    @property
    def access(self) -> Access:
        """The policy for the references of the file, here or moved to where they are relative to."""
        return Access(self.url or self.path, () if self.base == "/" or self.url is not None else (self.base,))

    def check(self) -> None:
        """Raise an error if the target cannot or must not be written."""
        if self.url is not None:
            check_object(self.url, overwrite=self.overwrite)
            return
        path = self.path
        check_file(path)
        found = path if os.path.lexists(path) else next(fragments.others(path), None)
        if found is not None and not self.overwrite:
            raise exists(found)


def write_file(
    content: Content,
    target: Target,
    losses: tuple[Loss, ...] = (),
    notes: tuple[str, ...] = (),
    before: Callable[[Path], object] = lambda _: None,
) -> Report:
    """Write an aggregation file; `losses` and `notes` are from building `content`."""
    # `before` is called with the complete file before it is moved into place.
    target.check()
    content, odd, named = _in_netcdf(content, drop=target.on_loss == "drop")
    if odd and target.on_loss != "drop":
        things = "attribute" if all(loss.what.startswith("attribute") for loss in odd) else "thing"
        raise LossError(
            f"{target.url or target.path} was not written: {count_text(len(odd), things)} cannot be expressed in "
            "netCDF; on_loss='drop' (--on-loss drop) leaves them out",
            odd,
        )
    losses, notes = (*losses, *odd), (*notes, *named)
    for one in (v for group in content.walk() for v in group.variables.values() if isinstance(v, Aggregated)):
        if one.access is not None and not target.grows:
            one.access.check_copied(used_files(one.aggregation), one.home, target.access)
    if target.url is None:
        return _write_here(content, target, losses, notes, before)
    objects, name = object_at(target.url)
    # Read this before the fragments: if two runs overlap, the later one to finish then sees that the file has changed.
    seen = objects.part(name, 0, 1) if target.overwrite and target.match is None else None
    match = target.match if seen is None else seen.tag
    create = not target.overwrite or (seen is None and target.match is None)
    former = _fragments_there(objects, name)
    with tempfile.TemporaryDirectory(prefix="cfagg-") as folder:
        here = replace(target, path=Path(folder) / name, url=None)
        for taken in former:
            (here.path.parent / taken).mkdir()
        try:
            report = _write_here(content, here, losses, notes)
        except CfaggError as error:
            # Messages must not name the temporary directory.
            error.message = error.message.replace(str(here.path), str(target.url))
            raise
        _check_references(here, target.url)
        new = [path for path in here.path.parent.rglob("*") if path.is_file() and path != here.path]
        keys = [path.relative_to(here.path.parent).as_posix() for path in new]
        made: list[str] = []
        try:
            for key, path in zip(keys, new, strict=True):
                # Another run may use the same names by now; neither changes or removes what the other wrote.
                objects.put(key, path, create=True)
                made.append(key)
        except CfaggError:
            with contextlib.suppress(CfaggError):
                objects.delete(made)
            raise
        groups = open_source(str(here.path)).root.walk()
        policy = Access(target.url)
        found = ((one, policy) for g in groups for one in g.variables.values() if isinstance(one, Aggregation))
        home = target.url.rpartition("/")[0]
        used = _used(found, target.url, home, [f"{home}/{taken}" for taken in former]) if former else set()
        before(here.path)
        try:
            objects.put(name, here.path, create=create, match=match)
        except TargetExistsError:
            # If the object is this very file, the response to a first attempt was lost and the retry found its result.
            if objects.read(name) != here.path.read_bytes():
                objects.delete(keys)
                raise
    objects.delete([key for taken, keys in former.items() if f"{home}/{taken}" not in used for key in keys])
    return replace(report, target=str(target.url))


def _in_netcdf(content: Content, *, drop: bool) -> tuple[Content, tuple[Loss, ...], tuple[str, ...]]:
    """Return content without names and attributes that netCDF lacks, or types if they may drop, and a loss for each."""
    # Members of enumerations, whose types are not written, become flags, with a note on each.
    at = content.path.strip("/")
    own, losses = expressible(content.attributes, None, at or "/")
    notes: tuple[str, ...] = ()
    flaws = {name: flaw for name in content.dimensions if (flaw := name_flaw(name)) is not None}
    losses += tuple(Loss(at or "/", None, "the dimension", repr(name), flaw) for name, flaw in flaws.items())
    variables: dict[str, Held | Aggregated] = {}
    for name, one in content.variables.items():
        of = one if isinstance(one, Held) else one.aggregation
        path = f"{at}/{name}".lstrip("/")
        named_so = next((f for n in (name, *of.dims) if (f := name_flaw(n)) is not None), None)
        if named_so is not None:
            losses += (Loss(path, None, "the variable", f"named {name!r}, of dimensions {of.dims}", named_so),)
            continue
        if drop and (flaw := type_flaw(of.dtype)) is not None:
            losses += (Loss(path, None, "the variable", "it is left out", flaw),)
            continue
        given, named = with_members(of.attributes, of.dtype, path)
        attributes, lost = expressible(given, of.dtype, path)
        notes += named
        if attributes is of.attributes:
            variables[name] = one
        elif isinstance(one, Held):
            variables[name] = replace(one, attributes=attributes)
        else:
            variables[name] = replace(one, aggregation=replace(one.aggregation, attributes=attributes))
        losses += lost
    groups = []
    for group in content.groups:
        last = group.path.rpartition("/")[2]
        if flaw := name_flaw(last) or (NAMED_AS_A_DIMENSION if last in content.dimensions else None):
            losses += (Loss(group.path.strip("/"), None, "the group", repr(group.path), flaw),)
            continue
        inner, lost, named = _in_netcdf(group, drop=drop)
        groups.append(inner)
        losses += lost
        notes += named
    dimensions = {name: size for name, size in content.dimensions.items() if name not in flaws}
    found = replace(content, dimensions=dimensions, attributes=own, variables=variables, groups=tuple(groups))
    return found, losses, notes


def _fragments_there(objects: ObjectStore, name: str) -> dict[str, list[str]]:
    """Return the folders with fragments of an earlier file in an object store, and the keys in each."""
    found: dict[str, list[str]] = {}
    while True:
        folder = f"{name}.fragments{f'-{len(found) + 1}' if found else ''}"
        keys = [key for key in objects.listed(folder) if key.startswith(f"{folder}/")]
        if not keys:
            return found
        if not all(key.endswith(".nc") for key in keys):
            raise TargetError(f"{objects.path}/{folder} contains objects that are not fragments; choose another name")
        found[folder] = keys


def _check_references(target: Target, url: Url) -> None:
    """Raise an error if a file for another machine refers to local files, which are never read from there."""
    own = f"{target.path.name}.fragments"
    for group in open_source(str(target.path)).root.walk():
        for one in group.variables.values():
            tables = (one.partitions, *one.partitions.versions) if isinstance(one, Aggregation) else ()
            for name in (name for table in tables for name in table.files):
                if is_url(name) and are_nested(url, name):
                    raise replacing.lost(url)
                if not (is_url(name) or name.removeprefix("./").startswith(own)):
                    raise OptionError(
                        f"{url} was not written: variable {one.name!r} would refer to files of this machine, which are "
                        "never read from there; write it to this machine, then to the URL with cfagg.rebase (cfagg "
                        "rebase -o), which moves the references to the fragments there"
                    )


def _write_here(
    content: Content,
    target: Target,
    losses: tuple[Loss, ...],
    notes: tuple[str, ...],
    before: Callable[[Path], object] = lambda _: None,
) -> Report:
    works = _plans(content, target)
    refused = [loss for work in works.values() for loss in work.refused]
    if refused:
        raise _refusal(refused, target)
    kept = {path: work for path, work in works.items() if not work.left_out}
    if not target.grows:
        named = NamedAccess(target.path)
        found = ((work.referring, work.aggregated.access or named) for work in kept.values())
        replacing.refuse_to_lose(target.path, found, target.base)
    made = fragments.names_of(kept)
    folder = fragments.place_for(target.path)
    arrived = False
    try:
        with written(target.path, create=not target.overwrite) as aside:
            if any(work.rows.size for work in kept.values()):
                inside = aside.with_name("file.fragments")
                inside.mkdir()
                with task("fragments", sum(int(work.rows.size) for work in kept.values())) as step:
                    for path, work in kept.items():
                        fragments.write_fragments(work, inside, made[path], target.to, step)
            else:
                inside = None
            _write(content, kept, made, folder, target, aside)
            before(aside)
            if inside is not None:
                sync_tree(inside)
                sync_directory(inside.parent)
                inside.rename(folder)
                arrived = True
                sync_directory(folder.parent)
    except TargetExistsError:
        if arrived:
            remove(folder)
        raise
    _remove_former(target, kept, folder)
    return Report(
        target=str(target.path),
        dialect=target.to,
        variables=tuple(path.lstrip("/") for path in kept),
        partitions=sum(work.aggregation.grid.size for work in kept.values()),
        fragments=sum(int(work.rows.size) for work in kept.values()),
        losses=(*losses, *(loss for work in works.values() for loss in work.losses)),
        notes=(*notes, *dict.fromkeys(note for work in kept.values() for note in work.notes), *_computed(kept, folder)),
    )


def _computed(kept: Mapping[str, Work], folder: Path) -> list[str]:
    """Return notes on the values that were written into fragments beside the file."""
    count = sum(int(work.rows.size) for work in kept.values())
    return (
        [f"{count:,} fragment{'s'[: count != 1]} {'was' if count == 1 else 'were'} written to {folder.name}"]
        if count
        else []
    )


def _refusal(refused: list[Loss], target: Target) -> LossError:
    """Return the error that lists everything that would be lost."""
    count = len(refused)
    things = f"{count:,} thing{'s'[: count != 1]}"
    remedy = "on_loss='materialise' writes fragments for these partitions, on_loss='drop' leaves out what is lost"
    if target.on_loss == "materialise":
        remedy = "no fragment can express it; on_loss='drop' leaves it out"
    return LossError(
        f"{target.path} was not written: {target.to} cannot express {things} of the source; {remedy}", refused
    )


def _plans(content: Content, target: Target) -> dict[str, Work]:
    """Return the plan for each aggregation by its path."""
    works: dict[str, Work] = {}

    def walk(group: Content, above: Mapping[str, bool]) -> None:
        down = decreasing(group, above)
        for name, one in group.variables.items():
            if not isinstance(one, Held):
                path = f"{group.path.rstrip('/')}/{name}"
                works[path] = plan(one, target.to, target.on_loss, target.base, down, path.lstrip("/"))
        for inner in group.groups:
            walk(inner, down)

    walk(content, {})
    return works


@contextmanager
def written(path: Path, *, create: bool = False) -> Iterator[Path]:
    """Yield the name of a new file that replaces the target if the block succeeds; report system errors."""
    # With `create`, raise `TargetExistsError` if another process has written the target meanwhile.
    with refusals_of(path):
        try:
            with written_aside(path, create=create) as made:
                yield made
        except FileExistsError as error:
            if not create or isinstance(error, CfaggError):
                raise
            raise exists(path) from error


def _write(
    content: Content,
    works: Mapping[str, Work],
    made: Mapping[str, list[str]],
    folder: Path,
    target: Target,
    aside: Path,
) -> None:
    """Write the file itself."""
    import netCDF4

    change = relative(str(target.path.parent), target.base)

    def write(group: Content, into: Any, dims: Mapping[str, int]) -> None:
        sizes = {**dims, **group.dimensions}
        with LIBRARY:
            for dim, size in group.dimensions.items():
                into.createDimension(dim, size or None)
            set_attributes(into, group.attributes)
        names = Names(sizes, group.variables)
        for name, one in group.variables.items():
            if isinstance(one, Held):
                if not one.private or dialects.has_own_fragments(target.to):
                    write_held(into, name, one)
                continue
            path = f"{group.path.rstrip('/')}/{name}"
            if path not in works:
                continue
            files = [change(as_path(f"{folder.name}/{file}")) for file in made[path]]
            aggregation = works[path].with_fragments(files, name, target.to)
            encoded = dialects.encode(aggregation, target.to, names)
            with LIBRARY:
                for dim, size in encoded.dimensions.items():
                    if dim not in sizes and dim not in into.dimensions:
                        into.createDimension(dim, size)
                define(into, name, (), encoded.dtype, encoded.attributes)
                for own, (spanned, values, attributes) in encoded.variables.items():
                    write_small(into, own, spanned, values, attributes)
        for inner in group.groups:
            with LIBRARY:
                place = into.createGroup(inner.path.rpartition("/")[2])
            write(inner, place, sizes)

    given = dict(content.attributes)
    given["Conventions"] = dialects.conventions_of(given.get("Conventions"), target.to)
    whole = Content(content.path, content.dimensions, given, content.variables, content.groups)
    with locked(lambda: closing_written(created(lambda: netCDF4.Dataset(aside, "w"), aside), aside)) as file:
        write(whole, file, {})


def _remove_former(target: Target, kept: Mapping[str, Work], folder: Path) -> None:
    """Remove fragments of the replaced file that the new one does not use, directly or through other files."""
    former = {os.path.realpath(found): found for found in fragments.others(target.path) if found != folder}
    if former:
        policy = Access(target.path)
        found = ((work.referring, policy) for work in kept.values())
        used = _used(found, str(target.path), target.base, former)
        for place in former.keys() - used:
            remove(former[place])


def _used(aggregations: Iterable[tuple[Aggregation, Access]], file: str, home: str, folders: Iterable[str]) -> set[str]:
    """Return which of some folders the aggregations refer to, or may refer to, directly or through other files."""
    found = set()
    for place in replacing.reached(aggregations, file, home):
        if place is None:
            return set(folders)
        found.add(place.rpartition("/")[0])
    return found.intersection(folders)

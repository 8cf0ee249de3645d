"""Exporting a source as references that other libraries read, or raising an error that lists the refused losses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from cfagg.arrays.source import Source, refuse_unreadable
from cfagg.arrays.untold import unread_attributes
from cfagg.errors import LossError, OptionError, TargetError
from cfagg.errors.arguments import a_path, is_one, shown
from cfagg.findings.losses import Loss
from cfagg.model import Aggregation
from cfagg.runtime.files import NewFolder, check_file
from cfagg.runtime.object_files import check_object, exists, written_object
from cfagg.runtime.publishing import put, refusals_of, sync_tree
from cfagg.storage.access import Access
from cfagg.storage.urls import Url, a_place, is_url
from cfagg.writing.aggregation_file import written
from cfagg.writing.exports import kerchunk
from cfagg.writing.exports.content import nodes_of
from cfagg.writing.exports.planned import Node, Planned
from cfagg.writing.exports.planning import Means
from cfagg.writing.plan import OnLoss
from cfagg.writing.references import home_of
from cfagg.writing.replacing import is_one_of, lost, refuse_to_lose
from cfagg.writing.report import Report

__all__ = ["EXPORTS", "check_output", "export", "write_directory"]

#: Export formats.
EXPORTS = ("kerchunk", "icechunk")

_PARQUET = (".parquet", ".parq")


def export(
    source: Source,
    access: Access,
    output: str | os.PathLike[str],
    to: str,
    *,
    on_loss: str = "error",
    overwrite: bool = False,
    word_size: int | None = None,
    target_options: dict[str, Any] | None = None,
) -> Report:
    """Write references to the values of a source; if something is inexpressible, raise a `LossError` that lists it."""
    # `"kerchunk"` is JSON, or the Parquet layout if the name ends with `.parquet` or `.parq`; `"icechunk"` is a
    # repository in a directory.
    if not is_one(to, EXPORTS):
        raise OptionError(f"to={shown(to)} is not one of {', '.join(map(repr, EXPORTS))}")
    name = a_path(output, "output", expected="name a file")
    parquet = to == "kerchunk" and name.lower().rstrip("/").endswith(_PARQUET)
    url = a_place(name, target_options, expected="name a file") if is_url(name) else None
    if url is not None and (to == "icechunk" or parquet):
        raise OptionError(
            f"{url} is a URL, to which only JSON is written: write a directory on this machine, and copy it"
        )
    check_output(name, url, directory=to == "icechunk" or parquet, overwrite=overwrite)
    if on_loss != "drop":
        found = (error for group in source.root.walk() for error in group.lacking.values())
        refuse_unreadable(found, "leave it out with on_loss='drop'")
    unread = unread_attributes(source, None, drop=on_loss == "drop")
    means = Means(to, 3 if to == "icechunk" else 2, to == "icechunk", cast("OnLoss", on_loss))
    if to == "icechunk":
        from cfagg.writing.exports import icechunk

        icechunk.require_icechunk()
    root = nodes_of(source, access, means, word_size)
    root, losses, left = _judged(root, name, means)
    arrays = [a for node in root.walk() for a in node.arrays]
    here = next((k.path for a in arrays for k in a.references.files if not is_url(k.path)), None)
    used = (source.path, *(k.path for a in arrays for k in a.references.files))
    if overwrite and is_one_of(url if isinstance(url, Url) else Path(name), used):
        raise lost(name)
    if overwrite and url is None:
        # Values of variables that are left out would be lost as well.
        for one in (one for group in source.root.walk() for one in group.variables.values()):
            if isinstance(one, Aggregation):
                refuse_to_lose(Path(name), [(one, access)], home_of(one.source, one.partitions.files))
    if isinstance(url, Url) and here is not None:
        raise OptionError(
            f"{url} was not written: it would refer to {here}, a file of this machine; write it to this machine"
        )
    if to == "icechunk":
        notes = write_directory(name, lambda folder: icechunk.write(root, folder), overwrite=overwrite)
        form = "Icechunk"
    elif parquet:
        notes = write_directory(name, lambda folder: kerchunk.write_parquet(root, folder), overwrite=overwrite)
        form = "kerchunk Parquet"
    else:
        notes, form = _file(name, url, overwrite, kerchunk.json_bytes(root)), "kerchunk JSON"
    for path in left:
        why = "without what is lost, its values would differ"
        losses += (Loss(path, None, "the variable", "it is left out", why),)
    unreadable = tuple(
        Loss(f"{g.path.strip('/')}/{n}".lstrip("/"), None, "the variable", "it is left out", error.message)
        for g in source.root.walk() for n, error in g.lacking.items()
    )  # fmt: skip
    return Report(
        target=name,
        dialect=form,
        variables=tuple(a.path for a in arrays if a.references.cell.size),
        partitions=sum(a.partitions for a in arrays),
        losses=(*losses, *unreadable, *unread, *(loss for a in arrays for loss in a.dropped)),
        notes=(*(note for a in arrays for note in a.notes), *notes),
    )


def check_output(name: str, url: str | None, *, directory: bool, overwrite: bool) -> None:
    """Raise an error if the output cannot or must not be written."""
    if isinstance(url, Url):
        check_object(url, overwrite=overwrite)
        return
    path = Path(name)
    if not directory:
        check_file(path)
    elif not path.parent.is_dir():
        raise TargetError(f"{path} cannot be written: there is no directory {path.parent}")
    if os.path.lexists(path) and not overwrite:
        raise exists(path)
    if directory and os.path.lexists(path) and not _is_ours(path):
        raise TargetError(f"{path} is neither an Icechunk repository nor references in Parquet; it is not replaced")


def _is_ours(path: Path) -> bool:
    """Return whether a directory has the content of an export, or is empty."""
    if not path.is_dir() or path.is_symlink():
        return False
    names = {entry.name for entry in path.iterdir()}
    if not names or {"snapshots", "manifests"} <= names:
        return True
    # Consolidated Zarr stores have a file of this name as well.
    with suppress(OSError, ValueError):
        return ".zmetadata" in names and "record_size" in json.loads((path / ".zmetadata").read_bytes())
    return False


def _judged(root: Node, name: str, means: Means) -> tuple[Node, tuple[Loss, ...], tuple[str, ...]]:
    """Return the tree to write, the losses, and the arrays that are left out; raise if losses are refused."""
    found = [a for node in root.walk() for a in node.arrays]
    losses = [loss for a in found for loss in a.losses]
    if means.on_loss == "drop":
        left = {a.path for a in found if a.losses}
        return _without(root, left), tuple(losses), tuple(sorted(left))
    refused = losses
    remedy = "on_loss='materialise' writes the values of these partitions, on_loss='drop' leaves the variable out"
    if means.on_loss == "materialise":
        refused = [loss for a in found for loss in _refused(a, means)]
        remedy = "it cannot be written inside, or is too large for that; on_loss='drop' leaves the variable out"
    if refused:
        count = len(refused)
        things = f"{count:,} thing{'s'[: count != 1]}"
        raise LossError(
            f"{name} was not written: {means.name} cannot express {things} of the source; {remedy}", refused
        )
    return root, (), ()


def _refused(array: Planned, means: Means) -> tuple[Loss, ...]:
    """Return the losses of an array whose values cannot be written, or would make a file of references too large."""
    is_large = means.name == "kerchunk" and bool(array.losses) and array.written_bytes > kerchunk.INLINE
    return array.losses if is_large or not array.writable else ()


def _without(node: Node, left: set[str]) -> Node:
    return replace(
        node,
        arrays=tuple(a for a in node.arrays if a.path not in left),
        groups=tuple(_without(inner, left) for inner in node.groups),
    )


def _file(name: str, url: str | None, overwrite: bool, data: bytes) -> tuple[str, ...]:
    """Write a file atomically: completely or not at all."""
    if isinstance(url, Url):
        with written_object(url, create=not overwrite) as made:
            made.write_bytes(data)
    else:
        with written(Path(os.path.realpath(name)), create=not overwrite) as made:
            made.write_bytes(data)
    return (kerchunk.NOTE,)


def write_directory(name: str, write: Callable[[Path], Iterable[str]], *, overwrite: bool) -> tuple[str, ...]:
    """Write a directory atomically: completely or not at all."""
    target = Path(os.path.realpath(name))
    with _aside(target) as folder:
        made = folder.path / "file"
        made.mkdir()
        notes = tuple(write(made))
        sync_tree(made)
        try:
            put(made, target, folder.path / "former", create=not overwrite)
        except FileExistsError as error:
            raise exists(target) from error
    return notes


@contextmanager
def _aside(target: Path) -> Any:
    """Yield a new directory beside a target, which is always removed afterwards; report system errors."""
    with refusals_of(target):
        folder, done = NewFolder(target), False
        try:
            yield folder
            done = True
        finally:
            folder.remove(done=done)

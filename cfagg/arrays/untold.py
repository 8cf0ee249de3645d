"""Properties of dimensions that the written format cannot express, and attributes that are not even read."""

from __future__ import annotations

from collections.abc import Collection

from cfagg.arrays.source import Group, Source
from cfagg.display.sizes import count_text
from cfagg.errors import LossError
from cfagg.findings.losses import Loss

__all__ = ["unlimited_note", "unread_attributes", "unused_note"]


def unread_attributes(source: Source, chosen: Collection[str] | None, *, drop: bool) -> tuple[Loss, ...]:
    """Return what is lost of the attributes of chosen variables and their groups; unless `drop`, raise an error."""
    why = "the library that reads the file does not read its type; write it as numbers or text"
    losses = tuple(
        Loss(path, None, f"attribute {name!r}", found, why)
        for path, unread in source.unread.items()
        if chosen is None or path == "/" or any(f"{one}/".startswith(f"{path}/") for one in chosen)
        for name, found in unread.items()
    )
    if losses and not drop:
        raise LossError(
            f"{source.path}: {count_text(len(losses), 'attribute')} cannot be read; on_loss='drop' (--on-loss drop) "
            "leaves them out",
            losses,
        )
    return losses


def unlimited_note(root: Group, chosen: Collection[str] | None, why: str, *, empty: bool = True) -> tuple[str, ...]:
    """Return the note that unlimited dimensions of written variables are no longer unlimited, if there are any.

    `chosen` are the paths of these variables, all if it is `None`.  Without `empty`, dimensions of size 0 stay
    unlimited.

    >>> unlimited_note(Group("/", {"time": 3, "x": 2}, frozenset({"time"})), None, "Zarr does not say it")
    ("unlimited dimensions ('time') have fixed sizes in what is written: Zarr does not say it",)
    """
    names = [
        _path(group, d)
        for group in root.walk()
        for d, size in group.dimensions.items()
        if d in group.unlimited
        and (size or empty)
        and (d in group.public_dimensions if chosen is None else d in _used(group, chosen))
    ]
    return (f"unlimited dimensions ({_listed(names)}) have fixed sizes in what is written: {why}",) if names else ()


def unused_note(root: Group, why: str) -> tuple[str, ...]:
    """Return the note that dimensions of no variable are left out, if there are any.

    >>> unused_note(Group("/", {"bnds": 2}), "Zarr has those of arrays only")
    ("dimensions of no variable ('bnds') are left out: Zarr has those of arrays only",)
    """
    names = [_path(g, d) for g in root.walk() for d in g.public_dimensions if d not in _used(g, None)]
    return (f"dimensions of no variable ({_listed(names)}) are left out: {why}",) if names else ()


def _path(group: Group, name: str) -> str:
    return f"{group.path.strip('/')}/{name}".lstrip("/")


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, names))


def _used(group: Group, chosen: Collection[str] | None) -> set[str]:
    """Return the dimensions of chosen variables in a group and below."""
    return {
        d
        for inner in group.walk()
        for name, one in inner.variables.items()
        if chosen is None or _path(inner, name) in chosen
        for d in one.dims
    }

"""Changes of attributes that findings propose, their combined effect, and how they are displayed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cfagg.findings.finding import Edit, Finding
from cfagg.model.dataset import AttributeValue, Dataset, Group, Variable

__all__ = ["Change", "difference", "net_changes", "owners_of", "place_of", "planned", "try_change"]

#: Largest number of characters of a value that a diff shows.
_SHOWN = 200

#: Fill values of arrays of Zarr v2 that do not mean ``_FillValue``.
_NO_FILL = (None, 0, "")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one attribute that a rule proposes; `name` is `None` for a deletion, `before` for a new attribute."""

    path: str | None
    attribute: str
    before: AttributeValue
    name: str | None
    after: AttributeValue
    code: str


def net_changes(changes: list[Change]) -> list[Change]:
    """Return changes with the same overall effect that change each attribute only once.

    The netCDF library ignores the deletion of an attribute that it has changed before.
    """
    found: dict[tuple[str | None, str], Change] = {}
    for change in changes:
        for one in _merged(found, change):
            found[one.path, one.attribute] = one
    return list(found.values())


def _merged(found: dict[tuple[str | None, str], Change], change: Change) -> list[Change]:
    """Return a change combined with those in `found`, and remove the ones that it supersedes."""
    path, name = change.path, change.attribute
    deleted = found.get((path, name))
    if deleted is not None and deleted.name is None:
        return [replace(change, before=deleted.before)] if change.name == name else [change]
    former = next((c for c in found.values() if c.path == path and c.name == name), None)
    if former is None:
        return [change]
    del found[path, former.attribute]
    code = former.code if change.code in former.code.split() else f"{former.code} {change.code}"
    gone = [Change(path, former.attribute, former.before, None, None, code)] if former.before is not None else []
    renamed = former.attribute != name
    if change.name is None:
        return gone
    if change.name == name:
        if renamed:
            return [*gone, replace(change, before=None, code=code)]
        return [replace(change, before=former.before, code=code)]
    if renamed:
        return [Change(path, former.attribute, former.before, change.name, former.after, code)]
    return [*gone, Change(path, change.name, None, change.name, former.after, code)]


def try_change(attributes: dict[str, AttributeValue], change: Change) -> None:
    """Apply a change to the attributes in the model."""
    if change.name is None:
        del attributes[change.attribute]
    elif change.name != change.attribute:
        renamed = {change.name if n == change.attribute else n: v for n, v in attributes.items()}
        attributes.clear()
        attributes.update(renamed)
    else:
        attributes[change.name] = change.after


def planned(dataset: Dataset, findings: Iterable[Finding], *, unsafe: bool = False) -> tuple[list[Change], list[str]]:
    """Return the changes that findings propose, with `unsafe` ones if requested, and those that are refused.

    Of several changes of one attribute the first is made; the others show up when the result is checked again.
    """
    owners = owners_of(dataset)
    changes: list[Change] = []
    refused: list[str] = []
    touched: set[tuple[int, str]] = set()
    for finding in findings:
        for edit in finding.fix:
            if not (edit.safe or unsafe):
                refused.append(
                    f"{finding.code}: {place_of(edit.variable, edit.attribute)}: the change may alter the meaning; "
                    "--unsafe-fixes makes it"
                )
                continue
            owner = owners.get(edit.variable)
            if owner is None or (id(owner), edit.attribute) in touched:
                continue
            change = _change(owner, edit, finding.code)
            if change is None:
                continue
            if (
                change.name is None
                and change.attribute == "_FillValue"
                and getattr(owner, "fill", None) not in _NO_FILL
            ):
                refused.append(
                    f"{finding.code}: {place_of(edit.variable, edit.attribute)}: it is the fill value of the array in "
                    "version 2 of Zarr, and fixing changes only attributes; write the array again with fill_value null"
                )
                continue
            names = {edit.attribute, change.name or edit.attribute}
            if any((id(owner), n) in touched for n in names):
                continue
            touched |= {(id(owner), n) for n in names}
            changes.append(change)
    return changes, list(dict.fromkeys(refused))


def owners_of(dataset: Dataset) -> dict[str | None, Variable | Group]:
    """Return variables and groups by the names that edits use for them."""
    owners: dict[str | None, Variable | Group] = {v.path: v for v in dataset.variables}
    owners |= {f"{g.path}/": g for g in dataset.groups if g.path != "/"}
    owners |= {g.path: g for g in dataset.groups if g.path not in owners}
    owners[None] = owners["/"] = dataset.root
    return owners


def _change(owner: Variable | Group, edit: Edit, code: str) -> Change | None:
    """Return a change, or `None` if there is nothing to change."""
    before = owner.attributes.get(edit.attribute)
    path = None if isinstance(owner, Group) and owner.path == "/" else owner.path
    if isinstance(owner, Group) and path is not None:
        path = f"{path}/"
    if edit.rename is not None:
        # An attribute is not renamed to a name that is already taken.
        if edit.attribute not in owner.attributes or edit.rename in owner.attributes:
            return None
        return Change(path, edit.attribute, before, edit.rename, before, code)
    if edit.value is None:
        return Change(path, edit.attribute, before, None, None, code) if edit.attribute in owner.attributes else None
    return Change(path, edit.attribute, before, edit.attribute, _plain(edit.value), code)


def _plain(value: Any) -> AttributeValue:
    """Return a new value in a type that the model uses."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(v, str) for v in value):
        return tuple(value)
    return np.asarray(value).reshape(-1)


def difference(changes: Iterable[Change], source: str, target: str) -> str:
    """Return changes as a diff of two CDL texts."""
    lines: list[str] = []
    by_owner: dict[str | None, list[Change]] = {}
    for change in changes:
        by_owner.setdefault(change.path, []).append(change)
    for path, group in by_owner.items():
        codes = " ".join(dict.fromkeys(" ".join(c.code for c in group).split()))
        lines.append(f"@@ {path or 'global attributes'} @@ {codes}")
        for change in group:
            if change.before is not None:
                lines.append(f"-  {place_of(path, change.attribute)} = {_cdl(change.before)} ;")
            if change.name is not None:
                lines.append(f"+  {place_of(path, change.name)} = {_cdl(change.after)} ;")
    return "\n".join([f"--- {source}", f"+++ {target}", *lines]) if lines else ""


def place_of(path: str | None, attribute: str) -> str:
    """Return how an attribute is named in messages."""
    return f"{path or ''}:{attribute}"


def _cdl(value: AttributeValue) -> str:
    """Return a value in CDL notation, shortened."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, tuple):
        return _short(", ".join(_quoted(str(v)) for v in value))
    if isinstance(value, np.ndarray):
        known = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
        ends = {"i1": "b", "u1": "ub", "i2": "s", "u2": "us", "u4": "u", "i8": "ll", "u8": "ull", "f4": "f"}
        end = ends.get(value.dtype.str[1:], "")
        numbers = (repr(v.item()) if value.dtype != np.float32 else str(v) for v in value[:64])
        return _short(", ".join(known.get(n, n) + end for n in numbers))
    return _short(repr(value))


def _quoted(text: str) -> str:
    escaped = "".join({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}.get(c, c) for c in text[: _SHOWN + 1])
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in escaped)
    return f'"{_short(shown)}"'


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

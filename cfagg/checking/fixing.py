"""Fixing what a check found: the changes that findings propose, shown as a difference and written to a copy.

Only attributes are changed.  A dataset is never changed in place unless that is asked for, and then a finished copy
takes its place.  What was written is checked again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from cfagg.checking.engine import run
from cfagg.checking.findings import Edit, Finding
from cfagg.checking.model import AttributeValue, Dataset, Group, Variable
from cfagg.checking.opening import open_dataset
from cfagg.checking.options import Options
from cfagg.errors import TargetError, TargetExistsError, UnsupportedError
from cfagg.runtime.files import remove_dead

__all__ = ["Change", "Fixed", "difference", "fix", "planned"]

#: Characters of a value that a difference shows.
_SHOWN = 200

#: Rounds of changes: renaming an attribute may show that its value is wrong.
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one attribute.

    Parameters
    ----------
    path : str or None
        The variable, or a group with a slash at its end; `None` for the root group.
    attribute : str
        Its name before.
    before : AttributeValue
        Its value before, `None` where there was none.
    name : str or None
        Its name afterwards, `None` where it is deleted.
    after : AttributeValue
        Its value afterwards.
    code : str
        The rule that asks for it.
    """

    path: str | None
    attribute: str
    before: AttributeValue
    name: str | None
    after: AttributeValue
    code: str


@dataclass(slots=True)
class Fixed:
    """What fixing has come to.

    Parameters
    ----------
    source : str
        The dataset that was checked.
    changes : list of Change
        What was or would be changed.
    refused : list of str
        What was not, and why, in sentences.
    output : str or None
        The dataset that was written, `None` where none was.
    remaining : list of Finding
        What a check finds in what was written.
    """

    source: str
    changes: list[Change] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    output: str | None = None
    remaining: list[Finding] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The changes as a difference."""
        return difference(self.changes, self.source, self.output or "fixed")


def fix(
    source: str | Path,
    findings: Iterable[Finding] | None = None,
    output: str | Path | None = None,
    *,
    unsafe: bool = False,
    in_place: bool = False,
    overwrite: bool = False,
    options: Options | None = None,
) -> Fixed:
    """Fix what can be fixed without a decision by the user.

    Parameters
    ----------
    source : str or path
        A netCDF file or a Zarr store on this machine.
    findings : iterable of Finding, optional
        What a check has found in it; it is checked if these are not given.
    output : str or path, optional
        Where the corrected copy is written.  Without it, and without `in_place`, nothing is written.
    unsafe : bool
        Make changes too that may alter the meaning.
    in_place : bool
        Replace the source by the corrected copy.
    overwrite : bool
        Replace what is at `output`.
    options : Options, optional
        As it was and is checked.

    Returns
    -------
    Fixed
        What was changed, what not, and what is still found.

    Raises
    ------
    UnsupportedError
        If a dataset of this kind cannot be written.
    TargetExistsError
        If there is something at `output`.
    TargetError
        If the copy cannot be written, or would have errors that the source has not.
    """
    options = options or Options()
    place = str(source)
    with open_dataset(place, options=options) as dataset:
        found = run(dataset, options).findings if findings is None else list(findings)
        fixed = Fixed(place)
        _plan(dataset, found, fixed, options, unsafe=unsafe)
        form = _form(dataset)
    target = place if in_place else str(output) if output is not None else None
    if target is None:
        return fixed
    if in_place and not fixed.changes:
        remove_dead(Path(os.path.realpath(target)))
        return fixed
    if form is None:
        raise UnsupportedError(
            f"{place} is {dataset.format} and cannot be changed; netCDF files and Zarr stores on this machine can"
        )
    there = not in_place and os.path.exists(target)  # noqa: PTH110 - Path raises where it may not be looked for
    if there and not overwrite:
        raise TargetExistsError(f"{target} exists already; pass overwrite=True (--overwrite) to replace it")
    if there and Path(target).samefile(place):
        raise TargetExistsError(f"{target} is the source itself; pass in_place=True (--in-place) to replace it")
    fixed.remaining = _write(form, place, target, fixed, found, options)
    fixed.output = target
    return fixed


def _plan(dataset: Dataset, found: list[Finding], fixed: Fixed, options: Options, *, unsafe: bool) -> None:
    """Find all changes, trying them on the model: one may show what another rule has to say."""
    codes = {f.code for f in found}
    now = found
    for _ in range(_ROUNDS):
        changes, refused = planned(dataset, (f for f in now if f.code in codes), unsafe=unsafe)
        fixed.refused = list(dict.fromkeys([*fixed.refused, *refused]))
        if not changes:
            return
        fixed.changes = _net([*fixed.changes, *changes])
        owners = _owners(dataset)
        for change in changes:
            _try(owners[change.path].attributes, change)
        now = run(dataset, options).findings


def _net(changes: list[Change]) -> list[Change]:
    """Return the changes that come to the same, each attribute changed once: the last value counts.

    The netCDF library forgets a deletion of what it has changed before.
    """
    found: dict[tuple[str | None, str], Change] = {}
    for change in changes:
        for one in _merged(found, change):
            found[one.path, one.attribute] = one
    return list(found.values())


def _merged(found: dict[tuple[str | None, str], Change], change: Change) -> list[Change]:
    """Return what a change comes to after those found, and take away those that it takes the place of."""
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


def _try(attributes: dict[str, AttributeValue], change: Change) -> None:
    """Make a change in the model."""
    if change.name is None:
        del attributes[change.attribute]
    elif change.name != change.attribute:
        renamed = {change.name if n == change.attribute else n: v for n, v in attributes.items()}
        attributes.clear()
        attributes.update(renamed)
    else:
        attributes[change.name] = change.after


def _form(dataset: Dataset) -> str | None:
    """Return how a dataset is written, `None` where it cannot be."""
    if dataset.path is None or dataset.format not in ("netcdf", "zarr", "nczarr"):
        return None
    return "zarr" if Path(dataset.path).is_dir() else "netcdf"


def _write(form: str, source: str, target: str, fixed: Fixed, before: list[Finding], options: Options) -> list[Finding]:
    """Write the corrected copy and return what is found in it."""
    from cfagg.checking.fixing_copy import copied, finished

    with copied(source, target) as copy:
        if form == "zarr":
            from cfagg.checking.fixing_zarr import change
        else:
            from cfagg.checking.fixing_netcdf import change
        fixed.refused += change(copy, fixed.changes)
        # References are relative to where the file will stand, which the copy does not yet.
        again = replace(options, references=False)
        with open_dataset(copy, options=again) as dataset:
            after = run(dataset, again).findings
        known = {(f.code, f.variable) for f in before}
        worse = [f for f in after if f.severity == "error" and (f.code, f.variable) not in known]
        if worse:
            raise TargetError(
                f"{target} was not written: the changes would introduce errors that {source} lacks, the first of them: "
                f"{worse[0]}; leave out its cause with --ignore"
            )
        finished(copy, target)
    return after


def planned(dataset: Dataset, findings: Iterable[Finding], *, unsafe: bool = False) -> tuple[list[Change], list[str]]:
    """Return the changes that findings propose, and what of it is refused.

    Of several changes of one attribute the first is made; the others show when what was written is checked again.

    Parameters
    ----------
    dataset : Dataset
        What was checked.
    findings : iterable of Finding
        What was found in it.
    unsafe : bool
        Whether changes that may alter the meaning are made too.
    """
    owners = _owners(dataset)
    changes: list[Change] = []
    refused: list[str] = []
    touched: set[tuple[int, str]] = set()
    for finding in findings:
        for edit in finding.fix:
            if not (edit.safe or unsafe):
                refused.append(
                    f"{finding.code}: {_place(edit.variable, edit.attribute)}: the change may alter the meaning; "
                    "--unsafe-fixes makes it"
                )
                continue
            owner = owners.get(edit.variable)
            if owner is None or (id(owner), edit.attribute) in touched:
                continue
            change = _change(owner, edit, finding.code)
            if change is None:
                continue
            names = {edit.attribute, change.name or edit.attribute}
            if any((id(owner), n) in touched for n in names):
                continue
            touched |= {(id(owner), n) for n in names}
            changes.append(change)
    return changes, list(dict.fromkeys(refused))


def _owners(dataset: Dataset) -> dict[str | None, Variable | Group]:
    """Return variables and groups by what edits call them."""
    owners: dict[str | None, Variable | Group] = {v.path: v for v in dataset.variables}
    owners |= {f"{g.path}/": g for g in dataset.groups if g.path != "/"}
    owners |= {g.path: g for g in dataset.groups if g.path not in owners}
    owners[None] = owners["/"] = dataset.root
    return owners


def _change(owner: Variable | Group, edit: Edit, code: str) -> Change | None:
    """Return a change, `None` where there is nothing to change."""
    before = owner.attributes.get(edit.attribute)
    path = None if isinstance(owner, Group) and owner.path == "/" else owner.path
    if isinstance(owner, Group) and path is not None:
        path = f"{path}/"
    if edit.rename is not None:
        # A name that is taken stays as it is.
        if edit.attribute not in owner.attributes or edit.rename in owner.attributes:
            return None
        return Change(path, edit.attribute, before, edit.rename, before, code)
    if edit.value is None:
        return Change(path, edit.attribute, before, None, None, code) if edit.attribute in owner.attributes else None
    return Change(path, edit.attribute, before, edit.attribute, _plain(edit.value), code)


def _plain(value: Any) -> AttributeValue:
    """Return a new value in a form of the model."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(v, str) for v in value):
        return tuple(value)
    return np.asarray(value).reshape(-1)


def difference(changes: Iterable[Change], source: str, target: str) -> str:
    """Return changes as a difference of two texts in CDL.

    Parameters
    ----------
    changes : iterable of Change
        The changes.
    source, target : str
        What the two are called.

    Examples
    --------
    >>> print(difference([Change("time", "calendar", "gregorian", "calendar", "standard", "TIM011")], "a.nc", "b.nc"))
    --- a.nc
    +++ b.nc
    @@ time @@ TIM011
    -  time:calendar = "gregorian" ;
    +  time:calendar = "standard" ;
    """
    lines: list[str] = []
    by_owner: dict[str | None, list[Change]] = {}
    for change in changes:
        by_owner.setdefault(change.path, []).append(change)
    for path, group in by_owner.items():
        codes = " ".join(dict.fromkeys(" ".join(c.code for c in group).split()))
        lines.append(f"@@ {path or 'global attributes'} @@ {codes}")
        for change in group:
            if change.before is not None:
                lines.append(f"-  {_place(path, change.attribute)} = {_cdl(change.before)} ;")
            if change.name is not None:
                lines.append(f"+  {_place(path, change.name)} = {_cdl(change.after)} ;")
    return "\n".join([f"--- {source}", f"+++ {target}", *lines]) if lines else ""


def _place(path: str | None, attribute: str) -> str:
    return f"{path or ''}:{attribute}"


def _cdl(value: AttributeValue) -> str:
    """Return a value as CDL writes it, shortened."""
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

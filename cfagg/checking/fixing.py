"""Fixing findings of a check: the changes that they propose, shown as a diff and written to a copy.

Only attributes are changed.  A dataset is changed in place only on request, and then a finished copy replaces it. The
result is checked again.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cfagg.checking.changes import Change, difference
from cfagg.checking.engine import COUNTED, run
from cfagg.checking.fixing_plan import new_errors, plan
from cfagg.checking.opening import open_dataset
from cfagg.checking.options import Options
from cfagg.checking.suppressions import Hiding, Suppression
from cfagg.errors import TargetError, TargetExistsError, UnsupportedError
from cfagg.findings.finding import Finding
from cfagg.model.dataset import Dataset
from cfagg.runtime.files import remove_dead
from cfagg.storage.urls import Url, is_url

__all__ = ["FixReport", "fix"]


@dataclass(slots=True)
class FixReport:
    """The result of fixing: changes, refused changes with reasons, and the findings that remain in the written copy.

    `output` is `None` if nothing was written.
    """

    source: str
    changes: list[Change] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    output: str | None = None
    remaining: list[Finding] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The changes as a diff."""
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
    suppressions: Sequence[Suppression] = (),
) -> FixReport:
    """Fix what can be fixed without a decision by the user in a netCDF file or Zarr store.

    The source is checked if no `findings` are given. The corrected copy is written to `output`, a path or the URL of an
    object store, or replaces the source with `in_place`; without either, nothing is written. `unsafe` changes may alter
    the meaning. Findings that `suppressions` hide are neither fixed nor counted. Kinds of datasets that cannot be
    written raise `UnsupportedError`. Changes that would make errors are left out and listed in ``refused``; a copy
    with such errors raises `TargetError`.
    """
    options = options or Options()
    place = str(source)
    hiding = Hiding(place, suppressions)
    with open_dataset(place, options=options) as dataset:
        found = run(dataset, options, hiding, COUNTED).findings if findings is None else list(findings)
        fixed = FixReport(place)
        fixed.changes, fixed.refused = plan(dataset, found, options, hiding, unsafe=unsafe)
        form = _form(dataset)
    target = place if in_place else str(output) if output is not None else None
    if target is None:
        return fixed
    if in_place and not fixed.changes:
        remove_dead(Path(os.path.realpath(target)))
        return fixed
    if form is None:
        remedy = "; copy it to this machine, and fix the copy" if is_url(place) else ""
        raise UnsupportedError(
            f"{place} is {dataset.format} and cannot be changed; netCDF files and Zarr stores on this machine can"
            f"{remedy}"
        )
    if in_place:
        _check_replaceable(place)
    if is_url(target) and not in_place:
        fixed.remaining = _write_there(form, place, Url(target), fixed, found, options, hiding, overwrite=overwrite)
        fixed.output = target
        return fixed
    there = not in_place and os.path.exists(target)  # noqa: PTH110 - Path raises where it may not be looked for
    if there and not overwrite:
        raise TargetExistsError(f"{target} exists already; pass overwrite=True (--overwrite) to replace it")
    if there and Path(target).samefile(place):
        raise TargetExistsError(f"{target} is the source itself; pass in_place=True (--in-place) to replace it")
    fixed.remaining = _write(form, place, target, fixed, found, options, hiding)
    fixed.output = target
    return fixed


def _form(dataset: Dataset) -> str | None:
    """Return the form in which a dataset is written, or `None` if it cannot be."""
    if dataset.path is None or dataset.format not in ("netcdf", "zarr", "nczarr"):
        return None
    return "zarr" if Path(dataset.path).is_dir() else "netcdf"


def _check_replaceable(place: str) -> None:
    """Refuse to replace a file that is write-protected, or that would go on existing under other names."""
    found = os.stat(place)  # noqa: PTH116 - messages of other errors name the path as text, too
    if not stat.S_ISREG(found.st_mode):
        return
    remedy = "write a copy with output="
    if not found.st_mode & 0o222 or not os.access(place, os.W_OK):
        raise TargetError(f"{place} is write-protected; permit writing first, or {remedy}")
    if found.st_nlink > 1:
        raise TargetError(
            f"{place} has {found.st_nlink} names (hard links), and the others would keep the former content; {remedy}"
        )


def _write_there(
    form: str,
    source: str,
    target: Url,
    fixed: FixReport,
    before: list[Finding],
    options: Options,
    hiding: Hiding,
    *,
    overwrite: bool,
) -> list[Finding]:
    """Write the corrected copy to an object store once it is complete, and return the findings in it."""
    from cfagg.runtime.object_files import check_object, written_object
    from cfagg.runtime.object_publishing import new_there

    with tempfile.TemporaryDirectory(prefix="cfagg-") as folder:
        made = f"{folder}/{Path(source).name}"
        if form == "zarr":
            place = new_there(target, overwrite=overwrite)
            after = _write(form, source, made, fixed, before, options, hiding, str(target))
            place.upload(Path(made))
            return after
        check_object(target, overwrite=overwrite)
        with written_object(target, create=not overwrite) as aside:
            return _write(form, source, str(aside), fixed, before, options, hiding, str(target))


def _write(
    form: str,
    source: str,
    target: str,
    fixed: FixReport,
    before: list[Finding],
    options: Options,
    hiding: Hiding,
    name: str | None = None,
) -> list[Finding]:
    """Write the corrected copy and return the findings in it; messages name it `name`, or else as it is."""
    from cfagg.checking.fixing_copy import copied, finished

    with copied(source, target) as copy:
        if form == "zarr":
            from cfagg.checking.fixing_zarr import change
        else:
            from cfagg.checking.fixing_netcdf import change
        fixed.refused += change(copy, fixed.changes)
        # References are relative to the final place of the file, and the copy is elsewhere.
        again = options._replace(references=False)
        with open_dataset(copy, options=again) as dataset:
            after = run(dataset, again, hiding, COUNTED).findings
        if worse := new_errors(before, after):
            raise TargetError(
                f"{name or target} was not written: the changes would introduce errors that {source} lacks, the first "
                f"of them: {worse[0]}; leave out its cause with --ignore"
            )
        finished(copy, target)
    return after

"""`cfagg.create_observations`: a store of observations from a recipe."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cfagg.errors import AccessError, CfaggError, ConventionError, TargetError, TargetExistsError, UnsupportedError
from cfagg.errors.arguments import a_path, flags, shared
from cfagg.errors.extras import require
from cfagg.formats.values.locks import LIBRARY
from cfagg.observations.building import Budget, Built, Work, build
from cfagg.observations.layouts import dumped
from cfagg.observations.provenance import Base, iso, open_base
from cfagg.observations.recipe import Recipe, load_recipe
from cfagg.observations.writing import Place
from cfagg.runtime.budget import parse_size, worker_count
from cfagg.runtime.publishing import read_own, reason, write_synced
from cfagg.runtime.staging import is_known
from cfagg.runtime.targets import check_target_name
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url, a_place, is_url

__all__ = ["Report", "create_observations"]

#: Version of the format of an unfinished build.
_FORM = "cfagg observations 1"


@dataclass(frozen=True)
class Report:
    """The result of `create_observations`, or its plan for a dry run.

    Parameters
    ----------
    path : str
        The store.
    format, date_indexing : str
        Its layout and the kind of its index.
    parts : tuple of (str, str)
        Dates of the parts that were read, ends not included; including those that an earlier run of the build had read.
    resumed : int
        Number of these that an earlier run had read.
    variables : tuple of str
        Names of the variables; empty if nothing was built.
    rows : int
        Number of rows of the store.
    read : int
        Number of rows that were read, without those already in the store.
    duplicates : int
        Number of these that were duplicates of each other or of rows in the store.
    first, last : str or None
        Dates of the first and the last row.
    nbytes : int
        Size of its chunks of rows in bytes.
    rounded : tuple of str
        Variables with integers above 16,777,216, which float32 rounds.
    notes : tuple of str
        Notes for the user about the store.
    seconds : float
        Duration in seconds.
    dry_run : bool
        Whether nothing was read or written.
    """

    path: str
    format: str
    date_indexing: str
    parts: tuple[tuple[str, str], ...]
    resumed: int = 0
    variables: tuple[str, ...] = ()
    rows: int = 0
    read: int = 0
    duplicates: int = 0
    first: str | None = None
    last: str | None = None
    nbytes: int = 0
    rounded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the report in JSON types."""
        return asdict(self)

    def __repr__(self) -> str:
        if self.dry_run or not self.parts:
            return f"<Report of {self}>"
        notes = f", {len(self.notes):,} note{'s'[: len(self.notes) > 1]}" if self.notes else ""
        what = f"{self._extent()}, {self.first} to {self.last}"
        return f"<Report of {self.path}: {what}{notes}>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        facts = (
            ("store", self.path),
            ("rows", f"{self.rows:,}"),
            ("dates", f"{self.first} to {self.last}" if self.first else None),
            ("duplicates", f"{self.duplicates:,} dropped" if self.duplicates else None),
            ("rounded to float32", ", ".join(self.rounded)),
            ("parts", f"{len(self.parts):,} {'to read' if self.dry_run else 'read'}"),
        )
        return facts_html("Observations", facts, [("variables", self.variables), ("notes", self.notes)])

    def _extent(self) -> str:
        from cfagg.display.sizes import count_text

        return f"{count_text(self.rows, 'row')} of {count_text(len(self.variables), 'variable')}"

    def __str__(self) -> str:
        from cfagg.display.sizes import count_text

        if self.dry_run or not self.parts:
            todo = f"{count_text(len(self.parts), 'part')} to read" if self.parts else "nothing new to read"
            return f"{self.path}: {todo}"
        said = f"{self.path}: {self._extent()}, {self.first} to {self.last}"
        if self.duplicates:
            said += f"; {count_text(self.duplicates, 'duplicate')} dropped"
        if self.rounded:
            said += f"; integers of {', '.join(self.rounded)} rounded to float32"
        return "\n".join([said, *(f"note: {note}" for note in self.notes)])


@LIBRARY.keeping_files()
def create_observations(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    resume: bool = False,
    append: bool = False,
    workers: int | None = None,
    memory: int | str = "512MiB",
    client: Any = None,
    progress: Callable[[int, int], None] | None = None,
    dry_run: bool = False,
    target_options: Mapping[str, Any] | None = None,
) -> Report:
    """Build a store of observations from a recipe.

    The store appears only when it is complete.  Rows are sorted, and equal rows are stored once; the store does not
    depend on how the dates are divided into parts, nor on which worker reads them.

    Parameters
    ----------
    recipe : path, mapping or Recipe
        A YAML file with the schema of the published software, or the same as a mapping; see
        `cfagg.observations.recipe.load_recipe`.
    path : path
        The store, whose name usually ends in ``.zarr``, or a URL in an object store, ``s3://``, ``gs://`` or ``az://``:
        it is then built in the directory for temporary files and uploaded when it is complete.
    overwrite : bool
        Whether a store, or an unfinished build, may be replaced.
    resume : bool
        Finish an interrupted build of the same recipe, or start one if there is none; with `overwrite`, a build that
        replaces a store.
    append : bool
        Read only what the store does not cover yet, and add it.  The recipe must be that of the store with other dates.
    workers : int, optional
        Number of threads; by default that of the recipe, or the number of processors.
    memory : int or str
        Total memory for rows, in bytes or as text such as ``"2GiB"``; sources need more while they read.
    client : distributed.Client or str, optional
        A Dask cluster, or the address of its scheduler, whose workers see the target and the sources by the same
        paths.
    progress : callable, optional
        Called from time to time as ``progress(done, total)``, in thousandths.
    dry_run : bool
        Check everything that can be checked without reading a source, and write nothing.
    target_options : mapping, optional
        For a URL, like the ``storage_options`` of `cfagg.read`.

    Returns
    -------
    Report
        What was done.

    Raises
    ------
    ConventionError
        The recipe is not valid, or rows cannot be stored; source, part, column and row are named.
    SourceError
        A source cannot be read, or has no observations.
    TargetExistsError, TargetError
        The target exists, is not a store of observations, or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> def buoy(start, end):
    ...     dates = pd.date_range(start, end, freq="6h", inclusive="left")
    ...     return pd.DataFrame({"date": dates, "latitude": 45.0, "longitude": -20.0, "sst": 288.0})
    >>> recipe = {
    ...     "dates": {"start": "2020-01-01", "end": "2020-01-31", "frequency": "1d"},
    ...     "input": buoy,
    ...     "output": {"layout": "tabular"},
    ... }
    >>> folder = tempfile.TemporaryDirectory()
    >>> report = create_observations(recipe, f"{folder.name}/buoy.zarr")
    >>> report.rows, report.variables, report.last
    (124, ('sst',), '2020-01-31T18:00:00')
    >>> folder.cleanup()
    """
    began = time.perf_counter()
    flags(overwrite=overwrite, resume=resume, append=append, dry_run=dry_run)
    if overwrite and append:
        raise ConventionError("overwrite and append cannot be combined; give one of them")
    shared(progress=progress, workers=workers, target_options=target_options)
    require("builds of observations", "pandas", "pyarrow")
    name = a_path(path, expected="name a directory for the store")
    if not append:
        check_target_name(name)
    if is_url(name) or target_options:
        there = a_place(path, target_options, options_name="target_options")
        if isinstance(there, Url):
            if append or resume or dry_run:
                raise UnsupportedError(
                    f"{there}: append, resume and dry_run are not supported for stores in object stores; leave them out"
                )
            return _into_objects(recipe, there, overwrite, memory=memory, workers=workers, client=client,
                                 progress=progress)  # fmt: skip
    given = load_recipe(recipe)
    budget = Budget(parse_size(memory), worker_count(given.build.max_workers if workers is None else workers))
    place = Place(path, overwrite=overwrite or append, resume=resume)
    if dry_run:
        return _planned(given, path, open_base(path, given) if append else None, dry_run=True)
    place.enter()
    try:
        # The existing store is opened when nobody else can change it.
        base = open_base(path, given) if append else None
        report = _planned(given, path, base)
        if base is not None and not base.new:
            _finish(place)
            return report
        identity = _identity(given, report.parts, base)
        if _claim(place, identity, replace=overwrite or append, resume=resume, append=append):
            _finish(place)
            return _of_store(report, path, began)
        parts = given.parts() if base is None else base.new
        work = Work(place.work, place.store, budget, client, progress or Work.tell)
        built = build(given, parts, work, base)
        place.publish(_digest(identity))
    except KeyboardInterrupt:
        place.abandon_if_useless()
        what = "is complete" if is_known(lambda: place.finished) else "was not written"
        raise KeyboardInterrupt(f"interrupted: {place.target} {what}{_kept(place, append=append)}") from None
    except BaseException as error:
        if isinstance(error, AccessError):
            place.take_back()
        place.abandon_if_useless()
        if not isinstance(error, OSError) or isinstance(error, CfaggError | BrokenPipeError):
            raise
        kept = _kept(place, append=append)
        raise TargetError(f"{place.target} cannot be written: {reason(error, place.target)}{kept}") from error
    if progress is not None:
        progress(1000, 1000)
    return _report(report, built, base, began)


def _kept(place: Place, *, append: bool) -> str:
    """Return how a run is finished whose work is partly done, or nothing if none is."""
    if not is_known(lambda: place.unfinished):
        return ""
    return f"; finished work is kept, {'finish it by the same call' if append else place.remedy}"


def _into_objects(recipe: Any, target: Url, overwrite: bool, **given: Any) -> Report:
    """Build a store locally and write it to an object store."""
    from cfagg.runtime.object_publishing import new_there

    place = new_there(target, overwrite=overwrite)
    with tempfile.TemporaryDirectory(prefix="cfagg-") as folder:
        report = create_observations(recipe, Path(folder) / "store.zarr", **given)
        place.upload(Path(folder) / "store.zarr")
    return replace(report, path=str(target))


def _planned(recipe: Recipe, path: str | os.PathLike[str], base: Base | None, *, dry_run: bool = False) -> Report:
    """Return the report on the planned work that is known before anything is read."""
    parts = recipe.parts() if base is None else base.new
    if not parts and base is None:
        raise ConventionError("all dates of the recipe are listed as missing, so there is nothing to read; correct it")
    named = tuple((iso(a), iso(b)) for a, b in parts)
    return Report(os.fspath(path), recipe.output.format, recipe.output.date_indexing, named, dry_run=dry_run)


def _report(planned: Report, built: Built, base: Base | None, began: float) -> Report:
    first, last = (iso(date) for date in built.dates)
    rows, before = built.layout.rows, 0 if base is None else base.store.rows
    names = ("resumed", "variables", "read", "nbytes", "rounded", "notes")
    found = {name: getattr(built, name) for name in names}
    twice, seconds = built.read + before - rows, time.perf_counter() - began
    return replace(planned, **found, rows=rows, duplicates=twice, first=first, last=last, seconds=seconds)


def _of_store(planned: Report, path: str | os.PathLike[str], began: float) -> Report:
    """Return the report of a build that an earlier call had finished except for the cleanup."""
    from cfagg.observations.store import open_store

    store = open_store(path)
    first, last = (None, None) if store.span is None else (iso(e) for e in store.span)
    found: dict[str, Any] = {"resumed": len(planned.parts), "variables": store.variables, "rows": store.rows}
    return replace(planned, **found, first=first, last=last, seconds=time.perf_counter() - began)


def _claim(place: Place, identity: Mapping[str, Any], *, replace: bool, resume: bool, append: bool) -> bool:
    """Prepare the work directory for a build; return whether the same build is finished and in place already."""
    if place.is_built(_digest(identity)):
        return True
    if place.finished:
        if resume and _journal(place) == identity:
            return True
        if not replace:
            raise TargetExistsError(f"{place.target} exists; choose another name or replace it with overwrite=True")
    elif (resume or append) and _begun(place, identity, resume):
        return False
    elif not replace:
        place.check_unfinished()
    place.start_anew()
    write_synced(place.journal, dumped(identity))
    return False


def _begun(place: Place, identity: Mapping[str, Any], resume: bool) -> bool:
    """Whether the work directory contains a build with the same identity, which can be finished."""
    found = _journal(place)
    if found == dict(identity):
        for path in (place.work, place.store):
            path.mkdir(exist_ok=True)
        return True
    # An unreadable journal belongs to no build.
    if not (resume and found and place.unfinished):
        return False
    names = [k for k in identity if found.get(k) != identity[k]]
    raise TargetError(
        f"the unfinished build of {place.target} differs from this one in its {' and '.join(names) or 'version'}, so "
        "it cannot be resumed; repeat the call with the original recipe, or start again with overwrite=True "
        "(--overwrite)"
    )


def _journal(place: Place) -> dict[str, Any]:
    """Return the identity of the build in the work directory, or an empty one if it cannot be read."""
    try:
        found = json.loads(read_own(place.journal))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _identity(recipe: Recipe, parts: Sequence[tuple[str, str]], base: Base | None) -> dict[str, Any]:
    """Return the properties that a build must share with an unfinished one to finish it."""
    from cfagg._version import __version__

    document = {k: v for k, v in recipe.document.items() if k not in ("build", "description")}
    return {
        "form": _FORM,
        "version": __version__,
        "recipe": _digest([document, recipe.build.allow_nans]),
        "parts": _digest(list(parts)),
        "sources": _digest([_stamp(s.get("path", "")) for s in recipe.files()]),
        "store": None if base is None else base.store.identity,
    }


def _stamp(path: str) -> list[Any]:
    """Return a stamp of a source file for detecting changes."""
    if isinstance(path, Url):
        try:
            key = handles.get(path).key
        except CfaggError:  # a store, or an error that reading will report
            return [path]
        return [path, key.size, key.modified]
    try:
        status = Path(path).stat() if path else None
    except (OSError, ValueError):
        status = None
    return [path] if status is None else [path, status.st_size, status.st_mtime_ns]


def _digest(value: Any) -> str:
    return hashlib.blake2b(json.dumps(value, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


def _finish(place: Place) -> None:
    """Remove the work directory of a store that is in its place."""
    if place.finished:
        place.settle()
        place.remove_after()
    place.abandon_if_useless()

"""Importing netCDF into a store of observations, and building stores from frames in any order, in bounded memory."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.arrays.netcdf_source import open_source
from cfagg.errors import CfaggError, ConventionError, Problem, TargetError, TargetExistsError
from cfagg.errors.arguments import a_path
from cfagg.observations.building import Budget, Work, write_store
from cfagg.observations.exchange.documents import KEY, Document, parse_document
from cfagg.observations.exchange.table import COLUMNS
from cfagg.observations.frames import META, attributes_of, check_frame, check_rows, conform, encode_frame
from cfagg.observations.layouts import full_chunk
from cfagg.observations.merging import Run, sort_unique, write_run
from cfagg.observations.writing import Place, check_variables
from cfagg.runtime import files
from cfagg.runtime.publishing import refusals_of
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url, a_place

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NewStore", "import_netcdf", "place_of", "written_aside"]

type Rows = npt.NDArray[np.float32]

#: Size in bytes of the rows that are sorted at once.
RUN_BYTES = 128 << 20


class NewStore(NamedTuple):
    """A store to be written: its location and layout."""

    target: str | os.PathLike[str]
    format: str
    date_indexing: str
    overwrite: bool
    options: Mapping[str, Any] | None = None

    def assemble(
        self, frames: Iterable[pd.DataFrame], variables: Sequence[str], where: str, attributes: Mapping[str, Any]
    ) -> Path | Url:
        """Write the rows of frames, sorted and without duplicates."""
        if self.date_indexing not in ("bisect", "btree"):
            raise ConventionError(f"{self.date_indexing!r} is not a kind of index; choose bisect or btree")
        names = check_variables(variables)
        full_chunk(self.format, len(META) + len(names), None)
        there = a_place(self.target, self.options, name="target", options_name="target_options")
        if isinstance(there, Url):
            from cfagg.runtime.object_publishing import new_there

            new = new_there(there, overwrite=self.overwrite)
            with tempfile.TemporaryDirectory(prefix="cfagg-") as folder:
                here = self._replace(target=Path(folder) / "store.zarr", overwrite=False, options=None)
                new.upload(Path(here.assemble(frames, names, where, attributes)))
            return there
        place = Place(self.target, overwrite=self.overwrite)
        with place.new():
            runs = list(_runs(frames, names, place.work, where))
            work = Work(place.work, place.store, Budget(4 * RUN_BYTES, 2))
            write_store(runs, names, (self.format, None), self.date_indexing, attributes, work)
        return place.target


def _runs(frames: Iterable[pd.DataFrame], variables: Sequence[str], folder: Path, where: str) -> Iterator[Run]:
    """Sort the rows of many frames at once, up to `RUN_BYTES`; yield runs in files."""
    held: list[Rows] = []
    count = 0
    for given in chain(frames, [None]):
        if given is not None:
            frame = check_rows(check_frame(given, where), where)
            rows = np.empty((len(frame), len(META) + len(variables)), np.float32)
            encode_frame(conform(frame, variables, where), variables, rows, where)
            held.append(rows)
        if held and (given is None or sum(rows.nbytes for rows in held) >= RUN_BYTES):
            yield write_run(folder / f"run-{count}", sort_unique(np.concatenate(held)))
            held, count = [], count + 1


def place_of(path: Any, target_options: Mapping[str, Any] | None) -> Path | Url:
    """Return the path or URL of a file to write."""
    place = a_place(path, target_options, expected="name the file to write", options_name="target_options")
    return place if isinstance(place, Url) else Path(a_path(path, expected="name the file to write"))


@contextlib.contextmanager
def written_aside(target: Path | Url, *, overwrite: bool) -> Iterator[Path]:
    """Yield the name of a new file that replaces the target when the block succeeds."""
    if isinstance(target, Url):
        from cfagg.runtime.object_files import check_object, written_object

        check_object(target, overwrite=overwrite)
        with written_object(target, create=not overwrite) as made:
            yield made
        return
    if os.path.isdir(target):  # noqa: PTH112 - Path raises where it may not be looked for
        raise TargetError(f"{target} is a directory; name a file")
    exists = TargetExistsError(f"{target} exists; choose another name or replace it with overwrite=True")
    if os.path.lexists(target) and not overwrite:
        raise exists
    with refusals_of(target):
        try:
            with files.written_aside(target.resolve(), create=not overwrite) as made:
                yield made
        except FileExistsError as error:  # another process has written it meanwhile
            if overwrite or isinstance(error, CfaggError):
                raise
            raise exists from error


#: Global attributes that describe a store, and their names in the store.
_GLOBAL = {
    "title": "title",
    "institution": "institution",
    "source": "source",
    "references": "references",
    "comment": "comment",
    "license": "licence",
}


def import_netcdf(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    format: Literal["zarr2", "cfagg"] = "zarr2",  # noqa: A002
    date_indexing: Literal["bisect", "btree"] = "bisect",
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
) -> Path | Url:
    """Build a store from a netCDF file of `export_netcdf`, or with any of CF's discrete sampling geometries.

    Rows are sorted, and duplicates are dropped.  A file that `export_netcdf` wrote gives a store with the same rows,
    variables and attributes as the original; its statistics are those of all rows.  Other files are read like the
    source ``netcdf`` of a recipe.

    Parameters
    ----------
    path : path
        The file, or its URL.
    target : path
        The store, or its URL in an object store.
    format, date_indexing
        As for the output of a recipe: the layout of the store, and the kind of its index.
    overwrite : bool
        Whether a store may be replaced.
    storage_options, target_options : mapping, optional
        For URLs of the file and of the store, like the ``storage_options`` of `cfagg.read`.

    Returns
    -------
    pathlib.Path
        The store, or its URL in an object store.

    Raises
    ------
    SourceError
        The file cannot be read.
    ConventionError
        It is not a table of observations; variables and rows are named.
    TargetExistsError, TargetError
        The store exists, or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import cfagg
    >>> from cfagg.demo import sample
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = import_netcdf(sample("storms.nc"), f"{folder}/storms.zarr")
    ...     ds = cfagg.open_observations(store, "2005-08-28", "2005-08-28", "[0,24)", "24h")
    ...     print(ds.variables, ds[0][:, 0].max())
    ('wind', 'pressure', 'gale', 'hurricane', 'track') 150.0
    """
    from cfagg.observations.sources.netcdf import read_netcdf

    where = a_place(path, storage_options, expected="name a netCDF file")
    if isinstance(where, Url):
        handles.renew(where)  # in its present state, not as it was last opened
    document, about = _provenance(where)
    frames = read_netcdf(where, columns=None if document is None else document.variables)
    first = next(frames)
    variables = [str(c) for c in first.columns if c not in COLUMNS]
    attributes = attributes_of(first)
    if document is not None:
        if len(variables) != len(document.variables):
            raise ConventionError(
                f"{where}: the variables in the attribute {KEY!r} are not those of the file",
                [Problem("variables", f"expected {', '.join(variables)}, found {', '.join(document.variables)}")],
            )
        attributes = {v: _attributes(v, attributes.get(v, {}), document) for v in variables}
        about = document.of_store
    about["variables_metadata"] = {k: v for k, v in attributes.items() if v}
    new = NewStore(target, format, date_indexing, overwrite, target_options)
    return new.assemble(chain([first], frames), variables, where, about)


def _provenance(path: str) -> tuple[Document | None, dict[str, Any]]:
    """Return the document that cfagg wrote into a file, if any, and its descriptive global attributes."""
    if isinstance(path, Url):
        found: Mapping[str, Any] = open_source(path).root.attributes
    else:
        from cfagg.formats.values import netcdf

        with netcdf.opened(path) as dataset:
            found = {k: dataset.getncattr(k) for k in dataset.ncattrs()}
    texts = {k: v for k, v in found.items() if k in (*_GLOBAL, KEY) and isinstance(v, str) and v}
    document = parse_document(texts[KEY], path) if KEY in texts else None
    return document, {_GLOBAL[k]: v for k, v in texts.items() if k != KEY}


def _attributes(name: str, found: dict[str, Any], document: Document) -> dict[str, Any]:
    """Return the attributes of a variable as they were in the store."""
    added = document.added.get(name, [])
    return {**{k: v for k, v in found.items() if k not in added}, **document.attributes.get(name, {})}

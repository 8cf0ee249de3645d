"""Writing a table of observations as netCDF: the discrete sampling geometries of CF (chapter 9, appendix H).

Values are written unchanged, float32, with NaN as the missing value.  Times are whole seconds since 1970 as int64.
Information that netCDF cannot represent (names that it does not allow, the order of the variables, a recipe) is kept as
JSON in the global attribute ``cfagg``, so that `import_netcdf` restores the same rows, names and attributes.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg._version import __version__
from cfagg.cf.instants import calendar_of
from cfagg.cf.packing import STORAGE_ATTRIBUTES
from cfagg.cf.references import DIMENSION_LISTS, REFERRING
from cfagg.errors import ConventionError, OptionError
from cfagg.formats.values.locks import LIBRARY
from cfagg.observations.exchange.documents import KEY, document_of, table_of
from cfagg.observations.exchange.netcdf_read import place_of, written_aside
from cfagg.observations.exchange.table import FEATURES, META, Instances, Table, epochs_of, find_instances, text_of
from cfagg.runtime.netcdf_files import closing_written, created
from cfagg.storage.urls import Url

__all__ = ["FORMS", "ORIGINAL", "export_netcdf", "netcdf_attributes", "netcdf_names"]

type Rows = npt.NDArray[np.float32]
type Form = Literal["point", "indexed", "contiguous"]

FORMS = ("point", "indexed", "contiguous")

#: Dimensions of the instances, and the variables that identify and count them.
_INSTANCES = {"timeSeries": "station", "trajectory": "trajectory", "profile": "profile"}

#: Names reserved for the file itself.
_TAKEN = ("time", "latitude", "longitude", "obs", "row_size", "instance_index")

_TIME = {
    "standard_name": "time",
    "long_name": "time",
    "units": "seconds since 1970-01-01 00:00:00",
    "units_metadata": "leap_seconds: none",
}
_LATITUDE = {"standard_name": "latitude", "long_name": "latitude", "units": "degrees_north"}
_LONGITUDE = {"standard_name": "longitude", "long_name": "longitude", "units": "degrees_east"}

#: Standard names of heights and depths, and the direction in which they increase.
_VERTICAL = {"depth": "down", "height": "up", "altitude": "up", "geopotential_height": "up"}

#: Number of values that are compressed together.
_CHUNK = 1 << 16


def export_netcdf(
    source: Any,
    path: str | os.PathLike[str],
    form: Form = "point",
    *,
    by: str | None = None,
    feature: Literal["timeSeries", "trajectory", "profile"] | None = None,
    vertical: str | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
) -> Path | Url:
    """Write observations as a netCDF file of a CF discrete sampling geometry, without losing anything.

    Parameters
    ----------
    source : path, ObservationStore or Observations
        A store, or a dataset of `cfagg.open_observations`: the rows in any of its windows, each once.
    path : path
        The file to write, or its URL in an object store.
    form : {"point", "indexed", "contiguous"}
        Single rows; or rows of stations, tracks or profiles, as an indexed ragged array (in the order of the store,
        with the instance of each row in ``instance_index``) or a contiguous one (instance by instance, with their
        numbers of rows in ``row_size``).
    by : str, optional
        The variable that numbers the stations, tracks or profiles.  Without one, stations are identified by place.
    feature : {"timeSeries", "trajectory", "profile"}, optional
        Kind of the instances: by default stations if each has a fixed place, else tracks.
    vertical : str, optional
        The variable that is the height or depth of the observations; needed for profiles.
    overwrite : bool
        Whether a file may be replaced.
    storage_options, target_options : mapping, optional
        For URLs of the store and of the file, like the ``storage_options`` of `cfagg.read`.

    Returns
    -------
    pathlib.Path
        The file, or its URL in an object store.

    Raises
    ------
    ConventionError
        The rows do not form such stations, tracks or profiles; or times are not whole seconds.
    OptionError
        The form or feature is unknown, or lacks the options that it needs.
    TargetExistsError, TargetError
        The file exists, or cannot be written.

    Examples
    --------
    >>> import netCDF4
    >>> rows = np.array([[0, 0, 51.5, 0, 7], [0, 0, 60.0, 5, 8], [0, 3600, 51.5, 0, 9]], "f4")
    >>> table = Table.of_rows("reports", ["t2m"], rows, {"t2m": {"units": "degC"}})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = export_netcdf(table, f"{folder}/reports.nc", "contiguous")
    ...     with netCDF4.Dataset(file) as found:
    ...         print(found.featureType, found["row_size"][:].tolist(), found["t2m"][:].tolist())
    timeSeries [2, 1] [7.0, 9.0, 8.0]
    """
    if form not in FORMS:
        raise OptionError(f"form={form!r}: choose one of {', '.join(FORMS)}")
    if form == "point" and (by is not None or feature is not None):
        raise OptionError("form='point' takes neither by= nor feature=; choose form='indexed' or 'contiguous'")
    if feature == "profile" and vertical is None:
        raise OptionError("feature='profile' needs vertical=, the variable with the height or depth")
    table, target = table_of(source, storage_options), place_of(path, target_options)
    table.check_names()
    up = None if vertical is None else _positive(table, vertical)
    instances = None if form == "point" else find_instances(table, by, feature)
    with written_aside(target, overwrite=overwrite) as aside:
        _File(table, instances, form, vertical, up).write(aside)
    return target


def _positive(table: Table, vertical: str) -> str:
    """Return the direction in which a vertical coordinate increases."""
    table.column(vertical)
    about = table.attributes.get(vertical, {})
    found = about.get("positive") or _VERTICAL.get(str(about.get("standard_name"))) or _VERTICAL.get(vertical)
    if found is None and str(about.get("units")) in ("Pa", "hPa", "bar", "mbar", "dbar", "decibar", "millibar"):
        found = "down"
    if found not in ("up", "down"):
        raise ConventionError(
            f"{table.name}: it is unknown whether {vertical!r} increases upwards or downwards; give the variable the "
            "attribute positive, or a standard_name such as depth or height"
        )
    return str(found)


class _File:
    """One file being written."""

    def __init__(
        self, table: Table, instances: Instances | None, form: Form, vertical: str | None, up: str | None
    ) -> None:
        self.table, self.instances, self.form = table, instances, form
        self.vertical, self.up = vertical, up
        self.folder = Path()
        self.dimension = "" if instances is None else _INSTANCES[instances.feature]
        self.constant: tuple[str, ...] = () if instances is None else FEATURES[instances.feature]
        self.by = None if instances is None else instances.by
        # The variable that numbers the stations may be called station, since it is the coordinate of that dimension.
        own = [self.dimension] if self.dimension and self.by != self.dimension else []
        self.names = netcdf_names(table.variables, [*_TAKEN, *own])
        # Rows are in the order of their dates.
        first = epochs_of(table.read(0, min(table.rows, 1)), 0, table.name).min(initial=0)
        self.time = {**_TIME, "calendar": calendar_of(first)}

    def write(self, path: Path) -> None:
        import netCDF4

        self.folder = path.parent
        new = partial(netCDF4.Dataset, path, "w", format="NETCDF4")
        with LIBRARY, closing_written(created(new, path), path) as file:
            file.set_fill_off()
            file.createDimension("obs", self.table.rows)
            file.setncatts(self._global())
            if self.instances is not None:
                file.createDimension(self.dimension, len(self.instances))
                self._write_instances(file, self.instances)
            targets = self._variables(file)
            start = 0
            for epochs, rows in self._blocks():
                span = slice(start, start + len(rows))
                for column, target in targets:
                    target[span] = epochs if column is None else rows[:, column]
                start = span.stop
            if self.form == "indexed":
                self._write_index(file)

    def _global(self) -> dict[str, Any]:
        """Return the attributes of the file."""
        about = self.table.about
        instances = self.instances
        found = {
            "Conventions": "CF-1.12",
            "featureType": "point" if instances is None else instances.feature,
            "title": text_of(about, "title", "name", "description") or "Observations",
            "institution": text_of(about, "institution"),
            "source": text_of(about, "source"),
            "references": text_of(about, "references"),
            "comment": text_of(about, "comment"),
            "license": text_of(about, "licence", "license"),
            "history": f"Written by cfagg {__version__} from a store of observations.",
        }
        return {**{k: v for k, v in found.items() if v}, KEY: json.dumps(self._document(), sort_keys=True)}

    def _document(self) -> dict[str, Any]:
        """Return the information needed to restore the store that CF does not cover."""
        table = self.table
        others = {v: netcdf_attributes(table.attributes.get(v, {}))[1] for v in table.variables}
        added = {v: self._added(v) for v in table.variables}
        return document_of(
            table, [self.names[v] for v in table.variables], others, {k: v for k, v in added.items() if v}
        )

    def _added(self, variable: str) -> list[str]:
        """Return the names of attributes that a variable has only in the file."""
        has = netcdf_attributes(self.table.attributes.get(variable, {}))[0]
        named = [] if {"long_name", "standard_name"} & set(has) else ["long_name"]
        return named + [k for k in ("positive", "axis") if variable == self.vertical and k not in has]

    def _create(
        self, file: Any, name: str, dtype: Any, dimension: str, attributes: Mapping[str, Any], fill: Any = None
    ) -> Any:
        size = len(file.dimensions[dimension])
        # The library requires a value of exactly this type, or False.
        value = False if fill is None else np.array(fill, dtype)[()]
        variable = file.createVariable(
            name, dtype, (dimension,), zlib=True, complevel=1, shuffle=True, fill_value=value,
            chunksizes=(max(1, min(size, _CHUNK)),),
        )  # fmt: skip
        variable.set_auto_maskandscale(False)
        variable.setncatts(dict(attributes))
        return variable

    def _write_instances(self, file: Any, instances: Instances) -> None:
        """Write the variables with one value for each instance."""
        feature, size = instances.feature, self.dimension
        role = {"cf_role": f"{feature.lower()}_id"}
        if instances.by is None:
            about: dict[str, Any] = {"long_name": "number of the station", **role}
            name = "station"
        else:
            name = self.names[instances.by]
            about = {**self._attributes(instances.by), **role}
        identity = self._create(file, name, instances.names.dtype, size, about)
        identity[:] = instances.names
        if self.form == "contiguous":
            counted = {"long_name": f"observations of the {size}", "sample_dimension": "obs"}
            self._create(file, "row_size", "i8", size, counted)[:] = instances.counts
        if "time" in self.constant:
            self._create(file, "time", "i8", size, self.time)[:] = instances.times
        if "latitude" in self.constant:
            self._create(file, "latitude", "f4", size, _LATITUDE)[:] = instances.places[:, 0]
            self._create(file, "longitude", "f4", size, _LONGITUDE)[:] = instances.places[:, 1]

    def _attributes(self, variable: str) -> dict[str, Any]:
        """Return the attributes of a variable that netCDF can represent."""
        about = netcdf_attributes(self.table.attributes.get(variable, {}))[0]
        if not {"long_name", "standard_name"} & set(about):
            about["long_name"] = variable
        if self.names[variable] != variable:
            about[ORIGINAL] = variable
        return about

    def _variables(self, file: Any) -> list[tuple[int | None, Any]]:
        """Create the variables with one value for each row; return them with their columns (`None` for times)."""
        found: list[tuple[int | None, Any]] = []
        columns = ("time", None, self.time), ("latitude", 2, _LATITUDE), ("longitude", 3, _LONGITUDE)
        for name, column, about in columns:
            if name not in self.constant:
                found.append((column, self._create(file, name, "i8" if column is None else "f4", "obs", about)))
        aside = ["time", "latitude", "longitude"]
        if self.vertical is not None:
            aside.append(self.names[self.vertical])
        if self.by is not None and self.names[self.by] != self.dimension:
            aside.append(self.names[self.by])
        for variable in self.table.variables:
            if variable == self.by:
                continue
            about = self._attributes(variable)
            if variable == self.vertical:
                about.update({"positive": str(self.up), "axis": "Z"})
            else:
                about["coordinates"] = " ".join(aside)
            target = self._create(file, self.names[variable], "f4", "obs", about, np.nan)
            found.append((self.table.column(variable), target))
        return found

    def _blocks(self) -> Iterator[tuple[npt.NDArray[np.int64], Rows]]:
        """Return times and rows in the order of the file."""
        table, by_instance = self.table, self.form == "contiguous"
        for start, rows in _by_instance(table, self.instances, self.folder) if by_instance else table.blocks():
            yield epochs_of(rows, start, table.name), rows

    def _write_index(self, file: Any) -> None:
        about = {"long_name": f"{self.dimension} of this observation", "instance_dimension": self.dimension}
        target = self._create(file, "instance_index", "i8", "obs", about)
        if self.instances is not None:
            for start, rows in self.table.blocks():
                target[start : start + len(rows)] = self.instances.of(self.table, rows)


def _by_instance(table: Table, instances: Instances | None, folder: Path) -> Iterator[tuple[int, Rows]]:
    """Return the rows of one instance after the other, in blocks."""
    if instances is None or not table.rows:
        return
    width = META + len(table.variables)
    nexts = np.concatenate([[0], np.cumsum(instances.counts)[:-1]])
    with tempfile.TemporaryFile(dir=folder) as file:
        # A full disk raises an error here, while a mapped page without space would kill the process.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, 4 * table.rows * width)
        else:
            file.truncate(4 * table.rows * width)
        sorted_rows = np.memmap(file, np.float32, "r+", shape=(table.rows, width))
        for _, rows in table.blocks():
            which = instances.of(table, rows)
            order = np.argsort(which, kind="stable")
            numbers, first, counts = np.unique(which[order], return_index=True, return_counts=True)
            place = np.arange(len(rows)) - np.repeat(first, counts) + np.repeat(nexts[numbers], counts)
            sorted_rows[place] = rows[order]
            nexts[numbers] += counts
        for start in range(0, table.rows, table.block):
            yield start, np.array(sorted_rows[start : start + table.block])
        del sorted_rows


#: The attribute with a variable's name in the store, if netCDF does not allow that name.
ORIGINAL = "cfagg_name"

#: Attributes that describe how numbers are stored, which the export decides, or that refer to variables elsewhere.
_OURS = frozenset({*STORAGE_ATTRIBUTES, *REFERRING, *DIMENSION_LISTS, "cf_role", "_ChunkSizes", ORIGINAL})


def netcdf_names(names: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Return a name for each variable that CF recommends for files: letters, digits and underscores."""
    # Two names that differ in case only count as one.
    names = list(names)
    used = {t.lower() for t in taken}
    found: dict[str, str] = {}
    # A name that can stay unchanged takes precedence over one that would become equal to it.
    for name in sorted(names, key=lambda n: _plain(n) != n):
        base = _plain(name)
        new, n = base, 1
        while new.lower() in used:
            new, n = f"{base}_{n}", n + 1
        used.add(new.lower())
        found[name] = new
    return {name: found[name] for name in names}


def _plain(name: str) -> str:
    ascii_ = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    new = re.sub(r"[^A-Za-z0-9_]+", "_", ascii_)[:200]
    return new if re.match(r"[A-Za-z]", new) else f"v_{new.lstrip('_')}"


def netcdf_attributes(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the attributes that a netCDF variable can have, and those that an import does not find in it."""
    # CF allows ``axis`` on coordinates only, and imports leave it out.
    fit = {k: v for k, v in attributes.items() if k not in (*_OURS, "axis") and _name_fits(k) and _fits(v)}
    return fit, {k: v for k, v in attributes.items() if k not in fit}


def _name_fits(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,100}", name) is not None


def _fits(value: object) -> bool:
    """Return whether a JSON value is the same after a round trip through a netCDF attribute."""
    if isinstance(value, str):
        return "\0" not in value and value != ""
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, float) and bool(np.isfinite(value))

"""The xarray engine ``"cfagg"``: ``xarray.open_dataset("temperature.nca", engine="cfagg", chunks={})``."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xarray import Dataset, DataTree
from xarray.backends.common import BackendEntrypoint
from xarray.backends.store import StoreBackendEntrypoint

from cfagg.arrays.joined_source import JoinedSource
from cfagg.errors import CfaggError, CfaggWarning, OptionError, SourceError, UnsupportedError
from cfagg.formats.opening import KERCHUNK
from cfagg.formats.values.holding import Closer, Hold
from cfagg.formats.values.locks import LIBRARY
from cfagg.labelled.missing_times import with_missing_times
from cfagg.runtime.budget import worker_count
from cfagg.storage.urls import a_place, absolute

if TYPE_CHECKING:
    from cfagg.arrays.source import Source

__all__ = ["CfaggBackendEntrypoint", "tree_of"]


class CfaggBackendEntrypoint(BackendEntrypoint):
    """Opens aggregation files as labelled, lazy arrays."""

    description: ClassVar[str] = "Open netCDF aggregation files (NCA, CFA, CF-1.13): many files as one array"
    url: ClassVar[str] = ""
    supports_groups: ClassVar[bool] = True
    open_dataset_parameters: ClassVar[tuple[str, ...]] = (
        "filename_or_obj",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "drop_variables",
        "use_cftime",
        "decode_timedelta",
        "group",
        "allow",
        "missing",
        "workers",
        "storage_options",
        "substitutions",
        "word_size",
        "index",
    )

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether this is a netCDF file with an aggregation; plain netCDF is left to other engines."""
        from cfagg.conventions.marks import mark_of
        from cfagg.formats.values.netcdf import attribute_names

        if not isinstance(filename_or_obj, (str, os.PathLike)):
            return False
        try:
            return any(mark_of(dict.fromkeys(n)) for n in attribute_names(_path(filename_or_obj)))
        except CfaggError:
            return False

    @LIBRARY.keeping_files()
    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        allow: Iterable[str | os.PathLike[str]] = (),
        missing: Literal["error", "fill"] = "error",
        workers: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        substitutions: Mapping[str, str] | None = None,
        word_size: int | None = None,
        index: bool | str | os.PathLike[str] = True,
    ) -> Dataset:
        """Open one group of a file; see `cfagg.read` for `allow` and the parameters after it."""
        decoding = {
            "mask_and_scale": mask_and_scale,
            "decode_times": decode_times,
            "concat_characters": concat_characters,
            "decode_coords": decode_coords,
            "drop_variables": drop_variables,
            "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta,
        }
        path = _group(group) or "/"
        if isinstance(filename_or_obj, JoinedSource):
            source: Source = replace(filename_or_obj, substitutions=substitutions or {})
        else:
            source = _source(_path(filename_or_obj, storage_options, allow), substitutions, allow)
        return _open(source, [path], allow, missing, workers, decoding, word_size, index=index)[path]

    @LIBRARY.keeping_files()
    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        group: str | None = None,
        allow: Iterable[str | os.PathLike[str]] = (),
        missing: Literal["error", "fill"] = "error",
        workers: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        substitutions: Mapping[str, str] | None = None,
        word_size: int | None = None,
        index: bool | str | os.PathLike[str] = True,
        **decoding: Any,
    ) -> dict[str, Dataset]:
        """Open all groups from `group` downwards, keyed by their paths relative to it."""
        source = _source(_path(filename_or_obj, storage_options, allow), substitutions, allow)
        top = "/" + "/".join(filter(None, _group(group).split("/")))
        found = _open(source, None, allow, missing, workers, decoding, word_size, top, index)
        return {"/" + p.removeprefix(top).lstrip("/"): ds for p, ds in found.items()}

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> DataTree:
        """Open all groups as one tree."""
        return tree_of(self.open_groups_as_dict(filename_or_obj, **options))


def tree_of(groups: Mapping[str, Dataset]) -> DataTree:
    """Return the tree of some groups; closing it closes what its datasets read."""
    tree = DataTree.from_dict(dict(groups))
    for path, ds in groups.items():
        # xarray copies the datasets without what closes them.
        tree[path].set_close(ds._close)
    return tree


def _path(
    filename_or_obj: Any,
    storage_options: Mapping[str, Any] | None = None,
    allow: Iterable[str | os.PathLike[str]] = (),
) -> str:
    """Return the path or URL of a file."""
    if not isinstance(filename_or_obj, (str, os.PathLike)):
        raise SourceError(
            f"expected the path or URL of a netCDF file, found {type(filename_or_obj).__name__}; references in an "
            "aggregation are relative to its file, so it cannot be read from memory"
        )
    return a_place(filename_or_obj, storage_options, allow)


def _group(group: str | None) -> str:
    """Return the path of a group, empty for the root."""
    from cfagg.errors.arguments import a_text

    return a_text("" if group is None else group, "group", "the path of a group")


def _source(path: str, substitutions: Mapping[str, str] | None, allow: Iterable[str | os.PathLike[str]]) -> Source:
    """Return the metadata of a file."""
    from cfagg.arrays.opening import open_any
    from cfagg.errors.arguments import paths, texts

    names = texts(substitutions, "substitutions", "a mapping such as {'base': '/archive/'}")
    return open_any(path, paths(allow), substitutions=names)


def _open(
    source: Source,
    groups: list[str] | None,
    allow: Iterable[str | os.PathLike[str]],
    missing: Literal["error", "fill"],
    workers: int | None,
    decoding: dict[str, Any],
    word_size: int | None,
    top: str = "/",
    index: bool | str | os.PathLike[str] = True,
) -> dict[str, Dataset]:
    """Open some groups of a file, or all from `top` downwards."""
    from cfagg.arrays.source import refuse_unreadable
    from cfagg.cf.unpackable import check_packing
    from cfagg.labelled.data_store import AggregationStore

    path = source.path
    worker_count(workers)
    if word_size not in (None, 1, 4, 8):
        raise OptionError(f"word_size={word_size!r} is not known; choose 1, 4 or 8")
    access = source.access(allow)
    if groups is None:
        groups = [g.path for g in source.group(top).walk()]
    dropped = decoding.get("drop_variables") or ()
    dropped = {dropped} if isinstance(dropped, str) else set(dropped)
    refuse_unreadable(
        (error for name in groups for n, error in source.group(name).unreadable.items() if n not in dropped),
        "name the variables to read instead with variables=[…]",
    )
    for name in groups:
        _warn_of_untyped({n: e for n, e in source.group(name).untyped.items() if n not in dropped})
    found, hold = {}, Hold(str(absolute(path)))
    for name in groups:
        variables = source.group(name).variables.items()
        for own, one in variables:
            _check_references(path, own, one.attributes, decoding.get("decode_coords", True))
        _check_scalars(path, {own: one.dims for own, one in variables if own not in dropped})
        check_packing(path, ((own, one.attributes, one.dtype) for own, one in variables), decoding)
        unpack = decoding.get("mask_and_scale") is not False
        store = AggregationStore(
            source, source.group(name), access, missing, workers,
            unpack=unpack, word_size=word_size, index=index, hold=hold,
        )  # fmt: skip
        try:
            said = ((own, one.attributes) for own, one in variables)
            ds = StoreBackendEntrypoint().open_dataset(store, **with_missing_times(decoding, said))
        except CfaggError:
            raise
        except Exception as error:  # damaged metadata in valid JSON can raise anything
            if source.format != KERCHUNK:
                raise
            raise SourceError(
                f"{path}, group {name}: xarray cannot make a dataset of it ({type(error).__name__}: "
                f"{str(error)[:300]}); 'cfagg check' gives details"
            ) from error
        # The store need not be sent with the dataset to other processes.
        ds.set_close(Closer(hold))
        for coordinate, variable in ds.variables.items():
            # Keep xarray from writing a `_FillValue` for a coordinate variable, which CF section 2.5.1 forbids.  Before
            # decoding, xarray would take it for a sign that packed values have been masked.
            if variable.dims == (coordinate,) and "_FillValue" not in variable.attrs | variable.encoding:
                variable.encoding["_FillValue"] = None
        found[name] = ds
    return found


def _warn_of_untyped(untyped: Mapping[str, CfaggError]) -> None:
    """Warn of variables that are not in the dataset because netCDF lacks their types."""
    for name, error in untyped.items():
        warnings.warn(
            f"{error.message}; it is left out (with drop_variables={[name]!r}, without this warning)",
            CfaggWarning,
            stacklevel=2,
        )


def _check_scalars(path: object, dims: Mapping[str, tuple[str, ...]]) -> None:
    """Raise an error for variables without dimensions that have the name of one, as MINC files do."""
    used = {name for own in dims.values() for name in own}
    if scalars := [name for name, own in dims.items() if not own and name in used]:
        raise UnsupportedError(
            f"{path}: variable {scalars[0]!r} has no dimensions, but other variables have a dimension of that name, "
            f"which no xarray.Dataset can have; leave it out with drop_variables={scalars!r}, or read one variable "
            "with cfagg.open_array"
        )


def _check_references(path: object, name: str, attributes: Mapping[str, Any], decode: object) -> None:
    """Raise an error for attributes that must be variable names for xarray, but are not text."""
    from cfagg.cf.references import REFERRING

    for key in REFERRING if decode == "all" else ("coordinates",) if decode else ():
        if key in attributes and not isinstance(attributes[key], str):
            raise SourceError(
                f"{path}: variable {name!r}: the attribute {key!r} should name variables in text; found "
                f"{attributes[key]!r}; correct it, or pass decode_coords=False"
            )

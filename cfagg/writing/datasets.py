"""The content of an xarray Dataset: unchanged aggregations stay aggregations, everything else is written as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.aggregated import AggregationReader
from cfagg.arrays.fixed_length import dimension_of
from cfagg.arrays.reader import Reader
from cfagg.arrays.stored import NetcdfReader
from cfagg.conventions.encoded import stored
from cfagg.errors import OptionError, UnsupportedError
from cfagg.model import Aggregation, Grid
from cfagg.model.aggregation import facts_of
from cfagg.writing import dialects
from cfagg.writing.content import Aggregated, Content, Held, Read
from cfagg.writing.elsewhere import computed, elsewhere, is_elsewhere, is_referable, storage_of
from cfagg.writing.encodable import as_coordinates, check_type, encodable, of_one_type, of_their_type, with_gaps
from cfagg.writing.extracts import Box, extract, outside
from cfagg.writing.sources import aggregated, describing, dims_of, held

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["content_of_dataset", "reader_of"]

#: Attributes by which stored values are decoded to others of another type.
_DECODING = ("scale_factor", "add_offset", "_Unsigned", "_FillValue", "missing_value")


def content_of_dataset(dataset: xr.Dataset, to: str, replaced: str) -> Content:
    """Return the content of a dataset for a dialect; `replaced` is the file that will no longer exist."""
    import xarray as xr

    for names in (list(dataset.variables), list(dataset.sizes)):
        several = [name for name, count in Counter(map(str, names)).items() if count > 1]
        if several:
            raise OptionError(f"the dataset has {several[0]!r} twice, once as text; rename one")
    for name, variable in dataset.variables.items():
        check_type(variable, str(name))
    readers = {name: reader_of(variable, str(name), to, replaced) for name, variable in dataset.variables.items()}
    facts = _facts(dataset, readers)
    # Each is written once: as a term, which becomes the same coordinate again, or as a coordinate.
    again = [n for n, same in facts.items() if same and dialects.has_terms(to)]
    readers |= dict.fromkeys(facts)
    dataset = dataset.drop_vars(again)
    described_by, attributes = xr.conventions.encode_dataset_coordinates(dataset)
    described_by = as_coordinates(described_by)
    # Variables whose values stay where they are are not encoded, since that would read dates.
    plain = {
        n: encodable(v, str(n)) if readers[n] is None else v
        for n, v in ((n, with_gaps(v)) for n, v in described_by.items())
        if not isinstance(readers[n], AggregationReader)
    }
    coded = xr.conventions.cf_encoder(plain, {})[0]
    encoded = {**described_by, **{n: of_their_type(v, plain[n], str(n)) for n, v in coded.items()}}
    described = describing({str(name): v.attrs for name, v in encoded.items()})
    variables: dict[str, Held | Aggregated] = {}
    taken = {str(d): n for d, n in dataset.sizes.items()} | dict.fromkeys(map(str, dataset.variables), -1)
    for given in dataset.variables:
        variable, name, reader = encoded[given], str(given), readers[given]
        own = {k: v for k, v in variable.attrs.items() if k != "_FillValue" or v is not None}
        if again and isinstance(named := own.pop("coordinates", None), str):
            own |= {"coordinates": kept} if (kept := " ".join(w for w in named.split() if w not in again)) else {}
        if isinstance(reader, AggregationReader):
            reader.refuse_changed()
            made = _renamed(reader.aggregation, name, dataset.variables[given], own)
            held_so = facts.keys() - again
            made = replace(made, terms={k: v for k, v in made.terms.items() if held_so.isdisjoint({k, f"{name}_{k}"})})
            one = aggregated(made, reader)
            variables[name] = replace(one, dims=partial(_dims, reader, one.aggregation.dims))
        elif given in dataset.coords or name in described or not is_referable(variable.dims):
            variables[name] = _held(_plain(variable, name, taken), own)
        elif reader is not None and is_elsewhere(reader, to):
            variables[name] = _referred(name, dataset.variables[given], own, reader, to)
        else:
            part = _computed(name, _plain(variable, name, taken), own, dataset.variables[given])
            as_read = reader is not None and reader.shape == part.aggregation.shape
            variables[name] = replace(part, storage=storage_of(reader if as_read else None, part.aggregation.dtype))
    sizes = {str(d): n for v in encoded.values() for d, n in v.sizes.items()}
    for new in variables.values():
        array = new if isinstance(new, Held) else new.aggregation
        sizes |= dict(zip(array.dims, array.shape, strict=True))  # those of characters, too
    return Content(dimensions=sizes, attributes=attributes, variables=variables)


def _facts(dataset: xr.Dataset, readers: Mapping[Any, Reader | None]) -> dict[str, bool]:
    """Return the coordinates that terms of the dataset's aggregations became, and which of them are unchanged."""
    made = {str(n): r.aggregation for n, r in readers.items() if isinstance(r, AggregationReader)}
    given = {name: aggregation for name, aggregation in made.items() if aggregation.terms}
    found = facts_of({**dict.fromkeys(map(str, dataset.data_vars)), **given})
    coords = dataset.coords.variables
    return {name: _holds(coords[name], fact) for name, (_, fact) in found.items() if name in coords}


def _holds(variable: xr.Variable, fact: Aggregation) -> bool:
    """Return whether a variable has the values of an aggregation of unique values."""
    if tuple(map(str, variable.dims)) != fact.dims or variable.shape != fact.shape:
        return False
    table = fact.partitions.values
    values = np.ma.filled(table, "" if table.dtype.kind == "O" else np.nan) if np.ma.is_masked(table) else table
    values = np.asarray(values).reshape(fact.grid.matrix_shape)
    for axis, edges in enumerate(fact.grid.edges):
        values = values.repeat(np.diff(edges), axis)
    return np.array_equal(variable.values, values, equal_nan=values.dtype.kind == "f")


def reader_of(variable: xr.Variable, name: str, to: str, replaced: str) -> Reader | None:
    """Return the reader of a variable's stored values, or `None` if its values have been changed."""
    # For a slice, the reader refers to its values only, if the dialect can express that.
    data: Any = variable._data
    if hasattr(data, "__dask_graph__"):
        # Only a dask array made directly from one array has a layer of this name; a computed one has others.
        layers = getattr(data.__dask_graph__(), "layers", {})
        source = layers.get(f"original-{data.name}")
        if source is None or set(layers) != {data.name, f"original-{data.name}"} or len(source) != 1:
            return None
        data = next(iter(source.values()))
        data = getattr(data, "value", data)
    reader, functions, box = _unwrapped(data)
    if reader is None:
        return None
    expected = _unwrapped(_decoded(reader, name)._data)[1]
    rest = iter(expected)
    if not all(any(_same(f, e) for e in rest) for f in functions):
        return None
    if isinstance(reader, AggregationReader):
        made = outside(reader, replaced)
        if box is not None and made is not None:
            made = extract(made, box, parts=dialects.has_parts(to))
        reader = None if made is None else reader.reading(made)
        if reader is not None and _misnamed(reader, tuple(map(str, variable.dims))):
            return None
    elif box is not None:
        return None
    return reader if reader is not None and tuple(reader.shape) == variable.shape else None


def _unwrapped(data: Any) -> tuple[Reader | None, list[Any], Box | None]:
    """Return the reader below xarray's wrappers, the decoding functions, innermost first, and the selected box."""
    from xarray.coding.common import _ElementwiseFunctionArray
    from xarray.core import indexing

    from cfagg.labelled.indexed import IndexedArray

    functions: list[Any] = []
    box: Box | None = None
    while True:
        kind = type(data)
        if kind is IndexedArray:
            return data.reader, functions[::-1], box
        if kind is _ElementwiseFunctionArray:
            functions.append(data.func)
        elif kind is indexing.LazilyIndexedArray:
            if not all(isinstance(k, slice) and k == slice(None) for k in data.key.tuple):
                # Nested slices are a single selection here, unless decoding happens in between.
                box, before = _box(data.key.tuple, data.array.shape), box
                if box is None or before is not None:
                    return None, [], None
        elif kind not in (
            indexing.MemoryCachedArray,
            indexing.CopyOnWriteArray,
            indexing.ImplicitToExplicitIndexingAdapter,
        ):
            return None, [], None
        data = data.array


def _box(key: Sequence[Any], shape: Sequence[int]) -> Box | None:
    """Return the box that slices select of an array, or `None` if it is not a box."""
    if len(key) != len(shape) or not all(isinstance(k, slice) for k in key):
        return None
    found = [k.indices(n) for k, n in zip(key, shape, strict=True)]
    return None if any(step != 1 for *_, step in found) else tuple((start, stop) for start, stop, _ in found)


def _decoded(reader: Reader, name: str) -> xr.Variable:
    """Return the variable of a reader, decoded as when opening a file."""
    import xarray as xr
    from xarray.core import indexing

    from cfagg.cf.unpackable import real_packing
    from cfagg.labelled.indexed import IndexedArray

    attributes = dict(reader.attributes)
    if isinstance(reader, AggregationReader):
        said = {"units": reader.aggregation.units, "calendar": reader.aggregation.calendar}
        attributes |= {k: v for k, v in said.items() if v is not None}
    attributes = real_packing(attributes, reader.dtype)
    raw = xr.Variable(reader.dims, indexing.LazilyIndexedArray(IndexedArray(reader)), attributes)
    found: xr.Variable
    try:
        found = xr.conventions.decode_cf_variable(name, raw)
    except ValueError:  # times that xarray cannot decode were not decoded
        found = xr.conventions.decode_cf_variable(name, raw, decode_times=False)
    return found


def _same(one: Any, other: Any) -> bool:
    """Return whether two functions decode in the same way, ignoring the resulting type."""
    if type(one) is not partial or type(other) is not partial or one.func is not other.func:
        return False
    free = {"dtype", "use_cftime", "time_unit", "decoded_fill_value"}
    mine, theirs = ({k: v for k, v in f.keywords.items() if k not in free} for f in (one, other))
    return one.args == other.args and repr(mine) == repr(theirs)


def _dims(reader: AggregationReader, dims: tuple[str, ...], row: int) -> tuple[str, ...] | None:
    """Return the dimensions of a fragment, in its order, with the names that the user has given them."""
    new = dict(zip(reader.aggregation.dims, dims, strict=True))
    found = dims_of(reader, row)
    return None if found is None else tuple(new.get(d, d) for d in found)


def _misnamed(reader: AggregationReader, dims: tuple[str, ...]) -> bool:
    """Return whether a fragment uses names that now belong to other dimensions, or has its own in another order."""
    # If matched by dimension names alone, such a fragment would be read transposed, or not at all.
    aggregation = reader.aggregation
    if dims == aggregation.dims or len(dims) != len(aggregation.dims):
        return False
    by_name = aggregation.dialect == "CF-1.13"
    for row in np.flatnonzero(stored(aggregation)).tolist():
        own = _dims(reader, dims, row)
        if own is None:
            continue  # the file does not exist
        called = reader.header(row).dims
        if any(name in dims and name != dim for name, dim in zip(called, own, strict=False)):
            return True
        if by_name and list(own) != [d for d in dims if d in own]:
            return True
    return False


def _renamed(aggregation: Aggregation, name: str, variable: xr.Variable, own: Mapping[str, Any]) -> Aggregation:
    """Return an aggregation with the name, dimensions and attributes that the user has given it."""
    dims = dict(zip(aggregation.dims, map(str, variable.dims), strict=True))
    partitions = aggregation.partitions
    if any(a != b for a, b in dims.items()):
        layouts = tuple(
            replace(layout, dims=tuple(dims.get(d, d) for d in layout.dims)) for layout in partitions.layouts
        )
        partitions = replace(partitions, layouts=layouts)
    for key in ("units", "calendar"):
        said = variable.attrs.get(key, variable.encoding.get(key))
        if said != getattr(aggregation, key):
            raise OptionError(
                f"variable {name!r}: its {key} were changed from {getattr(aggregation, key)!r} to {said!r}, but not "
                "its values, which are in other files; convert the values, or restore the attribute"
            )
    # Attributes that xarray decoded are in `encoding`; those it does not know are unchanged from the file.
    known = {*own, *variable.encoding, *_decoded_by(variable, aggregation.dtype)}
    kept = {k: v for k, v in aggregation.attributes.items() if k in known}
    changed = {k: v for k, v in own.items() if k not in ("units", "calendar")}
    return replace(aggregation, name=name, dims=tuple(dims.values()), partitions=partitions, attributes=kept | changed)


def _decoded_by(variable: xr.Variable, stored: np.dtype[Any]) -> tuple[str, ...]:
    """Return the attributes by which stored values were decoded, which hold even if the user dropped the encoding."""
    return () if variable.dtype == stored else _DECODING


@dataclass(frozen=True)
class _Plain:
    """The values of a variable as they are stored."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Read


def _held(plain: _Plain, own: Mapping[str, Any]) -> Held:
    """Return a variable whose values are written into the file."""
    return Held(plain.dims, plain.shape, plain.dtype, own, plain.read)


def _plain(variable: xr.Variable, name: str, names: Mapping[str, int]) -> _Plain:
    """Return a variable as it is stored; `names` are those of dimensions and variables of the dataset, with sizes."""
    if variable.encoding.get("dtype") == "S1":
        variable = of_one_type(variable)  # characters of which some are missing
    dims, shape, dtype = tuple(map(str, variable.dims)), variable.shape, np.dtype(variable.dtype)

    def read(slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        return np.asarray(variable[slices].values)

    if dtype.kind == "b":
        return _Plain(dims, shape, np.dtype("i1"), lambda slices: read(slices).astype("i1"))
    if dtype.kind in "OUT":
        return _Plain(dims, shape, np.dtype(object), lambda slices: read(slices).astype(object))
    if dtype.kind != "S" or (length := dtype.itemsize) < 2:
        return _Plain(dims, shape, dtype, read)

    def spell(slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        found = np.ascontiguousarray(read(slices[:-1]), dtype)
        return found.reshape(*found.shape, 1).view("S1")[..., slices[-1]]

    fill = variable.attrs.get("_FillValue")
    if fill is not None and not (isinstance(fill, str | bytes) and len(fill) == 1):
        raise UnsupportedError(
            f"variable {name!r} has the fill value {fill!r}, but bytes are written to netCDF as arrays of characters, "
            "which have a single one; remove it from the encoding, or write text (variable.astype(str))"
        )
    dim = dimension_of(length, dims, names, variable.encoding.get("char_dim_name"))
    return _Plain((*dims, dim), (*shape, length), np.dtype("S1"), spell)


def _referred(name: str, variable: xr.Variable, own: Mapping[str, Any], reader: Reader, to: str) -> Held | Aggregated:
    """Return a variable of another file as an aggregation of it; a variable of an aggregation file is copied."""
    from cfagg.arrays.netcdf_source import open_source

    dims = tuple(map(str, variable.dims))
    if isinstance(reader, NetcdfReader) and open_source(reader.path).root.has_aggregations:
        return held(dims, reader, reader.attributes)
    known = {*variable.attrs, *variable.encoding, *_decoded_by(variable, reader.dtype)}
    attributes = {k: v for k, v in reader.attributes.items() if k in known}
    return elsewhere(name, dims, reader, attributes | {k: v for k, v in own.items() if k in variable.attrs}, to)


def _computed(name: str, plain: _Plain, own: Mapping[str, Any], original: xr.Variable) -> Aggregated:
    """Return an array whose values are in no file, with its chunks as fragments."""
    # Zarr chunks are not used as partitions, since there may be millions.
    of_zarr = original.encoding.get("chunks")
    chunks = original.chunks or (None if of_zarr else _preferred(original))
    if chunks is not None:
        chunks = (*chunks, *((n,) for n in plain.shape[len(chunks) :]))
    grid = None if chunks is None else Grid.from_sizes([[c for c in sizes if c] for sizes in chunks])
    chunk = int(of_zarr[0]) if isinstance(of_zarr, tuple) and of_zarr and isinstance(of_zarr[0], int) else 1
    return computed(name, plain.dims, plain.shape, plain.dtype, own, plain.read, grid, max(chunk, 1))


def _preferred(variable: xr.Variable) -> tuple[tuple[int, ...], ...] | None:
    """Return the sizes of the partitions that an array was opened with, if they still apply to it."""
    found = variable.encoding.get("preferred_chunks")
    if not isinstance(found, Mapping):
        return None
    sizes = []
    for dim, length in variable.sizes.items():
        given = found.get(dim, length)
        if isinstance(given, int | np.integer):
            given = tuple(min(given, length - i) for i in range(0, length, given)) if given else ()
        if sum(given) != length:
            return None
        sizes.append(tuple(given))
    return tuple(sizes)

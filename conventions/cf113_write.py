"""CF-1.13: from an aggregation to an aggregation variable and the variables of its instructions.

Source: CF-1.13 section 2.8.  Canonical: the variables of instructions are named after the aggregation variable,
identifiers are a scalar if all are equal, and absolute paths are ``file:`` URIs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions import encoded
from cfagg.conventions.encoded import Encoded, Lack, Names, of_codes, of_versions
from cfagg.conventions.fragment_arrays import (
    Instructing,
    directions,
    fill_of,
    missing,
    sizes,
    texts,
    unsaid,
    whole_packing,
)
from cfagg.conventions.fragment_arrays import lacks as fragment_lacks
from cfagg.conventions.uris import uris_of
from cfagg.model import Aggregation

__all__ = ["DIALECT", "lacks", "notes", "write"]

DIALECT = "CF-1.13"


def lacks(aggregation: Aggregation) -> Iterator[Lack]:
    """Yield everything that CF-1.13 cannot express."""
    partitions = aggregation.partitions
    held = encoded.stored(aggregation)
    yield from fragment_lacks(aggregation)
    yield from directions(aggregation)
    yield from whole_packing(aggregation, before=True)
    yield from of_codes(
        held & (partitions.file < 0), "fragment in the file itself", ["no file"], None, "a fragment has a URI"
    )
    unique = partitions.value >= 0
    gone = missing(partitions)
    if held.any():
        either = "an array has either unique values or fragments"
        yield from of_codes(~partitions.present, "missing fragment", ["no fragment"], None, either)
        yield from of_codes(unique, "unique value", map(str, partitions.values.tolist()), partitions.value, either)
    elif gone.any() and fill_of(aggregation) is None:
        why = "a missing unique value is written as the _FillValue of the variable, which has none; give it one"
        yield from of_codes(gone, "missing fragment", ["no fragment"], None, why)
        # If these become fragments, the others have to, too.
        yield from of_codes(unique & ~gone, "unique value", map(str, partitions.values.tolist()), partitions.value, why)
    yield from of_versions(partitions, "each fragment is one variable")
    for name in aggregation.terms:
        yield Lack("term of its own", (name,), "CF-1.13 has no terms but its own", values=False)


def notes(aggregation: Aggregation) -> list[str]:
    """Return notes on information that is left out because it is stored elsewhere."""
    return unsaid(aggregation)


def write(aggregation: Aggregation, names: Names | None = None) -> Encoded:
    """Return the aggregation variable and its instructions.

    Information that cannot be expressed is left out if values do not depend on it; `lacks` lists it.

    Raises
    ------
    ConventionError
        Information on which values depend cannot be expressed; ``problems`` lists all of it.

    Examples
    --------
    >>> import numpy as np
    >>> from cfagg.model import Aggregation, Grid, Layout, Partitions
    >>> both = Partitions.build(2, file=[0, 1], address=0, files=["a.nc", "b.nc"], addresses=["t"],
    ...                         layouts=[Layout(("x",))])
    >>> made = write(Aggregation("t", ("x",), (5,), np.dtype("f4"), Grid([[0, 2, 5]]), both))
    >>> made.attributes["aggregated_data"]
    'map: t_map uris: t_uris identifiers: t_identifiers'
    >>> made.variables["t_map"][1].tolist(), made.variables["t_uris"][1].tolist(), made.dimensions
    ([[2, 3]], ['a.nc', 'b.nc'], {'f_x': 2, 'j': 1, 'i': 2})
    """
    encoded.check(aggregation, lacks(aggregation), DIALECT)
    made = Instructing(aggregation, names)
    partitions, shape, spanned = aggregation.partitions, made.shape, made.spanned
    given, attributes = sizes(aggregation)
    if shape:
        made.add("map", (made.dimension("j", len(given)), made.dimension("i", given.shape[1])), given, attributes)
    else:
        made.add("map", (), np.array(1, np.int32), attributes)
    if encoded.stored(aggregation).any():
        made.add("uris", spanned, texts(partitions.file, uris_of(partitions.files), shape))
        used = np.unique(partitions.address)
        if used.size == 1:
            made.add("identifiers", (), np.array(partitions.addresses[int(used[0])], object))
        else:
            made.add("identifiers", spanned, texts(partitions.address, list(partitions.addresses), shape))
    else:
        made.add("unique_values", spanned, *_unique(aggregation, shape))
    return made.encoded(DIALECT)


def _unique(aggregation: Aggregation, shape: tuple[int, ...]) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    """Return the unique values of all partitions, and attributes of the variable."""
    partitions = aggregation.partitions
    fill, gone = fill_of(aggregation), missing(partitions)
    given = np.ma.getdata(partitions.values)
    table = np.empty(given.size + 1, given.dtype if given.size else aggregation.dtype)
    table[:-1] = given
    if fill is not None:
        table[-1] = fill
    said = {"_FillValue": table[-1]} if gone.any() and table.dtype.kind != "O" else {}
    return table[np.where(gone, -1, partitions.value)].reshape(shape), said

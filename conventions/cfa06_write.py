"""CFA-0.6.2: from an aggregation to an aggregation variable and the variables of its instructions.

Source: CFA-0.6.2, "Aggregation instructions".  Canonical: the variables of instructions are named after the
aggregation variable, `format` and `address` are scalars if all are equal, and there are no substitutions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions import encoded
from cfagg.conventions.encoded import Encoded, Lack, Names, of_codes
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
from cfagg.conventions.nca_layouts import is_netcdf
from cfagg.conventions.uris import name_of
from cfagg.model import Aggregation, Partitions

__all__ = ["DIALECT", "lacks", "notes", "write"]

DIALECT = "CFA-0.6.2"


def lacks(aggregation: Aggregation) -> Iterator[Lack]:
    """Yield everything that CFA-0.6.2 cannot express."""
    partitions = aggregation.partitions
    yield from fragment_lacks(aggregation)
    yield from _undecodable(partitions)
    yield from directions(aggregation)
    yield from whole_packing(aggregation, before=True)
    values = map(str, partitions.values.tolist())
    unique = partitions.value >= 0
    if fill_of(aggregation) is not None:  # else a missing fragment could not be read
        unique &= ~missing(partitions)
    yield from of_codes(unique, "unique value", values, partitions.value, "a fragment is a variable")
    for other in partitions.versions:
        both = partitions.present & other.present
        shared = both & ((other.file < 0) | (partitions.file < 0))
        yield from of_codes(
            shared, "version in the file itself", ["no file"], None, "only a whole fragment can be there"
        )
        alone = other.present & ~partitions.present
        yield from of_codes(alone, "version of a missing fragment", ["a fragment"], None, "the first one exists")
        yield from _undecodable(replace(other, present=both))
        one = replace(aggregation, partitions=replace(other, present=both), terms={}, directions=True)
        yield from fragment_lacks(one)


def _undecodable(partitions: Partitions) -> Iterator[Lack]:
    """Yield relative file names that are not UTF-8: they can only be written in URIs, which are absolute."""
    odd = [not name_of(name).isascii() and not _is_text(name) for name in partitions.files]
    if any(odd):
        held = partitions.present & (partitions.value < 0) & np.array([*odd, False])[partitions.file]
        why = "relative names are UTF-8; write absolute ones with relative_to='/' (--relative-to /)"
        yield from of_codes(held, "name of a file", map(ascii, partitions.files), partitions.file, why)


def _is_text(name: str) -> bool:
    """Return whether a file name is UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def notes(aggregation: Aggregation) -> list[str]:
    """Return notes on information that is left out because it is stored elsewhere, or has another form."""
    count = int((missing(aggregation.partitions) & aggregation.partitions.present).sum())
    count = 0 if fill_of(aggregation) is None else count  # listed as losses
    gaps = (
        f"variable {aggregation.name!r}: {count:,} missing unique value{'s'[: count != 1]} "
        f"{'is' if count == 1 else 'are'} written as missing fragment{'s'[: count != 1]}, which missing='fill' reads"
    )
    return [*unsaid(aggregation), *([gaps] if count else [])]


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
    'location: t_location file: t_file format: t_format address: t_address'
    >>> made.variables["t_location"][1].tolist(), made.variables["t_file"][1].tolist()
    ([[2, 3]], ['a.nc', 'b.nc'])
    """
    encoded.check(aggregation, lacks(aggregation), DIALECT)
    made = Instructing(aggregation, names)
    shape, spanned = made.shape, made.spanned
    given, attributes = sizes(aggregation)
    given = given if shape else np.ones(1, np.int32)
    rows = tuple(made.dimension(name, n) for name, n in zip("ij", given.shape, strict=False))
    versions = [aggregation.partitions, *aggregation.partitions.versions]
    spanned_files = (*spanned, made.dimension("versions", len(versions))) if len(versions) > 1 else spanned
    columns = [_columns(p, shape) for p in versions]
    file, form, address = (
        found[0] if len(versions) == 1 else np.stack(found, -1) for found in zip(*columns, strict=True)
    )
    made.add("location", rows, given, attributes)
    made.add("file", spanned_files, file)
    for term, values in (("format", form), ("address", address)):
        # Scalars apply to the fragments that have a file.
        distinct = set(values[file != ""].tolist())
        alone = len(distinct) <= 1 and (term == "format" or not values[file == ""].any())
        if alone and (distinct or term == "format"):
            made.add(term, (), np.array(next(iter(distinct), "nc"), object))
        else:
            made.add(term, spanned_files, values)
    for term, own in aggregation.terms.items():
        made.add(term, spanned, *_plain(own))
    return made.encoded(DIALECT)


def _columns(partitions: Partitions, shape: tuple[int, ...]) -> tuple[npt.NDArray[Any], ...]:
    """Return files, formats and addresses of one version of the fragments."""
    gone = missing(partitions)
    file = np.where(gone, -1, partitions.file)
    address = np.where(gone, -1, partitions.address)
    form = np.where(file < 0, -1, partitions.layout)
    forms = ["nc" if is_netcdf(layout.format) else str(layout.format) for layout in partitions.layouts]
    return (
        texts(file, list(map(name_of, partitions.files)), shape),
        texts(form, forms, shape),
        texts(address, list(partitions.addresses), shape),
    )


def _plain(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    """Return an array without a mask, and the missing value if there are gaps."""
    gaps = np.ma.getmaskarray(values)
    plain = np.array(np.ma.getdata(values))
    if plain.dtype.kind in "OUT":
        plain = plain.astype(object)
        plain[gaps] = ""
        return plain, {}
    if not gaps.any():
        return plain, {}
    # A value that does not occur, since the array may contain any.
    if plain.dtype.kind in "iu":
        held = set(plain[~gaps].tolist())
        if len(held) == 256**plain.dtype.itemsize:
            plain = plain.astype(f"i{2 * plain.dtype.itemsize}")
        info = np.iinfo(plain.dtype)
        fill: Any = next(n for n in range(info.min, info.max + 1) if n not in held)
    else:
        usual = plain.dtype.type(np.ma.default_fill_value(plain.dtype))
        fill = np.nan if (plain[~gaps] == usual).any() else usual
    plain[gaps] = fill
    return plain, {"_FillValue": plain.dtype.type(fill)}

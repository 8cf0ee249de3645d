"""CF-1.13: from an aggregation variable and the variables that it names to an aggregation.

``map`` gives the sizes of the fragments; ``uris`` and ``identifiers`` give their locations, or ``unique_values`` the
one value of each.

Sources: CF-1.13 section 2.8 and its conformance requirements, appendix L.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions.instructions import Column, Instructions, Text
from cfagg.conventions.scope import Scope
from cfagg.conventions.unique import unique_values
from cfagg.conventions.uris import is_opaque, paths_of
from cfagg.errors import UnsupportedError
from cfagg.model import Aggregation, Layout, Partitions

__all__ = ["DIALECT", "is_complete", "parse"]

DIALECT = "CF-1.13"

_FRAGMENTS = frozenset({"map", "uris", "identifiers"})
_VALUES = frozenset({"map", "unique_values"})


def is_complete(terms: frozenset[str]) -> bool:
    """Return whether the features of ``aggregated_data`` are one of the two possible sets.

    >>> is_complete(frozenset({"map", "unique_values"})), is_complete(frozenset({"map", "uris"}))
    (True, False)
    """
    return terms in (_FRAGMENTS, _VALUES)


def parse(
    name: str, attributes: Mapping[str, Any], dtype: npt.DTypeLike, scope: Scope, *, source: str = ""
) -> Aggregation:
    """Return the aggregation that a variable describes by ``map``, ``uris``, ``identifiers`` and ``unique_values``.

    Raises `ConventionError` if attributes or variables break the convention, and `LimitError` for too many fragments.
    """
    said = Instructions(name, attributes, dtype, scope, source, str)
    if not is_complete(frozenset(said.terms)):
        raise said.error(
            f"aggregated_data has the features {', '.join(said.terms)}; expected map, uris and identifiers, or map and "
            "unique_values (their case matters)"
        )
    grid = said.grid("map")
    if "unique_values" in said.terms:
        return said.aggregation(grid, unique_values(said, "unique_values", grid), DIALECT)
    return said.aggregation(grid, _fragments(said, grid.size), DIALECT)


def _fragments(said: Instructions, count: int) -> Partitions:
    """Return the fragments by URI and identifier."""
    uris = said.text("uris")
    identifiers = said.text("identifiers", scalar=True)
    for term, text in (("uris", uris), ("identifiers", identifiers)):
        if text.missing.any():
            first = int(np.flatnonzero(text.missing.ravel())[0])
            said.findings.problem(term, f"the value of fragment {said.place(first, text.shape)} is missing")
    whole = "\n".join(("", *uris.values))
    if "\n/" in whole or "\n#" in whole:
        _check_beginnings(said, uris)
    if ":" in whole:
        opaque = next((u for u in uris.values if is_opaque(u)), None)
        if opaque is not None:
            raise UnsupportedError(
                f"{said.subject}: uris: {opaque[:200]!r} is a URI of an unsupported kind: download the file and refer "
                "to it by a relative or file: URI"
            )
    said.findings.check("uris and identifiers do not name the fragments")
    files = Column.of(uris.values, paths_of)
    addresses = Column.of(identifiers.values)
    return Partitions.build(
        count,
        file=files.codes[:count],
        address=addresses.codes[:count] if identifiers.shape else int(addresses.codes[0]),
        files=files.table,
        addresses=addresses.table,
        layouts=[Layout(said.dims)],
    )


def _check_beginnings(said: Instructions, uris: Text) -> None:
    """Note absolute paths, which other software writes in place of URIs, and what has no meaning as a reference."""
    paths = [k for k, uri in enumerate(uris.values) if uri.startswith("/")]
    odd = next((k for k, uri in enumerate(uris.values) if uri.startswith(("#", "//"))), None)
    if odd is not None:
        uri = uris.values[odd]
        said.findings.problem(
            "uris",
            f"{uri!r} of fragment {said.place(odd, uris.shape)} begins with {'#' if uri[0] == '#' else '//'!r}: "
            "expected an absolute URI such as 'file:///data/a.nc', or one relative to the aggregation file",
        )
    elif paths:
        first = f"{uris.values[paths[0]]!r} of fragment {said.place(paths[0], uris.shape)}"
        said.findings.repair("path", f"uris: {first} is an absolute path, not a URI; it is read as the path of a file")

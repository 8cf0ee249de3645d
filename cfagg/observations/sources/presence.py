"""Which elements of a file's arrays are observations: those with data, and not only levels, flags or numbers of casts.

A variable along fewer dimensions than the observations, such as the wind above a mooring, has a value for all elements
along the others.  Where none of these has data, the first one stands for all, so that such values are not lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from cfagg.cf.kinds_of_units import is_reference_time
from cfagg.observations.sources.geometry import Described, Geometry

__all__ = ["Presence"]

#: Attributes of variables that are levels or flags.
_NO_DATA = frozenset({"axis", "positive", "flag_values", "flag_masks", "cf_role", "instance_dimension"})


class Presence:
    """The variables that show where observations exist, and the elements that were found to be some."""

    def __init__(self, geometry: Geometry, variables: Mapping[str, Described]) -> None:
        self._geometry, self._variables = geometry, variables
        dims = geometry.dims
        full = [n for n in geometry.data if set(dims) <= set(variables[n].dims)]
        apart = self._named("ancillary_variables")
        data = {n for n in full if n not in apart and not _NO_DATA & set(variables[n].attributes)}
        #: The variables along all dimensions that show that an observation exists.
        self.telling = data or set(full)
        #: For some of the dimensions, the variables along these alone that do.
        self.alone = self._alone() if len(dims) > 1 and self.telling else {}
        self._seen = {key: np.zeros([geometry.sizes[d] for d in key], bool) for key in self.alone}

    def _named(self, attribute: str) -> set[str]:
        return {word for v in self._variables.values() for word in v.text(attribute).split()}

    def _alone(self) -> dict[tuple[str, ...], set[str]]:
        dims, found = self._geometry.dims, dict[tuple[str, ...], set[str]]()
        needed = {d for name in self._geometry.places.values() for d in self._variables[name].dims} & set(dims)
        apart = self._named("ancillary_variables") | self._named("coordinates")
        for name in self._geometry.data:
            variable = self._variables[name]
            key = tuple(d for d in dims if d in variable.dims)
            units = variable.text("units")
            # Numbers of casts and floats have no units.
            data = units not in ("", "1") and not is_reference_time(units) and name not in apart
            if data and key and len(key) < len(dims) and needed <= set(key) and not _NO_DATA & set(variable.attributes):
                found.setdefault(key, set()).add(name)
        return found

    def mark(self, slices: tuple[slice, ...], kept: npt.NDArray[np.bool_]) -> None:
        """Record which elements of a block are observations."""
        dims = self._geometry.dims
        block = kept.reshape([s.stop - s.start for s in slices])
        for key, seen in self._seen.items():
            others = tuple(i for i, d in enumerate(dims) if d not in key)
            seen[tuple(s for s, d in zip(slices, dims, strict=True) if d in key)] |= block.any(axis=others)

    def absent(self) -> Iterator[tuple[tuple[int, ...], set[str], npt.NDArray[np.bool_]]]:
        """Yield for variables along some dimensions the sizes of all, 1 for the others, and where nothing was found."""
        for key, names in self.alone.items():
            sizes = tuple(self._geometry.sizes[d] if d in key else 1 for d in self._geometry.dims)
            if not self._seen[key].all():
                yield sizes, names, ~self._seen[key].reshape(sizes)

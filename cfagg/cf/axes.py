"""How the axes of a sub-array map to the axes of the master array, and in which direction.

The layout of a partition names the dimensions of its sub-array by the names of the aggregation, in the order of the
sub-array.  The file may use other names, so axes are matched by position; but if the file uses the names of the
aggregation in another order, the two descriptions contradict each other and nothing can be read safely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.header import Header
from cfagg.errors import FragmentMismatchError
from cfagg.model import Aggregation, Layout

__all__ = ["Axes"]

#: Begins the names that readers of HDF5 give to dimensions without any.
_NUMBERED = "phony_dim_"


@dataclass(frozen=True, slots=True)
class Axes:
    """For each master axis the matching sub-array axis or -1; reversed axes; and `extra` axes of size 1."""

    axes: tuple[int, ...]
    flips: tuple[bool, ...]
    extra: tuple[int, ...]

    @classmethod
    def match(cls, aggregation: Aggregation, layout: Layout, header: Header, *, where: str) -> Axes:
        """Return the axes of a sub-array from `layout` and `header`, which must agree."""
        position = _positions(aggregation, layout, header, where)
        used = [position.get(dim, -1) for dim in aggregation.dims]
        flipped = dict(zip(layout.dims, layout.flipped, strict=True))
        return cls(
            axes=tuple(used),
            flips=tuple(k >= 0 and flipped[dim] for dim, k in zip(aggregation.dims, used, strict=True)),
            extra=tuple(k for k in range(len(header.dims)) if k not in used),
        )

    def view(self, block: npt.NDArray[Any], shape: tuple[int, ...], *, where: str) -> npt.NDArray[Any]:
        """Return a view of a block of the sub-array in the order, directions and shape of the master array."""
        ndim = sum(k >= 0 for k in self.axes) + len(self.extra)
        if block.ndim != ndim:
            raise FragmentMismatchError(f"{where}: the sub-array has {block.ndim} dimensions, expected {ndim}")
        for k in self.extra:
            if block.shape[k] != 1:
                raise FragmentMismatchError(
                    f"{where}: axis {k} of the sub-array, shape {block.shape}, is not a dimension of the aggregation "
                    f"and has size {block.shape[k]}, expected 1; name the index to take in the partition's 'part'"
                )
        ordered = block.transpose([k for k in self.axes if k >= 0] + list(self.extra))
        index: list[Any] = [
            None if k < 0 else slice(None, None, -1) if flip else slice(None)
            for k, flip in zip(self.axes, self.flips, strict=True)
        ]
        # An ellipsis keeps the result a view even if every axis is indexed by an integer.
        view = ordered[(*index, ..., *[0] * len(self.extra))]
        if -1 in self.axes and view.ndim == len(shape):
            # A selection may repeat the single index of a dimension that the sub-array lacks.
            wanted = [n if k < 0 else m for k, n, m in zip(self.axes, shape, view.shape, strict=True)]
            view = np.broadcast_to(view, wanted)
        if view.shape != shape:
            raise FragmentMismatchError(
                f"{where}: the sub-array has shape {view.shape} in the aggregation's order of dimensions, "
                f"expected {shape}; correct its 'location', 'shape' or 'dimensions'"
            )
        return view


def _positions(aggregation: Aggregation, layout: Layout, header: Header, where: str) -> dict[str, int]:
    """Return the file's axis for each dimension of the layout that the file has."""
    found, declared = header.dims, layout.dims
    if len(found) == len(declared):
        if layout.shape is not None and layout.shape != header.shape:
            raise FragmentMismatchError(
                f"{where}: the sub-array has shape {header.shape}, but the aggregation says {layout.shape}; correct "
                "its 'shape' or name the right file"
            )
        numbered = all(name.startswith(_NUMBERED) for name in (*found, *declared))
        if numbered and (set(found) != set(declared) or len(set(header.shape)) == len(found)):
            # Readers number what a file does not name differently; another order would have another shape.
            return {name: k for k, name in enumerate(declared)}
        for k, (name, here) in enumerate(zip(declared, found, strict=True)):
            # What occurs again in the file has another name in an aggregation, whose dimensions are distinct.
            if here != name and here in declared and declared.index(here) != found.index(here):
                raise FragmentMismatchError(
                    f"{where}: the file's dimensions are {found} where the aggregation says {declared}: dimension {k} "
                    f"is {here!r}, expected {name!r}; declare the partition's 'dimensions' in the file's order"
                )
        return {name: k for k, name in enumerate(declared)}
    # Size-1 dimensions may be present on one side only, but then only names can identify them.
    names = [name for name in declared if name in found]
    rest = [n for name, n in zip(found, header.shape, strict=True) if name not in declared]
    whole = len(names) == len(found) if len(found) < len(declared) else len(names) == len(declared)
    if whole and all(n == 1 for n in rest) and names == [name for name in found if name in declared]:
        return {name: found.index(name) for name in names}
    raise FragmentMismatchError(
        f"{where}: the file's dimensions are {found} of shape {header.shape}, but the aggregation says {declared} for "
        f"{aggregation.name!r} {aggregation.dims}; declare the partition's 'dimensions' as the file has them"
    )

"""What a variable sees of its file: the interface by which conventions read what describes an aggregation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.conventions.nca_shapes import Private

__all__ = ["Described", "Scope"]


class Described(NamedTuple):
    """What a file says about one of its variables; characters of text are no dimension."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # `object` where it is text, of strings or of characters
    attributes: Mapping[str, Any]


def _nothing(name: str) -> None:
    del name


def _no_values(name: str) -> npt.NDArray[Any]:
    raise KeyError(name)


@dataclass(frozen=True)
class Scope:
    """What a variable can see in its file.

    Parameters
    ----------
    sizes : mapping of str to int
        Sizes of dimensions.
    private : mapping, optional
        ``{variable: (dims, shape)}`` of variables that only hold sub-arrays of aggregations.
    find : callable, optional
        Returns the variable that a name or path means, from the group of the aggregation variable upwards; `None`
        where there is none.
    values : callable, optional
        Returns its values as stored, text as `str` objects with characters joined, of which those that are missing
        are masked; `LimitError` where they are too many.
    conventions : str, optional
        The attribute ``Conventions`` of the file.
    substitutions : mapping of str to str, optional
        What the user has replaced in names of files, which counts before what the file says.
    leave : callable, optional
        Is told the name of a variable that was looked at and describes no fragments after all.
    """

    sizes: Mapping[str, int]
    private: Private = field(default_factory=dict)
    find: Callable[[str], Described | None] = _nothing
    values: Callable[[str], npt.NDArray[Any]] = _no_values
    conventions: str = ""
    substitutions: Mapping[str, str] = field(default_factory=dict)
    leave: Callable[[str], object] = _nothing

"""The part of a file visible to a variable: the interface by which conventions read descriptions of aggregations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.conventions.nca_shapes import Private

__all__ = ["Described", "Scope"]


class Described(NamedTuple):
    """The description of a variable in its file; the characters of text are not a dimension."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # `object` for text, of strings or of characters
    attributes: Mapping[str, Any]


def _nothing(name: str) -> None:
    del name


def _no_values(name: str) -> npt.NDArray[Any]:
    raise KeyError(name)


@dataclass(frozen=True)
class Scope:
    """The part of its file that a variable can see.

    Parameters
    ----------
    sizes : mapping of str to int
        Sizes of dimensions.
    private : mapping, optional
        ``{variable: (dims, shape)}`` of variables that only contain sub-arrays of aggregations.
    find : callable, optional
        Returns the variable that a name or path refers to, from the group of the aggregation variable upwards, or
        `None` if there is none.
    values : callable, optional
        Returns its values as stored, text as `str` objects with characters joined, with missing ones masked; raises
        `LimitError` if there are too many.
    conventions : str, optional
        The attribute ``Conventions`` of the file.
    substitutions : mapping of str to str, optional
        Substitutions in file names set by the user, which override those of the file.
    leave : callable, optional
        Called with the name of a variable that was read but does not describe fragments.
    dimension : callable, optional
        Returns the name of a visible dimension that is given by name or path, and any other text unchanged.
    """

    sizes: Mapping[str, int]
    private: Private = field(default_factory=dict)
    find: Callable[[str], Described | None] = _nothing
    values: Callable[[str], npt.NDArray[Any]] = _no_values
    conventions: str = ""
    substitutions: Mapping[str, str] = field(default_factory=dict)
    leave: Callable[[str], object] = _nothing
    dimension: Callable[[str], str] = str

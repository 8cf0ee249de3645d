"""`cfagg.show`: the content of a file, in a terminal or a notebook."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from cfagg.api.summarising import aggregations, summarise
from cfagg.arrays.opening import open_any
from cfagg.arrays.source import Source
from cfagg.display.html import file_html
from cfagg.display.summary import ROWS
from cfagg.display.text import file_lines
from cfagg.errors import OptionError
from cfagg.errors.arguments import an_integer, names, texts
from cfagg.formats.values.locks import LIBRARY

__all__ = ["Shown", "show"]


class Shown:
    """The content of a file; prints as text, and notebooks display it with a picture of every partition matrix.

    Parameters
    ----------
    source : cfagg.arrays.source.Source
        The metadata of the file.
    variables : sequence of str
        Names or paths of the only variables to show.
    rows : int or None
        Maximum number of lines of each long list; `None` means all.
    allow : sequence of str
        Further places from which partitions may be read.
    """

    def __init__(
        self, source: Source, variables: Sequence[str] = (), *, rows: int | None = ROWS, allow: Sequence[str] = ()
    ) -> None:
        self.source = source
        variables = names(variables, "variables")
        if rows is not None and an_integer(rows, "rows") < 1:
            raise OptionError(f"rows={rows} is less than 1; give a number of lines, or None for all")
        self._summary = summarise(source, allow=allow, rows=rows, variables=variables)
        self._aggregations = aggregations(source, variables)

    def __str__(self) -> str:
        return "\n".join(file_lines(self._summary))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return file_html(self._summary, self._aggregations)


@LIBRARY.keeping_files()
def show(
    path: str | os.PathLike[str],
    *,
    variables: Sequence[str] = (),
    rows: int | None = ROWS,
    allow: Sequence[str] = (),
    storage_options: Mapping[str, Any] | None = None,
    substitutions: Mapping[str, str] | None = None,
) -> Shown:
    """Show the content of a file: dimensions, variables, and where the partitions of each aggregation are.

    Parameters
    ----------
    path : str or path-like
        A netCDF file, with or without aggregations, a PP file, the directory of a Zarr store, or a file in a format of
        a plug-in; or the URL of a netCDF file or of a Zarr store.
    variables : str or sequence of str
        Names or paths of the only variables to show; all by default.
    rows : int or None
        Maximum number of lines, first and last ones, of each long list; `None` means all.
    allow : sequence of str
        Further places from which partitions may be read: references there are shown as readable.

    storage_options : mapping, optional
        Options for a URL, as for `cfagg.read`.
    substitutions : mapping of str to str, optional
        Replacements for ``${base}`` in names of files, as for `cfagg.read`.

    Returns
    -------
    Shown
        Prints as text; notebooks display it with a picture of every partition matrix.

    Raises
    ------
    SourceError
        If the file cannot be opened, or does not have the variable.
    ConventionError
        If an aggregation violates its convention.

    Examples
    --------
    >>> from cfagg.demo import sample
    >>> print(show(sample("figure1.nca"), variables=["x"]))  # doctest: +ELLIPSIS
    /...figure1.nca (NETCDF3_CLASSIC)
    <BLANKLINE>
    dimensions:
      y  8
      x  7
    <BLANKLINE>
    variables:
      x (x: 7) int32 column
    """
    changes = texts(substitutions, "substitutions", "a mapping such as {'base': '/archive/'}")
    return Shown(open_any(path, allow, storage_options, changes), variables, rows=rows, allow=allow)

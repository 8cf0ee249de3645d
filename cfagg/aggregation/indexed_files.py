"""The files of a byte-offset index: which they are, with which variables, and why others are left out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from cfagg.arrays.index.addresses import addresses_of
from cfagg.errors import CfaggError
from cfagg.model import Aggregation
from cfagg.storage.urls import Url

if TYPE_CHECKING:
    from cfagg.arrays.source import Source
    from cfagg.storage.access import Access

__all__ = ["Wanted", "fragments", "lacking", "opened"]


def opened(place: str, allowed: tuple[str, ...]) -> Source:
    """Return a file or store of any format."""
    from cfagg.arrays.opening import open_any

    return open_any(place, allowed)


def fragments(source: Source, access: Access, left: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield file and address of the fragments of all aggregations of a source; unreadable ones are added to `left`."""
    for group in source.root.walk():
        for variable in group.variables.values():
            if not isinstance(variable, Aggregation):
                continue
            for code, address in addresses_of(variable)[0]:
                reference = variable.partitions.files[code]
                try:
                    yield access.resolve(reference), address
                except CfaggError as error:
                    left.setdefault(reference, error.message)


class Wanted:
    """The files of an index, with the paths of their variables (`None` for all), and why others are left out."""

    def __init__(self, files: dict[str, tuple[str, ...] | None], left: dict[str, str]) -> None:
        self.files, self._left = files, left
        self._places: dict[str, str] = {}
        self._allowed: tuple[str, ...] = ()

    @classmethod
    def of(cls, named: Iterable[str], allowed: tuple[str, ...]) -> Self:
        """Return all variables of files; those on other machines are listed now."""
        wanted = cls({}, {})
        wanted._allowed = allowed
        for place in named:
            path = place if isinstance(place, Url) else os.path.realpath(place)
            wanted._places.setdefault(path, place)
            if isinstance(place, Url):
                wanted.files[path] = wanted.listed(path)
            elif os.path.isdir(path):  # noqa: PTH112
                wanted.listed(path)
                wanted._left.setdefault(
                    path, f"{path} is a Zarr store, which needs no index: its metadata say where its chunks are"
                )
            else:
                wanted.files.setdefault(path, None)
        return wanted

    def listed(self, path: str) -> tuple[str, ...]:
        """Return the paths of the variables of a file, or none if it cannot be read."""
        try:
            return tuple(_paths_in(self._places[path], self._allowed))
        except CfaggError as error:
            self._left[path] = error.message
            return ()

    @property
    def left(self) -> list[str]:
        """Why files are left out, in order."""
        order = {path: n for n, path in enumerate(self._places)}
        return [self._left[path] for path in sorted(self._left, key=lambda path: order.get(path, 0))]


def _paths_in(place: str, allowed: tuple[str, ...]) -> list[str]:
    """Return the paths of the variables of a file, except aggregations."""
    from cfagg.arrays.datasets import dataset_of, with_aggregations
    from cfagg.formats.opening import NETCDF, format_of
    from cfagg.storage.files import open_regular

    if not isinstance(place, Url) and os.path.isfile(place):  # noqa: PTH113
        # The netCDF library takes ten times as long to list them.  The general way reports damage, and knows which
        # variables only serve aggregations.
        with suppress(CfaggError):
            handle = open_regular(place)
            if format_of(handle) in NETCDF:
                with with_aggregations(dataset_of(handle)) as dataset:
                    if dataset.damage is None and all(v.dialect is None for v in dataset.variables):
                        return [v.path.removeprefix("/") for v in dataset.variables]
    return [
        f"{group.path.rstrip('/')}/{name}".removeprefix("/")
        for group in opened(place, allowed).root.walk()
        for name, variable in group.variables.items()
        if not isinstance(variable, Aggregation)
    ]


def lacking(places: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield what an index lacks: files that cannot be read at all, with the reason, or else variables."""
    whys: dict[str, str] = {}
    for path, address in places:
        if path not in whys:
            whys[path] = why = _unreadable(path)
            if why:
                yield why
        if not whys[path]:
            yield f"{path}: {address}"


def _unreadable(path: str) -> str:
    """Return why a file cannot be read, or an empty string if it can."""
    try:
        opened(path, ())
    except CfaggError as error:
        return error.message if path in error.message else f"{path}: {error.message}"
    return ""

"""A requested conversion, checked before anything is opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cfagg.arrays.opening import open_any
from cfagg.arrays.source import Source
from cfagg.conversion.options import Options
from cfagg.errors import OptionError
from cfagg.formats.values.pool import close_files
from cfagg.storage.access import Access

__all__ = ["BEGINS_ANEW", "Request", "refuse_options"]

#: The note given if an interrupted run was to be resumed but has left nothing to resume.
BEGINS_ANEW = "written from the beginning: an interrupted run leaves nothing, in this format"


@dataclass(frozen=True, eq=False)
class Request:
    """A conversion to perform; `given` are the names of options that differ from their defaults."""

    source: str  # a path, or a `Url` with its options
    target: str | os.PathLike[str]
    options: Options  # the options that determine what is written
    given: tuple[str, ...]
    allow: tuple[str, ...]
    workers: int
    memory: int  # bytes of values in memory
    overwrite: bool = False
    resume: bool = False
    verify: bool = False
    progress: Callable[[int, int], None] | None = None
    target_options: Mapping[str, Any] | None = None
    dry_run: bool = False
    client: Any = None  # of a Dask cluster, whose workers read and write; `workers` are then threads of one of them
    threads: int = 1  # of this process, for work done here

    def refuse(self, names: frozenset[str], why: str) -> None:
        """Raise an error if options were given that do not apply to this kind of target."""
        refuse_options([name for name in self.given if name in names], why)

    def open(self) -> tuple[Source, Access]:
        """Open the source; raise an error for a directory that is not a store."""
        opened = open_any(self.source, self.allow, substitutions=self.options.substitutions)
        return opened, Access(self.source, self.allow)

    @contextmanager
    def opened(self) -> Iterator[tuple[Source, Access]]:
        """Open the source, and close all files at the end.

        Callers may want to change the source next, which the libraries refuse while it is open.
        """
        try:
            yield self.open()
        finally:
            close_files()


def refuse_options(given: list[str], why: str) -> None:
    """Raise an error for given options that do not apply."""
    if given:
        found = ", ".join(f"{name}=" for name in given)
        raise OptionError(f"{why}: leave out {found}")

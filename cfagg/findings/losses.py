"""Losses of a translation between formats."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Loss"]


class Loss(NamedTuple):
    """Something in a source that the target cannot represent.

    Parameters
    ----------
    variable : str
        Path of the variable.
    partition : tuple of int or None
        Index in the partition matrix; `None` if the whole variable is affected.
    what : str
        What is lost.
    found : str
        The value in the source.
    why : str
        The reason.
    """

    variable: str
    partition: tuple[int, ...] | None
    what: str
    found: str
    why: str

    def __str__(self) -> str:
        where = "" if self.partition is None else f", partition {list(self.partition)}"
        return f"variable {self.variable!r}{where}: {self.what} ({self.found}) is lost: {self.why}"

"""Options of a check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cfagg.storage.urls import Options as StorageOptions

__all__ = ["Options", "codes"]


def codes(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the codes in texts in which commas separate them.

    >>> codes(["UNI, TIM", "DOC001"])
    ('UNI', 'TIM', 'DOC001')
    """
    return tuple(word.strip() for text in texts for word in text.split(",") if word.strip())


class Options(NamedTuple):
    """The options of a check: see `cfagg.check`."""

    cf_version: str | None = None
    data: bool = False
    references: bool = False
    allow: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    timeout: float | None = None
    tables: Mapping[str, Path] = {}
    #: Options of URLs; secrets among them are not pickled.
    storage: StorageOptions | None = None
    #: Bytes per word in addresses of PP files.
    word_size: int | None = None
    #: Replacements in file names of aggregations.
    substitutions: Mapping[str, str] = {}

    def chooses(self, code: str) -> bool:
        """Whether a rule is to be run; the longest matching prefix decides.

        >>> Options(select=("TIM",), ignore=("TIM013",)).chooses("TIM013")
        False
        """
        if code.startswith("INT"):
            return True
        chosen = max((len(s) for s in self.select if code.startswith(s)), default=-1 if self.select else 0)
        refused = max((len(s) for s in self.ignore if code.startswith(s)), default=-1)
        return chosen > refused or (chosen == refused == 0)

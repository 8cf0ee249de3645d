"""The information that a rule may request about the dataset it checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from cfagg.findings.versions import Version
from cfagg.model.dataset import Dataset

__all__ = ["Context"]

T = TypeVar("T")


class Context(Protocol):
    """One dataset under check.

    Attributes
    ----------
    dataset : Dataset
        The dataset.
    version : Version
        The version of CF that it is checked against.
    options : object
        The options of the user: ``allow`` are the places that the dataset may refer to.
    """

    dataset: Dataset
    version: Version
    options: Any

    def once(self, function: Callable[[Any], T]) -> T:
        """Return ``function(self)``, computed once for all rules that need it."""

"""The configuration of a source or filter as a recipe has it, and hints at words that are spelt wrongly."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["Config", "closest"]


class Config(dict[str, Any]):
    """The configuration of a source or filter: a mapping that knows its place and the recipe's directory."""

    def __init__(self, values: Mapping[str, Any] | None = None, where: str = "", directory: Path | None = None) -> None:
        super().__init__(values or {})
        self.where = where
        self.directory = directory

    def __reduce__(self) -> tuple[Any, ...]:
        return Config, (dict(self), self.where, self.directory)

    def path(self, text: str) -> str:
        """Return a path of the recipe as an absolute one: beside the recipe, else in the working directory."""
        # URLs are returned as they are.
        if "://" in text and not text.startswith("file://"):
            return text
        # Unlike that of pathlib this one leaves the homes of unknown users as they are.
        path = Path(os.path.expanduser(text.removeprefix("file://")))  # noqa: PTH111
        if path.is_absolute():
            return str(path)
        if self.directory is not None:
            beside = self.directory / path
            try:
                if any(c in text for c in "*?[") and any(self.directory.glob(str(path))):
                    return str(beside)
            except (OSError, ValueError, NotImplementedError):  # a name that no file can have
                return str(beside)
            if os.path.exists(beside):  # noqa: PTH110  (Path raises for names that are too long)
                return str(beside)
        return str(Path.cwd() / path)


def closest(word: str, known: Iterable[str]) -> str:
    """Return a hint at the known word that is most like another one."""
    near = difflib.get_close_matches(str(word), list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""

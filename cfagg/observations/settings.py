"""What a recipe says to one source, filter or section, read key by key with every problem kept.

Nothing raises at the first mistake: a `Settings` collects what is wrong with each key, and `Settings.finish` raises it
all at once, with the path of each key in the recipe.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from cfagg.errors import ConventionError, Problem
from cfagg.observations.periods import as_duration

__all__ = ["Config", "Settings", "closest"]


class Config(dict[str, Any]):
    """The configuration of a source or filter: a plain mapping that knows where it stands.

    Parameters
    ----------
    values : mapping
        Keys and values as in the recipe.
    where : str
        The place in the recipe, such as ``input.pipe[0].csv``.
    directory : Path, optional
        The recipe's own directory, against which relative paths are tried first.
    """

    def __init__(self, values: Mapping[str, Any] | None = None, where: str = "", directory: Path | None = None) -> None:
        super().__init__(values or {})
        self.where = where
        self.directory = directory

    def __reduce__(self) -> tuple[Any, ...]:
        return Config, (dict(self), self.where, self.directory)

    def path(self, text: str) -> str:
        """Return a path of the recipe as an absolute one: beside the recipe, else in the working directory.

        Addresses with a scheme, such as ``https://``, are returned as they are.
        """
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
    """Return a hint at the known word that is most like another one.

    Examples
    --------
    >>> closest("frequncy", ["start", "frequency"])
    '; did you mean frequency?'
    """
    near = difflib.get_close_matches(str(word), list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


class Settings:
    """The keys of a mapping, taken one by one.

    Parameters
    ----------
    values : mapping
        What the recipe says.
    where : str, optional
        The place in the recipe; a `Config` knows its own.

    Examples
    --------
    >>> settings = Settings({"path": "a.csv", "rows": -1}, "input.csv")
    >>> settings.text("path"), settings.count("rows", 10)
    ('a.csv', 10)
    >>> [str(p) for p in settings.problems]
    ['input.csv.rows: -1 is not a whole number of at least 1']
    """

    def __init__(self, values: object, where: str = "") -> None:
        self.where = where or getattr(values, "where", "")
        self.problems: list[Problem] = []
        self._taken: set[str] = set()
        self._values: Mapping[Any, Any] = {}
        if isinstance(values, Mapping):
            self._values = values
            for key in values:
                if not isinstance(key, str):
                    self.problems.append(Problem(self.where, f"the key {key!r} is not text"))
        elif values is not None:
            self.problems.append(Problem(self.where, f"{values!r} is not a mapping of keys to values"))

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def take(self, key: str, default: Any = None) -> Any:
        """Return a value as it is; a key without a value counts as absent."""
        self._taken.add(key)
        value = self._values.get(key)
        return default if value is None else value

    def wrong(self, key: str, message: str) -> None:
        """Keep a problem with a key."""
        self.problems.append(Problem(f"{self.where}.{key}" if self.where else key, message))

    def text(self, key: str, default: str | None = None, *, required: bool = False) -> str:
        """Return text; numbers and dates of YAML are not text."""
        value = self.take(key, default)
        if isinstance(value, str) and value:
            return value
        if value is None and not required:
            return ""
        self.wrong(key, "is missing" if value is None else f"{value!r} is not text")
        return default or ""

    def one_of(self, key: str, known: Iterable[str], default: str) -> str:
        """Return one of a few words."""
        value, words = self.take(key, default), list(known)
        if value in words:
            return str(value)
        self.wrong(key, f"{value!r} is not one of {', '.join(words)}{closest(str(value), words)}")
        return default

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self.take(key, default)
        if isinstance(value, bool):
            return value
        self.wrong(key, f"{value!r} is neither true nor false")
        return default

    def count(self, key: str, default: int | None = None, *, least: int = 1) -> int | None:
        """Return a whole number of at least `least`."""
        value = self.take(key, default)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= least):
            return value
        self.wrong(key, f"{value!r} is not a whole number of at least {least}")
        return default

    def number(self, key: str, default: float | None = None) -> float | None:
        """Return a finite number."""
        value = self.take(key, default)
        if value is None or self.is_number(value):
            return None if value is None else float(value)
        self.wrong(key, f"{value!r} is not a finite number")
        return default

    def duration(self, key: str, default: timedelta | None = None) -> timedelta | None:
        """Return a positive duration."""
        value = self.take(key)
        if value is None:
            return default
        try:
            return as_duration(value)
        except ValueError as error:
            self.wrong(key, str(error))
            return default

    def names(self, key: str) -> tuple[str, ...] | None:
        """Return a list of different names; a single name counts as a list of one."""
        return self._listed(key, self.take(key), "names")

    def paths(self, key: str) -> tuple[str, ...] | None:
        """Return a list of different paths as text; a single one, text or path-like, counts as a list of one."""
        value = self.take(key)
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        elif isinstance(value, list | tuple):
            value = [os.fspath(v) if isinstance(v, os.PathLike) else v for v in value]
        return self._listed(key, value, "paths")

    def path(self, key: str) -> str:
        """Return one path as text, text or path-like."""
        value = self._values.get(key)
        if isinstance(value, os.PathLike):
            self._taken.add(key)
            return os.fsdecode(value)
        return self.text(key, required=True)

    def _listed(self, key: str, value: Any, what: str) -> tuple[str, ...] | None:
        if value is None:
            return None
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list | tuple) or not all(isinstance(v, str) and v for v in found):
            self.wrong(key, f"{value!r} is not a list of {what}")
            return None
        twice = sorted({v for v in found if list(found).count(v) > 1})
        if twice:
            self.wrong(key, f"{', '.join(twice)} occurs more than once")
        return tuple(found)

    def mapping(self, key: str) -> dict[str, Any]:
        """Return a mapping from names to anything."""
        value = self.take(key, {})
        if isinstance(value, Mapping) and all(isinstance(k, str) for k in value):
            return dict(value)
        self.wrong(key, f"{value!r} is not a mapping of names")
        return {}

    def rest(self) -> dict[str, Any]:
        """Return all keys that were not taken yet."""
        left = {str(k): v for k, v in self._values.items() if k not in self._taken}
        self._taken.update(left)
        return left

    def finish(self, known: Iterable[str] = ()) -> None:
        """Raise all problems, with those keys that nothing asked for.

        Raises
        ------
        ConventionError
            There is at least one problem; all are listed.
        """
        self.unknown(known)
        if self.problems:
            raise ConventionError(f"{self.where or 'recipe'}: cannot be used as written", self.problems)

    def unknown(self, known: Iterable[str] = ()) -> None:
        """Keep a problem for each key that nothing asked for."""
        names = sorted(self._taken | set(known))
        for key in self._values:
            if isinstance(key, str) and key not in self._taken and key not in known:
                self.wrong(key, f"is not known here (known: {', '.join(names)}){closest(key, names)}")

    @staticmethod
    def is_number(value: object) -> bool:
        """Return whether a value is a finite number of Python or YAML."""
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

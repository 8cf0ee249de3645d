"""The settings of ``cfagg check`` in ``cfagg.toml`` or ``pyproject.toml``.

::

    [tool.cfagg.check]                 # in cfagg.toml: [check]
    cf-version = "1.8"
    select = ["UNI", "TIM"]
    ignore = ["DOC008"]
    data = true
    references = true
    strict = true
    allow = ["/archive"]
    tables = { standard-names = "names.xml" }

    [tool.cfagg.check.per-file-ignores]
    "legacy/*.nc" = ["UNI001"]

    [tool.cfagg.check.per-variable-ignores]
    "qc_*" = ["FLG"]

    [[tool.cfagg.check.suppress]]
    codes = ["BND004"]
    files = ["legacy/*.nc"]
    variables = ["lon"]
    reason = "bounds of this model are known to be reversed"
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cfagg.checking.suppressions import Suppression
from cfagg.errors import SourceError
from cfagg.findings.versions import parse
from cfagg.storage.files import CONTEXT_SOURCE, open_regular

__all__ = ["KEYS", "Finder", "Reader", "Settings", "load"]

#: Names of the files that are searched for in each directory; the first one found is used.
FILES = ("cfagg.toml", "pyproject.toml")

#: A larger file is not taken for a configuration.
_LARGEST = 1 << 20

_TRUTHS = ("data", "references", "strict")
_LISTS = ("select", "ignore", "allow")
_TABLES = ("standard-names", "area-types", "regions")

#: All settings.
KEYS = ("cf-version", *_TRUTHS, *_LISTS, "tables", "per-file-ignores", "per-variable-ignores", "suppress")


class Settings(NamedTuple):
    """The settings of a configuration; `path` is `None` without one, and with `strict` warnings count as failures."""

    path: Path | None = None
    options: Mapping[str, Any] = {}
    suppressions: tuple[Suppression, ...] = ()
    strict: bool = False


class Finder:
    """Finds the configuration of each source: the nearest above it, else the nearest above the working directory."""

    def __init__(self, directory: str | os.PathLike[str] = ".") -> None:
        self._known: dict[Path, Settings | None] = {}
        self._narrow: dict[Path | None, Settings] = {}
        self._none = Settings()
        self._here = _absolute(directory)

    def settings(self, source: Any) -> Settings:
        """Return the settings for a source.

        A file beside the data that is not above the working directory may come from the provider of the data, so it
        must not allow further places (``allow``) or name tables.
        """
        here = self._above(self._here)
        if not isinstance(source, str | os.PathLike) or "://" in os.fsdecode(source):
            return here or self._none
        near = self._above(_absolute(source).parent)
        if near is None or near is here:
            return here or self._none
        if near.path not in self._narrow:
            options = {name: value for name, value in near.options.items() if name not in ("allow", "tables")}
            self._narrow[near.path] = Settings(near.path, options, near.suppressions, near.strict)
        return self._narrow[near.path]

    def _above(self, directory: Path) -> Settings | None:
        """Return the nearest settings in a directory or its parents."""
        passed = []
        found: Settings | None = None
        while directory not in self._known:
            passed.append(directory)
            found = _in(directory)
            if found is not None or directory.parent == directory:
                break
            directory = directory.parent
        else:
            found = self._known[directory]
        for each in passed:
            self._known[each] = found
        return found


def _absolute(path: str | os.PathLike[str]) -> Path:
    """Return an absolute path without ``..``; links are not followed."""
    return Path(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100 - the other one follows links


def _in(directory: Path) -> Settings | None:
    for name in FILES:
        path = directory / name
        if os.path.isfile(path):  # noqa: PTH113 - Path raises where the directory may not be looked into
            found = _read(path)
            if found is not None:
                return found
    return None


def load(path: str | os.PathLike[str]) -> Settings:
    """Return the settings in a ``pyproject.toml`` or ``cfagg.toml``; `SourceError` if it is invalid."""
    found = _read(Path(path))
    return Settings(Path(path)) if found is None else found


def _read(path: Path) -> Settings | None:
    """Return the settings in a file, or `None` if it has no section for them."""
    with open_regular(str(path)) as file:
        raw = file.some(min(file.key.size, _LARGEST) + 1, 0, CONTEXT_SOURCE)
    own = path.name != "pyproject.toml"
    if not own and b"cfagg" not in raw:
        return None
    if len(raw) > _LARGEST:
        raise SourceError(f"{path} has more than {_LARGEST:,} bytes; too large for a configuration")
    import tomllib

    try:
        whole = tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path} is not TOML: {error}") from error
    holder: Any = whole
    for word in () if own else ("tool", "cfagg"):
        holder = holder.get(word) if isinstance(holder, dict) else None
    if not isinstance(holder, dict):
        return None
    for key in holder:
        if key != "check":
            place = "check" if own else "tool.cfagg.check"
            raise SourceError(f"{path}: {key!r} is not a section of cfagg; settings are in [{place}]")
    return Reader(path).settings(holder["check"]) if holder else None


class Reader:
    """A converter of a section into settings, whose errors name the file and the key."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._base = _absolute(path).parent

    def _wrong(self, key: str, wanted: str) -> SourceError:
        return SourceError(f"{self._path}: {key} must be {wanted}")

    def settings(self, section: Any) -> Settings:
        """Return the settings in a parsed section of TOML."""
        if not isinstance(section, dict):
            raise self._wrong("the section check", "a table")
        for key in section:
            if key not in KEYS:
                known = ", ".join(KEYS)
                raise SourceError(f"{self._path}: {key!r} is not a setting of check; the settings are {known}")
        options: dict[str, Any] = {}
        if "cf-version" in section:
            if not isinstance(section["cf-version"], str) or parse(section["cf-version"]) is None:
                raise self._wrong("cf-version", 'a version such as "1.8", from 1.0 to 1.13 or 1.14-draft')
            options["cf_version"] = section["cf-version"]
        for key in _TRUTHS:
            if not isinstance(section.get(key, False), bool):
                raise self._wrong(key, "true or false")
        for key in ("data", "references"):
            if section.get(key):
                options[key] = True
        for key in _LISTS:
            if key in section:
                options[key] = self._texts(section[key], key)
        if "allow" in options:
            options["allow"] = tuple(a if "://" in a else str(self._base / a) for a in options["allow"])
        if "tables" in section:
            options["tables"] = self._tables(section["tables"])
        return Settings(self._path, options, tuple(self._suppressions(section)), bool(section.get("strict", False)))

    def _texts(self, value: Any, key: str) -> tuple[str, ...]:
        if isinstance(value, str) and value:
            return (value,)
        if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
            raise self._wrong(key, "a list of strings")
        return tuple(value)

    def _tables(self, value: Any) -> dict[str, Path]:
        if not isinstance(value, dict) or not all(k in _TABLES and isinstance(v, str) for k, v in value.items()):
            raise self._wrong("tables", f"a table of paths with the keys {', '.join(_TABLES)}")
        return {name.replace("-", "_"): Path(self._base, path) for name, path in value.items()}

    def _suppressions(self, section: Mapping[str, Any]) -> list[Suppression]:
        found = []
        for key, place in (("per-file-ignores", "files"), ("per-variable-ignores", "variables")):
            table = section.get(key, {})
            if not isinstance(table, dict):
                raise self._wrong(key, "a table of patterns and lists of codes")
            for pattern, codes in table.items():
                given: dict[str, Any] = {place: (pattern,)}
                found.append(Suppression(self._texts(codes, f"{key}.{pattern!r}"), base=str(self._base), **given))
        entries = section.get("suppress", [])
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise self._wrong("suppress", "a list of tables")
        for number, entry in enumerate(entries):
            here = f"suppress[{number}]"
            unknown = set(entry) - {"codes", "files", "variables", "reason"}
            if unknown or "codes" not in entry:
                raise self._wrong(here, "a table with codes and, optionally, files, variables and reason")
            found.append(
                Suppression(
                    self._texts(entry["codes"], f"{here}.codes"),
                    self._texts(entry.get("files", []), f"{here}.files"),
                    self._texts(entry.get("variables", []), f"{here}.variables"),
                    str(entry.get("reason", "")),
                    str(self._base),
                )
            )
        return found

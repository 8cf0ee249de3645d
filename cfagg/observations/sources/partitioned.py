"""Folders of tables whose names have a value of a column for all rows below them: ``year=2020/month=1/a.parquet``.

Source: the partitioning of Apache Hive, as Spark, pandas and pyarrow write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote

from cfagg.errors import SourceNotFoundError
from cfagg.storage.urls import Url

__all__ = ["columns_of_folders", "files_below"]

#: The name of a folder whose rows have no value.
_NONE = "__HIVE_DEFAULT_PARTITION__"

#: Whole numbers that float64 may round, those that are exact, and other numbers.
_LONG = re.compile(r"[+-]?[0-9]{16,}")
_WHOLE, _NUMBER = re.compile(r"[+-]?[0-9]{1,15}"), re.compile(r"[+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]{1,2})?")

type Value = int | float | str | None


def files_below(folder: str) -> list[str]:
    """Return the files in a folder and those in it, in order, without hidden ones and those of a writer's own."""
    root = Path(folder)
    own = [p for p in root.rglob("*") if p.is_file()]
    found = [str(p) for p in sorted(own) if not any(part.startswith((".", "_")) for part in _below(root, p))]
    if not found:
        raise SourceNotFoundError(f"{folder}: no file is in this directory")
    return found


def _below(root: Path, path: Path) -> tuple[str, ...]:
    """Return the folders below a root and the name of a file; a folder of a column may begin with ``_``."""
    parts = path.relative_to(root).parts
    return tuple(p for p in parts[:-1] if "=" not in p) + parts[-1:]


def columns_of_folders(
    places: Iterable[str], paths: Iterable[str], *, as_text: str = ""
) -> dict[str, dict[str, Value]]:
    """Return for each path below one of the folders among `places` the columns that names of folders have."""
    # Numbers of stations, which are text, keep their leading zeros.
    roots = [Path(p) for p in places if not isinstance(p, Url) and Path(p).is_dir()]
    words = {path: dict(_named(roots, path)) for path in paths}
    names = dict.fromkeys(name for found in words.values() for name in found)
    kinds = {name: _kind([found[name] for found in words.values() if name in found]) for name in names}
    kinds[as_text] = str
    return {
        path: {name: None if word == _NONE else kinds[name](word) for name, word in found.items()}
        for path, found in words.items()
    }


def _named(roots: Iterable[Path], path: str) -> Mapping[str, str]:
    root = next((r for r in roots if not isinstance(path, Url) and Path(path).is_relative_to(r)), None)
    if root is None:
        return {}
    pairs = (part.partition("=") for part in Path(path).relative_to(root).parts[:-1] if "=" in part)
    return {unquote(name): unquote(word) for name, _, word in pairs if name}


def _kind(words: Iterable[str]) -> type[int | float | str]:
    """Return the type of all words: whole numbers, numbers, or else text."""
    there = [word for word in words if word != _NONE]
    if all(_WHOLE.fullmatch(word) for word in there):
        return int
    if any(_LONG.fullmatch(word) for word in there):
        return str  # float64 would round them
    return float if all(_NUMBER.fullmatch(word) for word in there) else str

"""The values of the keys of a JSON list, under the name of any version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions.columns import MISSING
from cfagg.conventions.findings import Findings, shorten
from cfagg.conventions.versions import VERSIONS, Version

__all__ = ["MEANT", "Keys", "foreign"]

Int64 = npt.NDArray[np.int64]

#: Keys that have a meaning in some version; ignoring one could read the wrong data.
MEANT = frozenset(
    {"endian", "_FillValue", "varid", "base", "data_offset", "disk_length"}.union(
        *(names for v in VERSIONS.values() for keys in (v.head, v.partition, v.data) for names in keys.values())
    )
)


class Keys:
    """Finds the values of keys in the records of one aggregation, batch by batch."""

    def __init__(self, version: Version, findings: Findings) -> None:
        self.version, self.findings = version, findings
        self._unknown: set[str] = set()

    def found(
        self, records: list[dict[str, Any]], known: Mapping[str, tuple[str, ...]], path: str, number: Int64
    ) -> set[str]:
        """Return the keys that records of a batch have; each unknown one is reported once."""
        keys: set[str] = set().union(*records)
        own = {names[0] for names in known.values()} | (self.version.aside if path else frozenset())
        other = {name: names[0] for names in known.values() for name in names[1:]}
        for key in sorted(keys - own):
            if f"{path}.{key}" in self._unknown:
                continue
            self._unknown.add(f"{path}.{key}")
            i = next(i for i, r in enumerate(records) if key in r)
            where = f"Partitions[{number[i]}]{path}"
            if key in other:
                self.findings.repair(
                    "key of another version",
                    f"the key {shorten(key)} of {self.version.place(where)} belongs to another version than "
                    f"{self.version.title}, which has {other[key]!r}; read as that everywhere",
                )
            elif key in MEANT:
                self.findings.problem(f"{where}.{key}", foreign(self.version))
            else:
                self.findings.repair(
                    "unknown key",
                    f"the key {shorten(key)} of {self.version.place(where)} is not a key of {self.version.title} and "
                    "is ignored everywhere",
                )
        return keys

    def column(
        self, records: list[dict[str, Any]], names: tuple[str, ...], keys: set[str], path: str, number: Int64
    ) -> list[Any] | None:
        """Return the value of a key in each record, under any of its names, or `None` if no record has it."""
        found = [name for name in names if name in keys]
        if not found:
            return None
        out = _values(records, found[0])
        for name in found[1:]:
            out = self.merged(out, _values(records, name), number, path) or out
        return out

    def merged(self, one: list[Any] | None, other: list[Any] | None, number: Int64, path: str) -> list[Any] | None:
        """Return one column from two with the same meaning; different values for a partition are a problem."""
        if one is None or other is None:
            return other if one is None else one
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            if a is not MISSING and b is not MISSING and (type(a) is not type(b) or a != b):
                self.findings.problem(
                    f"Partitions[{number[i]}].{path}", f"it is given twice: {shorten(a)} and {shorten(b)}"
                )
        return [b if a is MISSING else a for a, b in zip(one, other, strict=True)]


def _values(records: list[dict[str, Any]], key: str) -> list[Any]:
    """Return the value of a key in each record, `MISSING` if it has none."""
    try:
        return [r[key] for r in records]
    except KeyError:
        return [r.get(key, MISSING) for r in records]


def foreign(version: Version) -> str:
    """Return the problem with a key that only other versions have."""
    return f"this key belongs to another version; {version.title} does not have it"

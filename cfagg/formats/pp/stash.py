"""The phenomenon of a field: from STASH code, else field code (LBFC), to CF standard name, units and long name."""

from __future__ import annotations

import csv
import zlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["Phenomenon", "phenomenon", "stash_name"]

_TABLES = Path(__file__).parent / "tables"

#: The version of the Unified Model if headers do not give it: 4.5, as in umfive and cf-python.
_VERSION = 405.0


class Phenomenon(NamedTuple):
    """CF metadata of a quantity; `None` if there is none."""

    standard_name: str | None = None
    units: str | None = None
    long_name: str | None = None
    #: In metres, for quantities that are defined at one height.
    height: float | None = None
    #: The area type to which it is restricted.
    where: str | None = None


def stash_name(model: int, code: int) -> str | None:
    """Return a STASH code in its usual notation, or `None` if it is not a valid one."""
    if not (0 < code < 100_000 and 0 <= model < 100):
        return None
    return f"m{model:02d}s{code // 1000:02d}i{code % 1000:03d}"


@cache
def phenomenon(model: int, code: int, field_code: int, version: int, *, rotated: bool) -> Phenomenon:
    """Return the phenomenon of a field."""
    # Codes without an internal model (0) are not in this table; the field code is used for them. `version` is that of
    # the Unified Model as in LBSRCE (405 is 4.5), or 0 if unknown.
    if model == 0 or stash_name(model, code) is None:
        return _field_codes().get(field_code, Phenomenon())
    at = float(version or _VERSION)
    rows = [
        row
        for row in csv.reader(_stash().get(f"{model},{code}", ()))
        if float(row[2] or 0) <= at <= float(row[3] or 1e9) and row[4] in ("", "rotated" if rotated else "true")
    ]
    # The first with a standard name, else the first at all.
    found = next((row for row in rows if row[5]), rows[0] if rows else None)
    if found is None:
        return Phenomenon()
    standard_name, units, height, where, long_name = found[5:]
    return Phenomenon(
        standard_name or None, units or None, long_name or None, float(height) if height else None, where or None
    )


@cache
def _stash() -> dict[str, list[str]]:
    """Return the lines of the table by model and code; they are parsed on demand."""
    found: dict[str, list[str]] = {}
    for line in zlib.decompress((_TABLES / "stash.csv.gz").read_bytes(), 31).decode().splitlines():
        model, code, _ = line.split(",", 2)
        found.setdefault(f"{model},{code}", []).append(line)
    return found


@cache
def _field_codes() -> dict[int, Phenomenon]:
    with (_TABLES / "field_codes.csv").open(encoding="utf-8", newline="") as file:
        return {
            int(row["lbfc"]): Phenomenon(row["standard_name"] or None, row["units"] or None, row["long_name"] or None)
            for row in csv.DictReader(file)
        }

"""Make the tables of STASH codes and field codes: ``python -m tests.formats.pp.make_tables STASH_TO_CF UM_CF_MAP``.

The first is ``cf/etc/STASH_to_CF.txt`` of cf-python 3.21.0, the second ``iris/fileformats/um_cf_map.py`` of Iris
3.14.1; neither is in the repository.  Only facts are taken: codes, versions, names and units.  SOURCES.md stands beside
the tables.
"""

from __future__ import annotations

import ast
import csv
import gzip
import io
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cfagg.checking
import cfagg.formats.pp
from cfagg.cf.kinds_of_units import convertible, known

TABLES = Path(cfagg.formats.pp.__file__).parent / "tables"
NAMES = Path(cfagg.checking.__file__).parent / "tables" / "standard_names_v94.csv.gz"

HEAD = "model stash from until grid standard_name units height where long_name"

#: Where the item's own name says that it is another quantity than the first source has it.
CORRECTED = {
    "m01s00i023": ("snowfall_amount", "surface_snow_amount"),
    "m01s30i311": (
        "northward_transformed_eulerian_mean_air_velocity",
        "upward_transformed_eulerian_mean_air_velocity",
    ),
}

#: What the first source notes of increments over a time step, which it divides by its length to have a tendency; and
#: the units of increments by those of tendencies.  Amounts of a time step are stored as what their names say.
_PER_STEP = "user_delta_t"
_INCREMENTS = {"K s-1": "K", "s-1": "1", "m s-2": "m s-1", "m s-1": "m", "kg m-3 s-1": "kg m-3"}


class Item(NamedTuple):
    """One line of the table."""

    model: int
    stash: int
    begin: str
    end: str
    grid: str
    standard_name: str
    units: str
    height: str
    where: str
    long_name: str


class Names:
    """Standard names of CF, with their canonical units."""

    def __init__(self) -> None:
        self._units: dict[str, str] = {}
        self._alias: dict[str, list[str]] = {}
        for row in csv.DictReader(gzip.decompress(NAMES.read_bytes()).decode().splitlines()):
            if row["alias_of"]:
                self._alias[row["standard_name"]] = [a for a in re.split(r"[ |]", row["alias_of"]) if a]
            else:
                self._units[row["standard_name"]] = row["canonical_units"]

    def canonical(self, name: str) -> str:
        """Return the units of a name, none where it is none."""
        return self._units.get(name, "")

    def of(self, name: str | None, units: str | None) -> tuple[str, str]:
        """Return a name that is in force, with its modifiers, and units that convert; no name where there is none."""
        if not name:
            return "", units or ""
        base, *modifiers = name.split(" ", 1)
        if base not in self._units:
            others = self._alias.get(base, [])
            if len(others) != 1:
                return "", units or ""
            base = others[0]
        found = units or self._units[base]
        if not (known(found) and convertible(found, self._units[base])):
            return "", units or ""
        return " ".join([base, *modifiers]), found


def mapping(text: str, name: str) -> dict[Any, tuple[Any, ...]]:
    """Return a dictionary of named tuples of constants from the source of a module, which is not run."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            assert isinstance(node.value, ast.Dict)
            pairs = zip(node.value.keys, node.value.values, strict=True)
            return {
                ast.literal_eval(k): tuple(map(ast.literal_eval, v.args if isinstance(v, ast.Call) else v.elts))
                for k, v in pairs
                if k is not None and isinstance(v, ast.Call | ast.Tuple)
            }
    raise ValueError(f"there is no {name}")


def items(lines: Iterable[str], of_iris: dict[str, Any], heights: dict[str, Any], names: Names) -> Iterator[Item]:
    """Yield the items of both sources."""
    named = defaultdict(list)
    increments = set()
    for line in lines:
        parts = [part.strip() for part in line.rstrip("\n").split("!")]
        if len(parts) < 9 or parts[0].startswith("#"):
            continue
        model, code, long_name, units, begin, end, standard_name, info, grid = parts[:9]
        stash = int(code)
        key = f"m{int(model):02d}s{stash // 1000:02d}i{stash % 1000:03d}"
        former, now = CORRECTED.get(key, ("", ""))
        standard_name = now if standard_name == former else standard_name
        units = {"K @ 273.15": "degC"}.get(units, units)
        increment = _PER_STEP in info and names.canonical(standard_name) in _INCREMENTS
        if increment:
            # What is stored is not divided by the time.
            standard_name, units = "", _INCREMENTS[names.canonical(standard_name)]
            increments.add(key)
        height = re.search(r"height=([\d.]+)m", info)
        above = f"{heights[key][0]:g}" if key in heights else height.group(1) if height else ""
        chosen, unit = names.of(standard_name, units)
        other = of_iris.get(key)
        if other and not grid and not increment:
            theirs, their_unit = names.of(other[0], other[2])
            # The name of a row that begins later or ends earlier than now may be of another quantity.
            if theirs and (not end or not standard_name):
                chosen, unit = theirs, units if chosen == theirs and units else their_unit
        unit = unit if not unit or known(unit) else ""
        where = re.search(r"where_(\w+)", info)
        area = {"open_sea": "ice_free_sea"}.get(where.group(1), where.group(1)) if where else ""
        grid = {"true_latitude_longitude": "true", "rotated_latitude_longitude": "rotated"}.get(grid, grid)
        long_name = re.sub(r"\s+", " ", long_name).strip()
        along = {"eastward_wind": "x_wind", "northward_wind": "y_wind"}.get(chosen)
        if along and not grid:
            yield Item(int(model), stash, begin, end, "true", chosen, unit, above, area, long_name)
            chosen, grid = along, "rotated"
        yield Item(int(model), stash, begin, end, grid, chosen, unit, above, area, long_name)
        named[key].append((begin, end, chosen))
    for key, (standard_name, long_name, units) in of_iris.items():
        if key in increments and names.canonical(standard_name or "") in _INCREMENTS:
            continue
        # What is not named for every version is named for all as the Met Office does.
        if any(not begin and not end and name for begin, end, name in named[key]):
            continue
        chosen, unit = names.of(standard_name, units)
        above = f"{heights[key][0]:g}" if key in heights else ""
        unit = unit if not unit or known(unit) else ""
        stash = int(key[4:6]) * 1000 + int(key[7:10])
        yield Item(int(key[1:3]), stash, "", "", "", chosen, unit, above, "", long_name or "")


def text_of(head: str, rows: Iterable[Iterable[Any]]) -> str:
    """Return a table as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head.split())
    writer.writerows(rows)
    return out.getvalue()


def tables(stash: str, iris: str) -> tuple[str, str]:
    """Return the tables of STASH codes and of field codes from the texts of the two sources."""
    names = Names()
    of_iris, heights = mapping(iris, "STASH_TO_CF"), mapping(iris, "STASHCODE_IMPLIED_HEIGHTS")
    found = dict.fromkeys(i for i in items(stash.splitlines(), of_iris, heights, names) if any(i[5:]))
    codes = [
        (code, *names.of(name, units), long_name or "")
        for code, (name, long_name, units) in sorted(mapping(iris, "LBFC_TO_CF").items())
    ]
    return (
        text_of(HEAD, sorted(found, key=lambda i: i[:2])),
        text_of("lbfc standard_name units long_name", codes),
    )


def main(stash: str, iris: str) -> None:
    """Write both tables."""
    made, codes = tables(Path(stash).read_text("utf-8"), Path(iris).read_text("utf-8"))
    (TABLES / "stash.csv.gz").write_bytes(gzip.compress(made.encode(), 9, mtime=0))
    (TABLES / "field_codes.csv").write_text(codes, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

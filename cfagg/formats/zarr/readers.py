"""Support of software for rectilinear grids (chunks of unequal lengths): the table used in notes and documentation.

``tests/formats/zarr/test_readers.py`` opens such a store with every row of it.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["READERS", "SETTING", "Reader", "readers_table", "rectilinear_note"]

#: The setting that zarr-python, and libraries based on it, need to open a rectilinear grid.
SETTING = 'zarr.config.set({"array.rectilinear_chunks": True})'


class Reader(NamedTuple):
    """A library, by its common name, in the tested versions."""

    library: str
    versions: str
    reads: bool
    needs_setting: bool = False  # reads only after `SETTING`
    remark: str = ""


#: Each row is tested: cfagg itself, then libraries that can read, then the others.
READERS = (
    Reader("cfagg", "", reads=True),
    Reader("zarrista", "0.1", reads=True),
    Reader("zarr-python", "3.2 to 3.4", reads=True, needs_setting=True, remark="`.chunks` and negative steps raise"),
    Reader("zarrs", "0.2.3", reads=True, needs_setting=True, remark="as the codec pipeline of zarr-python"),
    Reader(
        "icechunk",
        "2.3",
        reads=True,
        needs_setting=True,
        remark="refuses one number for equal chunks, which cfagg does not write",
    ),
    Reader("xarray", "2026.9", reads=True, needs_setting=True, remark="writes none"),
    Reader("zarr-python before", "3.2", reads=False, remark="cannot list a group that has one either"),
    Reader("tensorstore", "0.1.86", reads=False),
    Reader("VirtualiZarr", "2.8", reads=False),
    Reader("dask.array.from_zarr", "2026.8", reads=False, remark="through xarray or `cfagg.read` Dask has them"),
    Reader("netCDF-C", "4.10.1", reads=False, remark="reads no Zarr v3"),
)


def rectilinear_note(name: str) -> str:
    """Return the note about a variable that is written with a rectilinear grid."""
    free = [_called(r) for r in READERS if r.reads and not r.needs_setting]
    set_ = [_called(r) for r in READERS if r.needs_setting]
    not_ = [_called(r) for r in READERS if not r.reads]
    return (
        f"variable {name!r} has chunks of unequal sizes (a rectilinear grid): read by {_listed(free)}; after {SETTING} "
        f"by {_listed(set_)}; not by {_listed(not_)}"
    )


def readers_table() -> str:
    """Return the table in Markdown."""
    lines = ["| library | tried | reads a rectilinear grid | |", "|---|---|---|---|"]
    for r in READERS:
        answer = "after the setting" if r.needs_setting else "yes" if r.reads else "no"
        lines.append(f"| {r.library} | {r.versions} | {answer} | {r.remark} |".replace("|  |", "| |"))
    return "\n".join(lines)


def _called(reader: Reader) -> str:
    """Return a library with its versions."""
    return f"{reader.library} {reader.versions}".rstrip()


def _listed(names: list[str]) -> str:
    """Return names as a list in a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

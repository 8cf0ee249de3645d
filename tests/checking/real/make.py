"""Write the headers of the files of iris-sample-data as CDL beside this module.

Run ``python -m tests.checking.real.make FOLDER`` with the folder of that package's files.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from cfagg.checking.opening import open_dataset
from cfagg.checking.options import Options
from cfagg.model.dataset import Dataset

#: NumPy type -> type in CDL and the end of its numbers.
_TYPES = {
    "S1": ("char", ""), "i1": ("byte", "b"), "u1": ("ubyte", "ub"), "i2": ("short", "s"), "u2": ("ushort", "us"),
    "i4": ("int", ""), "u4": ("uint", "u"), "i8": ("int64", "ll"), "u8": ("uint64", "ull"), "f4": ("float", "f"),
    "f8": ("double", ""), "O": ("string", ""),
}  # fmt: skip


def header(dataset: Dataset) -> str:
    """Return the header of a dataset of one group as CDL."""
    root = dataset.root
    lines = ["netcdf a {", "dimensions:"]
    lines += [f"  {d.name} = {d.size} ;" for d in root.dimensions.values()]
    lines.append("variables:")
    for v in root.variables.values():
        dims = f"({', '.join(d.name for d in v.stored)})" if v.stored else ""
        name = _escaped(v.name)
        lines.append(f"  {_type(v.dtype)[0]} {name}{dims} ;")
        lines += [f"    {name}:{_escaped(a)} = {_value(x)} ;" for a, x in v.attributes.items()]
    lines += [f":{_escaped(a)} = {_value(x)} ;" for a, x in root.attributes.items()]
    return "\n".join([*lines, "}", ""])


def _type(dtype: np.dtype[Any]) -> tuple[str, str]:
    return _TYPES["O" if dtype.kind == "O" else dtype.str.lstrip("<>|=")]


def _escaped(name: str) -> str:
    # A variable may be called as a section of CDL.
    return "\\data" if name == "data" else name.replace(" ", "\\ ")


def _value(value: Any) -> str:
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{text}"'
    if isinstance(value, tuple):
        return ", ".join(_value(x) for x in value)
    end = _type(value.dtype)[1]
    return ", ".join(f"{x!r}{end}" if value.dtype.kind == "f" else f"{x}{end}" for x in value.tolist())


def main(folder: Path) -> None:
    """Write a header for each netCDF file below a folder."""
    for path in sorted(folder.rglob("*.nc")):
        with open_dataset(str(path), options=Options()) as dataset:
            Path(__file__).with_name(f"{path.stem}.cdl").write_text(header(dataset), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

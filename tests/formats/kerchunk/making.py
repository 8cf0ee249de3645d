"""References that kerchunk and VirtualiZarr made, in a folder of their own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

MADE = Path(__file__).parent / "made"

#: Where VirtualiZarr found the files.
THERE = "/data"


def placed(folder: Path) -> Path:
    """Copy files and references to a folder; URLs in these lead there."""
    shutil.copytree(MADE, folder, dirs_exist_ok=True)
    for path in folder.glob("*.json"):
        text = path.read_text().replace(THERE.replace("/", "\\/"), str(folder))
        path.write_text(text.replace(THERE, str(folder)))
    for path in folder.glob("virtualizarr*/*/*.parq"):
        table = parquet.read_table(path)
        names = [name and name.replace(THERE, str(folder)) for name in table["path"].to_pylist()]
        parquet.write_table(table.set_column(table.column_names.index("path"), "path", pa.array(names)), path)
    return folder

"""Make the stores of this folder: ``PYTHON tests/observations/published/make.py`` with the Python of anemoi-datasets.

Needs anemoi-datasets (and so zarr 2); see SOURCES.md.  Nothing of cfagg is used.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent

#: What is asked of the store: start, end, window, frequency.
ASKED = [
    ("2005-08-24", "2005-08-31", "(-3,+3]", "6h"),
    ("2005-08-18", "2005-09-25", "(-1d,0]", "24h"),
    ("2005-09-01T03:00:00", "2005-09-03T03:00:00", "[-3,+3]", "3h"),
]


def main() -> None:
    """Make the stores and the samples."""
    from anemoi.datasets import open_dataset
    from anemoi.datasets.compat import zarr_open
    from anemoi.datasets.date_indexing import create_date_indexing

    os.chdir(HERE)
    create = Path(sys.executable).parent / "anemoi-datasets"
    for name in ("bisect.zarr", "btree.zarr"):
        shutil.rmtree(name, ignore_errors=True)
    subprocess.run([create, "create", "recipe.yaml", "bisect.zarr"], check=True)
    attributes = json.loads(Path("bisect.zarr/.zattrs").read_text())
    for key in [k for k in attributes if k.startswith("provenance")]:
        del attributes[key]
    Path("bisect.zarr/.zattrs").write_text(json.dumps(attributes, indent=4))

    entries = np.array(zarr_open("bisect.zarr", "r")["date_index_ranges"])
    shutil.copytree("bisect.zarr", "btree.zarr")
    shutil.rmtree("btree.zarr/date_index_ranges")
    store = zarr_open("btree.zarr", "a")
    index = create_date_indexing("btree", store)
    index.bulk_load(entries)
    store.attrs["date_indexing"] = "btree"
    del index, store

    found = {}
    for number, (start, end, window, frequency) in enumerate(ASKED):
        ds = open_dataset("bisect.zarr", start=start, end=end, window=window, frequency=frequency)
        samples = [ds[i] for i in range(len(ds) - 1)]  # the last one lies beyond the end
        found[f"dates_{number}"] = np.array(ds.dates[:-1], "M8[s]").astype("i8")
        found[f"counts_{number}"] = np.array([len(s) for s in samples])
        found[f"values_{number}"] = np.concatenate([np.asarray(s) for s in samples])
        for name in ("latitudes", "longitudes", "timedeltas"):
            found[f"{name}_{number}"] = np.concatenate([np.asarray(getattr(s, name)) for s in samples])
    np.savez_compressed("samples.npz", **found)


if __name__ == "__main__":
    main()

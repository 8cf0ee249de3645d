"""A process in which xarray reads a store again and again, while others append to it; every value is compared.

Run as a program: ``python -m tests.writing.zarr.reading STORE [OPTIONS]``, with the options of obstore as JSON for a
store on S3.  It prints a line for each answer, the number of steps that it saw, until its input ends; then it reads a
last time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import cfagg
from tests.writing.zarr.test_appending import series

#: Days of the months of a year, of which each is a file.
MONTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


def opened(place: str, options: str | None) -> xr.Dataset:
    """Open a store as xarray's users do; on S3 by zarr-python's own store over obstore."""
    store: Any = place
    if options is not None:
        from obstore.store import from_url
        from zarr.storage import ObjectStore

        store = ObjectStore(from_url(place, client_options={"allow_http": True}, **json.loads(options)), read_only=True)
    return xr.open_zarr(store, consolidated=True, chunks=None)


def main(place: str, options: str | None = None) -> None:
    """Read until the input ends."""
    warnings.simplefilter("ignore")
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    former = None
    while True:
        last = over.is_set()
        found = opened(place, options)
        size = found.sizes["time"]
        xr.testing.assert_equal(found.load(), series(0, size))
        if former is not None:
            # Opened a while ago, and only read now.
            xr.testing.assert_equal(former.load(), series(0, former.sizes["time"]))
        former = opened(place, options)
        print(size, flush=True)
        if last:
            return


def appended_meanwhile(store: str, folder: Path, options: dict[str, Any] | None = None) -> Iterator[int]:
    """Append a file for each month to a store of January while another process reads it; yield what that has seen."""
    given = [] if options is None else [json.dumps(options)]
    command = [sys.executable, "-m", "tests.writing.zarr.reading", store, *given]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        yield int(reader.stdout.readline())
        at = MONTHS[0]
        for number, days in enumerate(MONTHS[1:], 2):
            path = folder / f"2000-{number:02}.nc"
            series(at, days).to_netcdf(path)
            cfagg.append(store, path, "time")
            at += days
        reader.stdin.close()
        yield from map(int, reader.stdout)
    assert reader.returncode == 0


def check(sizes: list[int]) -> None:
    """See that whole months were seen, none of them after a later one, and the year in the end."""
    assert set(sizes) <= set(np.cumsum(MONTHS).tolist())
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (31, 366)
    assert len(set(sizes)) > 2, "nothing was read while files were appended"


if __name__ == "__main__":
    main(*sys.argv[1:])

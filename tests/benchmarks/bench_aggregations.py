"""Opening aggregation files of each dialect: CPU time, and against cf-python on the CF-1.13 form of the same."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import netCDF4
import numpy as np

from tests import instruction_files as files
from tests.benchmarks.bench_parse import text_of
from tests.benchmarks.peers import PEERS, UDUNITS, peer_python
from tests.benchmarks.table import Row, clock

#: Opens a file some times, and prints the seconds of the processor that each time took.
OURS = "import cfagg\ndef read(path): cfagg.read(path)"
PEER = f"{UDUNITS}\nimport cf\ndef read(path): cf.read(path)"
TIMED = """
import json, sys, time
seen = []
for _ in range(int(sys.argv[2]) + 1):
    start = time.process_time()
    read(sys.argv[1])
    seen.append(time.process_time() - start)
print(json.dumps(seen[1:]))
"""


def rows(small: bool) -> list[Row]:
    """Return what opening a million fragments takes, and 2,000 in each dialect (small: fewer)."""
    with tempfile.TemporaryDirectory() as folder:
        return [_million(Path(folder), 10_000 if small else 1_000_000), *_dialects(Path(folder), small)]


def _names(n: int) -> np.ndarray:
    return np.array([f"archive/tas_{i:07d}.nc" for i in range(n)], object)


def _million(folder: Path, n: int) -> Row:
    import cfagg

    path = folder / "million.nc"
    with netCDF4.Dataset(path, "w") as root:
        files.dimensions(root, time=n, f_time=n, j=1)
        root.createVariable("map", "i4", ("j", "f_time"))[:] = 1
        root.createVariable("uris", str, ("f_time",))[:] = _names(n)
        files.text(root, "identifiers", (), "tas")
        files.aggregated(root, "tas", "f4", ["time"], {k: k for k in ("map", "uris", "identifiers")})
    (ours,) = clock(lambda: cfagg.open_aggregation(path, "tas"), runs=3)
    wanted = 1.5 * n / 1e6
    return Row(f"CF-1.13: open {n} fragments", ours, wanted, "1.5 s a million", wanted / ours, 1.0)


def _dialects(folder: Path, small: bool) -> list[Row]:
    n, runs = (50, 1) if small else (2000, 5)
    python = peer_python("cf", install=not small)
    if python is None:
        return []
    sizes = {"time": 12 * n, "lat": 64, "lon": 128}
    steps = [[12] * n, [64], [128]]
    names = _names(n).reshape(n, 1, 1)
    paths = {
        "CF-1.13": files.cf(folder / "cf.nc", "tas", "f4", sizes, steps, names),
        "CFA-0.6.2": files.cfa(folder / "cfa.nc", "tas", "f4", sizes, steps, names),
    }
    for dialect, prefix, described in (("NCA-0.1", "nca", text_of(n)), ("CFA-0.4", "cfa", _later(n))):
        paths[dialect] = folder / f"{dialect}.nc"
        with netCDF4.Dataset(paths[dialect], "w") as root:
            root.Conventions = f"CF-1.6 {dialect}"
            files.dimensions(root, **sizes)
            tas = root.createVariable("tas", "f4", ())
            tas.setncatts({f"{prefix}_dimensions": "time lat lon", f"{prefix}_array": described})
    peer: list[float] = []
    ours: dict[str, list[float]] = {dialect: [] for dialect in paths}
    # In turn, so that drift of the machine meets all alike.
    for _ in range(1 if small else 3):
        peer += _timed(str(python), PEER, paths["CF-1.13"], runs)
        for dialect, path in paths.items():
            ours[dialect] += _timed(sys.executable, OURS, path, runs)
    other = statistics.median(peer)
    made = []
    for dialect, seen in ours.items():
        own = statistics.median(seen)
        made.append(
            Row(f"{dialect}: open {n} fragments", own, other, f"{PEERS['cf'][0][0]}, CF-1.13", other / own, 5.0)
        )
    return made


def _later(n: int) -> str:
    """Return the ``cfa_array`` of CFA 0.4 of the same partitions, with locations whose ends belong to them."""
    records = ", ".join(
        f'{{"index": [{i}], "location": [[{12 * i}, {12 * i + 11}], [0, 63], [0, 127]], '
        f'"subarray": {{"shape": [12, 64, 128], "file": "archive/tas_{i:07d}.nc", "ncvar": "tas"}}}}'
        for i in range(n)
    )
    return f'{{"pmdimensions": ["time"], "pmshape": [{n}], "Partitions": [{records}]}}'


def _timed(python: str, code: str, path: Path, runs: int) -> list[float]:
    command = [python, "-c", code + TIMED, str(path), str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seen: list[float] = json.loads(done.stdout.splitlines()[-1])
    return seen

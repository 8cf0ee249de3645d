"""Opening aggregation files of each dialect, against cf-python on the CF-1.13 form of the same; and writing them."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

from tests import instruction_files as files
from tests import json_dialects
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


#: Writes an aggregation of so many files in a dialect, and prints the seconds that it took, and the most bytes.
WRITTEN = """
import json, resource, sys, time
import numpy as np
import cfagg, netCDF4
from cfagg.model import Aggregation, Grid, Layout, Partitions
path, to, n = sys.argv[1], sys.argv[2], int(sys.argv[3])

def made(n):
    files = [f"archive/tas_{i:07d}.nc" for i in range(n)]
    layouts = [Layout(("time",))]
    table = Partitions.build(n, file=np.arange(n), address=0, files=files, addresses=["tas"], layouts=layouts)
    grid = Grid([np.arange(n + 1)])
    return Aggregation("tas", ("time",), (n,), np.dtype("f4"), grid, table, "K", source=path + ".source")

cfagg.write(made(2), path, to=to)
many = made(n)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
cfagg.write(many, path, to=to, overwrite=True)
spent = time.process_time() - start
print(json.dumps([spent, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)]))
"""


def rows(small: bool) -> list[Row]:
    """Return what opening and writing a million fragments takes, and opening 2,000 in each dialect (small: fewer)."""
    with tempfile.TemporaryDirectory() as folder:
        n = 10_000 if small else 1_000_000
        return [
            *(_million(Path(folder), n, sorted_=s) for s in (True, False)),
            *_dialects(Path(folder), small),
            *_writing(Path(folder), n),
        ]


def _names(n: int) -> np.ndarray:
    return np.array([f"archive/tas_{i:07d}.nc" for i in range(n)], object)


def _million(folder: Path, n: int, *, sorted_: bool) -> Row:
    import cfagg

    path, names = folder / f"million_{sorted_}.nc", _names(n)
    with netCDF4.Dataset(path, "w") as root:
        files.dimensions(root, time=n, f_time=n, j=1)
        root.createVariable("map", "i4", ("j", "f_time"))[:] = 1
        root.createVariable("uris", str, ("f_time",))[:] = (
            names if sorted_ else np.random.default_rng(0).permutation(names)
        )
        files.text(root, "identifiers", (), "tas")
        files.aggregated(root, "tas", "f4", ["time"], {k: k for k in ("map", "uris", "identifiers")})
    (ours,) = clock(lambda: cfagg.open_aggregation(path, "tas"), runs=3)
    wanted = 1.5 * n / 1e6
    what = f"CF-1.13: open {n} fragments{'' if sorted_ else ', files in any order'}"
    return Row(what, ours, wanted, "1.5 s a million", wanted / ours, 1.0)


def _writing(folder: Path, n: int) -> list[Row]:
    """Return what writing aggregations of many partitions takes, in seconds and bytes."""
    made = []
    for to in ("NCA-0.1", "CFA-0.4", "CFA-0.6.2", "CF-1.13"):
        command = [sys.executable, "-c", WRITTEN, str(folder / f"written {to}.nc"), to, str(n)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, held = json.loads(done.stdout.splitlines()[-1])
        wanted, most = 10.0 * n / 1e6, 1.5 * 2**30 * n / 1e6 + 2**27
        what = f"{to}: write {n} partitions"
        made.append(Row(what, seconds, wanted, "10 s a million", wanted / seconds, 1.0))
        made.append(Row(f"{what}, memory", max(held, 1), most, "1.5 GiB a million", most / max(held, 1), 1.0, "bytes"))
    return made


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
    document = json.loads(text_of(n))
    for dialect in json_dialects.DIALECTS:
        paths[dialect] = _in_json(folder / f"{dialect}.nc", document, dialect, sizes)
    named = "CFA-0.4, ends of locations excluded"
    paths[named] = _in_json(folder / "half_open.nc", document, "CFA-0.4", sizes, half_open=True)
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


def _in_json(
    path: Path, document: dict[str, Any], dialect: str, sizes: dict[str, int], half_open: bool = False
) -> Path:
    """Write an aggregation in a dialect; `half_open`: with locations as in the examples of CFA 0.4."""
    attributes, array, content = json_dialects.attributes(document, sizes, dialect)
    if half_open:
        for record, own in zip(content["Partitions"], document["Partitions"], strict=True):
            record["location"] = own["location"]
    with netCDF4.Dataset(path, "w") as root:
        root.Conventions = f"CF-1.6 {dialect}"
        files.dimensions(root, **sizes)
        root.createVariable("tas", "f4", ()).setncatts(attributes | {array: json.dumps(content)})
    return path


def _timed(python: str, code: str, path: Path, runs: int) -> list[float]:
    command = [python, "-c", code + TIMED, str(path), str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seen: list[float] = json.loads(done.stdout.splitlines()[-1])
    return seen

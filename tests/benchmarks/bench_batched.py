"""Reading many small chunks of a Zarr array, against zarrista (Rust), tensorstore (C++) and zarr-python.

Ours is measured twice: by Python alone, and by the compiled code that is used where it is loaded (or pays to be).  Each
peer reads in a process of its own, in turn with ours, as often; what counts is the processor time of its whole
process, with all threads, and the time on the clock.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zarr
import zarr.codecs as zc

from cfagg.arrays.chunked import ZarrReader
from cfagg.formats.zarr import batches, open_array
from cfagg.kernels import files  # noqa: F401 - it is used where it is loaded
from tests.benchmarks.peers import peer_python
from tests.benchmarks.table import Row

#: Our time may be 1.25 times zarrista's on the processor, and compiled no longer than zarrista's on the clock.
CPU_BAR, CLOCK_BAR = 0.8, 1.0

#: How we read.
OURS = ("by Python", "compiled")

CODECS = {"raw": None, "zstd": zc.ZstdCodec(level=1)}

#: Reads the whole array once for each line, and answers with both times; the first answer says that it is there.
PEER = """
import json, sys, time
import numpy as np
peer, store, name = sys.argv[1:]
if peer == "zarrista":
    import zarrista, zarrista.store
    array = zarrista.Array.open(zarrista.store.FilesystemStore(store), "/" + name)
    read = lambda: np.asarray(array[tuple(slice(0, n) for n in array.shape)])
elif peer == "tensorstore":
    import tensorstore
    array = tensorstore.open({"driver": "zarr3", "kvstore": f"file://{store}/{name}/"}).result()
    read = lambda: array.read().result()
else:
    import zarr
    array = zarr.open_array(store, path=name, mode="r")
    read = lambda: array[...]
print(json.dumps(float(read().astype("f8").sum())), flush=True)
for _ in sys.stdin:
    cpu, clock = time.process_time(), time.perf_counter()
    read()
    print(json.dumps([time.process_time() - cpu, time.perf_counter() - clock]), flush=True)
"""


class _Peer:
    """A process that reads the array whenever it is asked to."""

    def __init__(self, python: Path, peer: str, store: str, name: str) -> None:
        command = [str(python), "-c", PEER, peer, store, name]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.total = self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def read(self) -> tuple[float, float]:
        """Return seconds on the processor and on the clock."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        cpu, clock = self._answer()
        return cpu, clock

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def rows(small: bool) -> list[Row]:
    """Return what a chunk of 1 KiB costs, along one dimension and as squares of two."""
    count = 36 if small else 20_000
    python = peer_python("zarrs", install=not small)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        values = (280 + np.cumsum(rng.normal(0, 0.01, count * 256))).astype("f4")
        for name, codec in CODECS.items():
            zarr.create_array(folder, name=name, data=values, chunks=(256,), compressors=codec)
            found += _compared(folder, name, count, python, small)
        side = int(count**0.5)
        square = values[: side * side * 256].reshape(side * 16, side * 16)
        zarr.create_array(folder, name="squares", data=square, chunks=(16, 16), compressors=CODECS["zstd"])
        found += _compared(folder, "squares", side * side, python, small)
    return found


def _compared(folder: str, name: str, count: int, python: Path | None, small: bool) -> list[Row]:
    reader = ZarrReader(open_array(folder, name))
    everything = [slice(None)] * len(reader.shape)
    total = float(reader.read(everything).astype("f8").sum())
    kinds = {"zarr-python": Path(sys.executable)} | (
        {} if python is None else dict.fromkeys(("zarrista", "tensorstore"), python)
    )
    peers = {kind: _Peer(where, kind, folder, name) for kind, where in kinds.items()}
    times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in (*OURS, *peers)}
    try:
        for kind, peer in peers.items():
            if abs(peer.total - total) > 1e-6 * abs(total):
                raise ValueError(f"{kind} reads other values")
        for run in range(1 if small else 7):
            for kind in OURS:
                with _switched(compiled=kind == OURS[1]):
                    cpu, clock = time.process_time(), time.perf_counter()
                    reader.read(everything)
                    times[kind].append((time.process_time() - cpu, time.perf_counter() - clock))
            for kind, peer in peers.items():
                if kind != "zarr-python" or run < 2:  # it takes seconds
                    times[kind].append(peer.read())
    finally:
        for peer in peers.values():
            peer.close()
    found = []
    for own in OURS:
        for k, what in enumerate(("processor", "clock")):
            mine = statistics.median(t[k] for t in times[own]) / count * 1e6
            for kind in peers:
                other = statistics.median(t[k] for t in times[kind]) / count * 1e6
                bar = (CPU_BAR, CLOCK_BAR if own == OURS[1] else None)[k] if kind == "zarrista" else None
                job = f"1 KiB, one of {count:,}, {name}, {own}, {what}"
                found.append(Row(job, mine, other, kind, other / mine, bar, "us"))
    return found


@contextlib.contextmanager
def _switched(*, compiled: bool) -> Iterator[None]:
    """Let compiled code be used, or not."""
    before = batches._LOADED
    batches._LOADED = before if compiled else sys.maxsize
    try:
        yield
    finally:
        batches._LOADED = before

"""Reading many small chunks of a Zarr array, against zarrista (Rust), tensorstore (C++) and zarr-python.

Chunks that are files of their own are read by us twice: by Python alone, and by the compiled code that is used where it
is loaded (or pays to be); those within shards, and those on a web server (nginx on the loopback), by Python.  Each
peer reads in a process of its own, in turn with ours, as often; what counts is the processor time of its whole
process, with all threads, and the time on the clock.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
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
from cfagg.storage.urls import a_place
from tests.benchmarks.peers import peer_python
from tests.benchmarks.table import Row

#: Our time may be 1.25 times zarrista's on the processor, and compiled no longer than zarrista's on the clock.
CPU_BAR, CLOCK_BAR = 0.8, 1.0

#: How we read.
OURS = ("by Python", "compiled")

#: Chunks in a shard, and how many chunks are read from a web server.
IN_A_SHARD, ELSEWHERE = 1000, 2000

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
    place = store if "://" in store else f"file://{store}"
    array = tensorstore.open({"driver": "zarr3", "kvstore": f"{place}/{name}/"}).result()
    read = lambda: array.read().result()
else:
    import zarr
    if "://" in store:
        from obstore.store import HTTPStore
        from zarr.storage import ObjectStore
        store = ObjectStore(HTTPStore.from_url(store, client_options={"allow_http": True}), read_only=True)
    array = zarr.open_array(store, path=name, mode="r")
    read = lambda: array[...]
print(json.dumps(float(read().astype("f8").sum())), flush=True)
for _ in sys.stdin:
    cpu, clock = time.process_time(), time.perf_counter()
    read()
    print(json.dumps([time.process_time() - cpu, time.perf_counter() - clock]), flush=True)
"""


NGINX = """
daemon off; master_process off; pid {own}/pid; error_log {own}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off; keepalive_requests 1000000; open_file_cache max=5000;
  client_body_temp_path {own}/1; proxy_temp_path {own}/2; fastcgi_temp_path {own}/3;
  uwsgi_temp_path {own}/4; scgi_temp_path {own}/5;
  server {{ listen 127.0.0.1:{port}; root {folder}; }}
}}
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
        for name, codec in CODECS.items():
            in_one = min(IN_A_SHARD, count // 2)
            zarr.create_array(
                folder, name=f"{name} in shards", data=values, chunks=(256,), shards=(256 * in_one,), compressors=codec
            )
            found += _compared(folder, f"{name} in shards", count, python, small, OURS[:1])
        few = min(count, ELSEWHERE)
        zarr.create_array(folder, name="elsewhere", data=values[: few * 256], chunks=(256,))
        zarr.create_array(
            folder, name="shards elsewhere", data=values[: few * 256], chunks=(256,), shards=(256 * (few // 4),)
        )
        with _served(folder) as url:
            for name in ("elsewhere", "shards elsewhere") if url else ():
                found += _compared(url, name, few, python, small, OURS[:1])
    return found


@contextlib.contextmanager
def _served(folder: str) -> Iterator[str]:
    """Serve a folder by nginx, and yield its URL, an empty one where nginx is not installed."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        yield ""
        return
    with socket.socket() as free, tempfile.TemporaryDirectory() as own:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        Path(own, "nginx.conf").write_text(NGINX.format(own=own, port=port, folder=folder))
        free.close()
        server = subprocess.Popen([program, "-c", f"{own}/nginx.conf", "-e", f"{own}/error.log"])
        try:
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(60)


def _compared(
    folder: str, name: str, count: int, python: Path | None, small: bool, ours: tuple[str, ...] = OURS
) -> list[Row]:
    reader = ZarrReader(open_array(a_place(folder), name))
    everything = [slice(None)] * len(reader.shape)
    total = float(reader.read(everything).astype("f8").sum())
    others = ("tensorstore",) if "://" in folder else ("zarrista", "tensorstore")
    kinds = {"zarr-python": Path(sys.executable)} | ({} if python is None else dict.fromkeys(others, python))
    peers = {kind: _Peer(where, kind, folder, name) for kind, where in kinds.items()}
    times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in (*ours, *peers)}
    try:
        for kind, peer in peers.items():
            if abs(peer.total - total) > 1e-6 * abs(total):
                raise ValueError(f"{kind} reads other values")
        for run in range(1 if small else 7):
            for kind in ours:
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
    for own in ours:
        for k, what in enumerate(("processor", "clock")):
            mine = statistics.median(t[k] for t in times[own]) / count * 1e6
            for kind in peers:
                other = statistics.median(t[k] for t in times[kind]) / count * 1e6
                # The bar is of chunks that are files.
                bar = (
                    (CPU_BAR, CLOCK_BAR if own == OURS[1] else None)[k] if kind == "zarrista" and ours is OURS else None
                )
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

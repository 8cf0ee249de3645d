"""How many requests jobs make of a web server for each file and chunk, counted by one on the loopback."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import zarr

import cfagg
from tests.benchmarks.scale_cases import netcdf_files, small_store

__all__ = ["requests"]


class _Handler(BaseHTTPRequestHandler):
    """Gives ranges of the files below a folder, and counts."""

    protocol_version = "HTTP/1.1"
    folder: Path
    count = 0

    def _send(self, *, body: bool) -> None:
        type(self).count += 1
        path = self.folder / self.path.lstrip("/")
        if not path.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        whole = path.read_bytes()
        start, stop, status = 0, len(whole), 200
        if asked := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "")):
            first, last = asked.groups()
            start = int(first) if first else max(len(whole) - int(last), 0)
            stop = min(int(last) + 1, len(whole)) if first and last else len(whole)
            status = 206
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(whole)}")
        self.send_header("Accept-Ranges", "bytes")
        # An hour old, as files of an archive are: of what was just written, nothing is remembered.
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime - 3600))
        self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        if body:
            self.wfile.write(whole[start:stop])

    def do_GET(self) -> None:
        self._send(body=True)

    def do_HEAD(self) -> None:
        self._send(body=False)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, type[_Handler]]]:
    """Serve a folder; yield its address and what counts."""
    handler = type("Handler", (_Handler,), {"folder": folder, "count": 0})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", handler
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def requests(here: Path, n: int = 50) -> dict[str, float]:
    """Return requests for a file that is aggregated, one whose chunks are indexed, and a chunk that is read."""
    files = netcdf_files(here / "served", n)
    small_store(here / "served/a.zarr", n, "zstd")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(here / "served/a.zarr")
    found = {}
    with served(here / "served") as (address, handler):

        def counted(name: str, function: Callable[[], Any]) -> Any:
            handler.count = 0
            made = function()
            found[name] = handler.count / n
            return made

        urls = [f"{address}/{f.name}" for f in files]
        out = here / "out.nca"
        counted("aggregate a file", lambda: cfagg.aggregate(urls, output=out))
        made = counted("index a file", lambda: cfagg.index(out, output=here / "out.index", allow=[address]))
        if made.left_out:
            raise RuntimeError(f"the index lacks files: {made.left_out[0]}")
        data = cfagg.read(f"{address}/a.zarr")["v"]
        counted("read a chunk", data.load)
    return {name: round(each, 2) for name, each in found.items()}

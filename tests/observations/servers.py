"""A web server on this machine that serves a directory, ranges of bytes too, and misbehaves where it is told to."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

#: Ports that servers have had: what is remembered of a URL (that it has no index) must not hold for another server's.
_ports: set[int] = set()


def on_new_port(handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """Return a server on a port of this machine that no server of this process has had."""
    while (server := ThreadingHTTPServer(("127.0.0.1", 0), handler)).server_port in _ports:
        server.server_close()
    _ports.add(server.server_port)
    return server


@dataclass
class Page:
    """What real servers send with an error or a redirect: a page for people, of any length, and headers."""

    status: int
    body: bytes = b"<html>" + b" " * 300_000 + b"</html>"
    headers: dict[str, str] = field(default_factory=dict)
    chunked: bool = False

    def send(self, request: BaseHTTPRequestHandler) -> None:
        request.send_response(self.status)
        for name, value in self.headers.items():
            request.send_header(name, value)
        if self.chunked:
            request.send_header("Transfer-Encoding", "chunked")
        else:
            request.send_header("Content-Length", str(len(self.body)))
        request.end_headers()
        if request.command != "HEAD":
            with contextlib.suppress(OSError):
                request.wfile.write(
                    b"%x\r\n%s\r\n0\r\n\r\n" % (len(self.body), self.body) if self.chunked else self.body
                )


class Server:
    """A directory on a port of this machine, to which nothing can be written.

    `rules` maps a pattern of paths to what happens instead of an answer: a status, a URL to redirect to, or
    ``"cut"`` (half of the body), ``"whole"`` (ranges are not served), ``"other range"``, ``"gzip"``, ``"drip"`` (a byte
    of the body now and then), ``"drip headers"``, ``"hang up"`` (nothing at all), or a `Page`; each as often as it is
    in the list.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rules: dict[str, list] = {}
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        #: Whether answers say when the file was written, as real servers do.
        self.dated = False
        #: The ETag of every answer; None: none.
        self.tag: str | None = None
        #: Ports that requests came from: one for each connection.
        self.ports: list[int] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def end_headers(self) -> None:
                if outer.tag is not None:
                    self.send_header("ETag", outer.tag)
                super().end_headers()

            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *args) -> None: ...

            def do_GET(self) -> None:
                outer.answer(self)

            do_HEAD = do_GET

            def do_PUT(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
                self.send_response(403)
                self.send_header("Content-Length", "0")
                self.end_headers()

        self._http = on_new_port(Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path.partition("?")[0]
        self.ports.append(request.client_address[1])
        self.seen.append((request.command, request.path, {k.lower(): v for k, v in request.headers.items()}))
        rule = next((r.pop(0) for p, r in self.rules.items() if r and re.search(p, path)), None)
        if isinstance(rule, int):
            self._send(request, rule, b"" if rule == 404 else b"no")
            return
        if isinstance(rule, Page):
            rule.send(request)
            return
        if rule == "hang up":
            request.close_connection = True
            return
        if rule in ("drip", "drip headers"):
            self._drip(request, rule == "drip headers")
            return
        if isinstance(rule, str) and "://" in rule:
            request.send_response(302)
            request.send_header("Location", rule)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        file = self.folder / path.strip("/")
        if not file.is_file():
            self._send(request, 404, b"")
            return
        body = file.read_bytes()
        when = request.date_time_string(file.stat().st_mtime) if self.dated else None
        wanted = re.fullmatch(r"bytes=(\d*)-(\d+)", request.headers.get("Range", ""))
        if wanted is None or rule == "whole":
            self._send(request, 200, body, cut=rule == "cut", coded=rule == "gzip", when=when)
            return
        last = max(0, len(body) - int(wanted[2]))
        start, stop = (int(wanted[1]), int(wanted[2]) + 1) if wanted[1] else (last, len(body))
        if start >= len(body):
            self._send(request, 416, b"", f"bytes */{len(body)}")
            return
        told = start + 1 if rule == "other range" else start
        part = f"bytes {told}-{min(stop, len(body)) - 1}/{len(body)}"
        self._send(request, 206, body[start:stop], part, cut=rule == "cut", coded=rule == "gzip", when=when)

    @staticmethod
    def _drip(request, headers: bool) -> None:
        with contextlib.suppress(OSError):
            if headers:
                request.wfile.write(b"HTTP/1.1 200 OK\r\n")
            else:
                first, last = request.headers["Range"].removeprefix("bytes=").split("-")
                request.send_response(206)
                request.send_header("Content-Length", str(int(last) - int(first) + 1))
                request.send_header("Content-Range", f"bytes {first}-{last}/{10**9}")
                request.end_headers()
            for i in range(2000):
                request.wfile.write(b"X-%d: y\r\n" % i if headers else b"x")
                time.sleep(0.05)
        request.close_connection = True

    @staticmethod
    def _send(request, status, body, part=None, *, cut=False, coded=False, when=None) -> None:
        request.send_response(status)
        if when:
            request.send_header("Last-Modified", when)
        request.send_header("Content-Length", str(len(body)))
        if part:
            request.send_header("Content-Range", part)
        if coded:
            request.send_header("Content-Encoding", "gzip")
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            request.close_connection = True

    def start(self) -> None:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Server]:
    """Serve a directory while in the block."""
    server = Server(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()

"""A server that answers as Google's documentation of the XML API of Cloud Storage says, for what obstore asks.

It verifies the token of each request, numbers each state of an object (its generation), and honours conditions on it.
Generations are in answers about one object, and not in those of listings that clients read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.observations.servers import on_new_port

Reply = tuple[int, dict[str, str], bytes]

#: Keys on one page of a listing.
PAGE = 50


@dataclass(frozen=True)
class Object:
    """One state of an object."""

    body: bytes
    generation: int
    written: float

    @property
    def tag(self) -> str:
        return f'"{hashlib.md5(self.body, usedforsecurity=False).hexdigest()}"'


class Google:
    """A server on this machine with one bucket in memory."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.objects: dict[str, Object] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self._lock, self._generation = threading.Lock(), 1_700_000_000_000_000
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *args) -> None: ...

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {k.lower(): v for k, v in self.headers.items()}
                with outer._lock:
                    outer.seen.append((self.command, self.path, headers))
                    status, found, text = outer.reply(self.command, self.path, headers, body)
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(text))} | found).items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(text)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

        self.http = on_new_port(Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    @property
    def options(self) -> dict[str, str]:
        """What is given as storage_options, but for the token."""
        account = {"gcs_base_url": self.url, "disable_oauth": True, "client_email": "", "private_key": ""}
        return {"service_account_key": json.dumps({**account, "private_key_id": ""})}

    @contextlib.contextmanager
    def serving(self) -> Iterator[Google]:
        """Answer until the block ends."""
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield self
        finally:
            self.http.shutdown()
            self.http.server_close()

    def put(self, key: str, body: bytes) -> Object:
        """Write a new state of an object."""
        self._generation += 1
        self.objects[key] = Object(body, self._generation, time.time())
        return self.objects[key]

    def reply(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        _, _, key = unquote(parts.path).lstrip("/").partition("/")
        if headers.get("authorization") != f"Bearer {self.token}":
            return 401, {}, b"<Error><Code>AuthenticationRequired</Code></Error>"
        if not key:
            return 200, {"Content-Type": "application/xml"}, self._listing(query)
        if "uploads" in query or "uploadId" in query:
            return self._multipart(method, key, query, body)
        there = self.objects.get(key)
        if method == "PUT":
            wanted = headers.get("x-goog-if-generation-match")
            if wanted is not None and int(wanted) != (there.generation if there else 0):
                return 412, {}, b"<Error><Code>PreconditionFailed</Code></Error>"
            source = headers.get("x-goog-copy-source")
            if source is not None:
                body = self.objects[unquote(source).lstrip("/").partition("/")[2]].body
            made = self.put(key, body)
            return 200, self._about(made), b""
        if there is None:
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        if method == "DELETE":
            del self.objects[key]
            return 204, {}, b""
        about, size = self._about(there), len(there.body)
        if method == "HEAD":
            return 200, about | {"Content-Length": str(size)}, b""
        wanted_range = re.fullmatch(r"bytes=(\d*)-(\d*)", headers.get("range", ""))
        if wanted_range is None:
            return 200, about, there.body
        first, last = wanted_range.groups()
        start = int(first) if first else max(size - int(last), 0)
        stop = min(int(last) + 1, size) if first and last else size
        if start >= size:
            return 416, {"Content-Range": f"bytes */{size}"}, b""
        return 206, about | {"Content-Range": f"bytes {start}-{stop - 1}/{size}"}, there.body[start:stop]

    def _about(self, found: Object) -> dict[str, str]:
        return {
            "ETag": found.tag,
            "x-goog-generation": str(found.generation),
            "Last-Modified": formatdate(found.written, usegmt=True),
        }

    def _listing(self, query: dict[str, str]) -> bytes:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        after = query.get("continuation-token", "")
        items: list[str] = []
        folders: dict[str, None] = {}
        token = last = ""
        for key in sorted(self.objects):
            if not key.startswith(prefix) or key <= after:
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders[f"{prefix}{rest.partition(delimiter)[0]}{delimiter}"] = None
                continue
            if len(items) == PAGE:
                token = last
                break
            last, found = key, self.objects[key]
            when = datetime.fromtimestamp(found.written, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            items.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>{when}</LastModified><ETag>{escape(found.tag)}</ETag>"
                f"<Size>{len(found.body)}</Size></Contents>"
            )
        more = f"<NextContinuationToken>{escape(token)}</NextContinuationToken>" if token else ""
        common = "".join(f"<CommonPrefixes><Prefix>{escape(p)}</Prefix></CommonPrefixes>" for p in folders)
        head = '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>'
        return f"{head}{''.join(items)}{common}{more}</ListBucketResult>".encode()

    def _multipart(
        self, method: str, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        if "uploads" in query:
            number = uuid.uuid4().hex
            self.uploads[number] = {}
            made = f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId></InitiateMultipartUploadResult>"
            return 200, {}, made.encode()
        parts: Any = self.uploads[query["uploadId"]]
        if method == "PUT":
            parts[int(query["partNumber"])] = body
            return 200, {"ETag": f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'}, b""
        if method == "DELETE":
            return 204, {}, b""
        made = self.put(key, b"".join(part for _, part in sorted(parts.items())))
        text = f"<CompleteMultipartUploadResult><ETag>{escape(made.tag)}</ETag></CompleteMultipartUploadResult>"
        return 200, self._about(made), text.encode()

"""Writing to an object store that speaks S3: each request goes to the server that was named, and to no other.

Sources: "PutObject", "CopyObject", "DeleteObjects", "CreateMultipartUpload" and "CompleteMultipartUpload" in the API
reference of Amazon S3.
"""

from __future__ import annotations

import base64
import hashlib
import mmap
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

from cfagg.errors import FragmentReadError, LimitError, TargetError, TargetExistsError
from cfagg.storage.remote import S3Source
from cfagg.storage.signing import canonical_query
from cfagg.storage.store import MAX_OBJECT, check_key
from cfagg.storage.transport import Reply

__all__ = ["S3Target"]

#: Parts of which a server takes a large object, the least of their sizes, and those that are sent at the same time.
_PARTS, _PART, _AT_ONCE = 10_000, 5 << 20, 12

#: Objects that are removed by one request, and bytes of an answer that is no object.
_REMOVED, _ANSWER = 1000, 1 << 24


class S3Target(S3Source):
    """A store at ``s3://bucket/path`` that is read and written."""

    def put(self, key: str, data: Any, *, create: bool = False, match: str | None = None) -> str:
        """Write an object and return its tag; see `ObjectStore.put`."""
        body = _bytes_of(data)
        if not create and match is None and body.nbytes > _PART:
            return self._in_parts(key, body)
        tag = match if match is None or match.startswith(('"', "W/")) else f'"{match}"'
        condition = {"if-none-match": "*"} if create else {} if tag is None else {"if-match": tag}
        reply = self._asked(key, "PUT", body=body, headers=condition)
        gone = reply.status == 404 and match is not None and b"NoSuchBucket" not in reply.body
        if condition and (gone or reply.status in (304, 409, 412)):
            # An attempt whose answer was lost may have written it.
            made = self._tag_of(key, body) if reply.again else None
            if made is None:
                raise TargetExistsError(f"{self.path}/{key} exists: somebody else writes there")
            return made
        return self._tagged_by(key, reply).strip('"')

    def _tag_of(self, key: str, body: memoryview) -> str | None:
        """Return the tag of an object that holds these bytes, `None` of any other."""
        state = None if body.nbytes > MAX_OBJECT else self._state(key)
        if state is None or state.size != body.nbytes:
            return None
        whole = self.read(key) or b""
        return state.tag if memoryview(whole) == body and self._state(key) == state else None

    def _in_parts(self, key: str, body: memoryview) -> str:
        """Write a large object by several requests at once; without the last one there is none."""
        begun = self._done(key, self._asked(key, "POST", {"uploads": ""}), "Initiate").body.decode("utf-8", "replace")
        named = re.search(r"<UploadId>([^<>&]{1,2000})</UploadId>", begun)
        if named is None:
            raise TargetError(f"{self.path}/{key} cannot be written: the server gives no name for its parts")
        upload, step = {"uploadId": named[1]}, max(_PART, -(-body.nbytes // _PARTS))

        def send(number: int) -> str:
            part = body[(number - 1) * step : number * step]
            reply = self._asked(key, "PUT", {"partNumber": str(number), **upload}, part)
            tag = escape(self._tagged_by(key, reply))
            return f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"

        try:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                parts = "".join(pool.map(send, range(1, -(-body.nbytes // step) + 1)))
            whole = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
            reply = self._done(
                key, self._asked(key, "POST", upload, memoryview(whole)), "CompleteMultipartUploadResult"
            )
        except BaseException:
            with suppress(TargetError):
                self._asked(key, "DELETE", upload)
            raise
        tag = re.search(r"<ETag>(?:&quot;|&#34;|\")?([^<>&\"]{1,200})", reply.body.decode("utf-8", "replace"))
        return "" if tag is None else tag[1]

    def copy(self, old: str, new: str) -> None:
        """Let the server copy an object within the store."""
        given = quote(f"{self.path.removeprefix('s3:/')}/{check_key(self.path, old)}", safe="/-_.~")
        reply = self._asked(new, "PUT", headers={"x-amz-copy-source": given})
        # The answer may begin well while the server copies, and be an error all the same.
        self._done(new, reply, "CopyObjectResult", f" to a copy of {old}")

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are not there are no error."""
        if len(keys) == 1:
            reply = self._asked(keys[0], "DELETE")
            if reply.status not in (204, 404) and (reply.status != 200 or reply.body):
                raise self._unwritten(keys[0], reply)
            return
        for begin in range(0, len(keys), _REMOVED):
            some = keys[begin : begin + _REMOVED]
            above = f"{self._prefix}/".lstrip("/")
            names = "".join(f"<Object><Key>{escape(above + check_key(self.path, key))}</Key></Object>" for key in some)
            body = f"<Delete><Quiet>true</Quiet>{names}</Delete>".encode()
            digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
            reply = self._asked("", "POST", {"delete": ""}, memoryview(body), {"content-md5": digest})
            self._done(some[0], reply, "DeleteResult")

    def _asked(
        self,
        key: str,
        method: str,
        query: Mapping[str, str] | None = None,
        body: memoryview = memoryview(b""),  # noqa: B008 - it cannot be changed
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Return the answer to a request about an object, or about the bucket where there is no key."""
        sent = {"content-length": str(body.nbytes), "x-amz-content-sha256": hashlib.sha256(body).hexdigest()}
        asked, url = (self._transport, self._url(key)) if key else (self._listing, f"{self._root}/")
        try:
            return asked.ask(
                method, url, canonical_query(query or {}), {**sent, **(headers or {})}, limit=_ANSWER, body=body
            )
        except (FragmentReadError, LimitError) as error:
            raise TargetError(f"{self.path}/{key} cannot be written: {error.message}") from error

    def _tagged_by(self, key: str, reply: Reply) -> str:
        """Return the tag of what was written, which no page for people has."""
        if reply.status != 200 or not reply.headers.get("etag"):
            raise self._unwritten(key, reply, " without an ETag" if reply.status == 200 else "")
        return reply.headers["etag"]

    def _done(self, key: str, reply: Reply, element: str, what: str = "") -> Reply:
        """Return an answer that says that it was done, by the element that it is in."""
        if reply.status != 200 or f"<{element}".encode() not in reply.body[:1000] or b"<Error>" in reply.body:
            raise self._unwritten(key, reply, what)
        return reply

    def _unwritten(self, key: str, reply: Reply, what: str = "") -> TargetError:
        told = reply.body.decode("utf-8", "replace")
        code = re.search(r"<Code>([A-Za-z]{1,60})</Code>", told)
        said = told[:200].strip() if code is None else code[1]
        return TargetError(f"{self.path}/{key} cannot be written: the server answers {reply.status}{what}: {said}")


def _bytes_of(data: Any) -> memoryview:
    """Return what is written, a file as its map in memory."""
    if not isinstance(data, Path):
        found = memoryview(data)
        return found.cast("B") if found.nbytes else memoryview(b"")
    with data.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if data.stat().st_size else b"")

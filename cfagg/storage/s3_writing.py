"""Writing to an object store that speaks S3: every request is sent only to the server that was named.

Sources: "PutObject", "CopyObject", "DeleteObjects", "CreateMultipartUpload" and "CompleteMultipartUpload" in the API
reference of Amazon S3.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

from cfagg.errors import CfaggError, FragmentReadError, LimitError, TargetError, TargetExistsError
from cfagg.storage.bodies import Body, bytes_of, pieces, sha256
from cfagg.storage.remote import S3Source
from cfagg.storage.s3_settings import encryption
from cfagg.storage.signing import canonical_query
from cfagg.storage.store import check_key
from cfagg.storage.transport import Reply

__all__ = ["S3Target"]

#: Maximum number and minimum size of the parts of a large object, and the number of parts sent at the same time.
_PARTS, _PART, _AT_ONCE = 10_000, 5 << 20, 12

#: Number of objects removed by one request, and maximum size of a response that is not an object.
_REMOVED, _ANSWER = 1000, 1 << 24

_ENCRYPTION = "x-amz-server-side-encryption"

#: An error in a response whose status was a success.
_FAILED = re.compile(rb"<(?:\w{1,20}:)?Error[\s>/]")


class S3Target(S3Source):
    """A readable and writable store at ``s3://bucket/path``."""

    def put(self, key: str, data: Any, *, create: bool = False, match: str | None = None) -> str:
        """Write an object and return its tag; see `ObjectStore.put`."""
        with bytes_of(data) as body:
            return self._put(key, body, create, match)

    def _put(self, key: str, body: Body, create: bool, match: str | None) -> str:
        if not create and match is None and body.nbytes > _PART:
            return self._in_parts(key, body)
        hidden = encryption(self.path)
        tag = match if match is None or match.startswith(('"', "W/")) else f'"{match}"'
        condition = {"if-none-match": "*"} if create else {} if tag is None else {"if-match": tag}
        reply = self._asked(key, "PUT", body=body, headers={**condition, **hidden})
        gone = reply.status == 404 and match is not None and b"NoSuchBucket" not in reply.body
        if condition and (gone or reply.status in (304, 409, 412)):
            # An earlier attempt whose response was lost may have written it.
            made = self._tag_of(key, body, hidden) if reply.again else None
            if made is None:
                raise TargetExistsError(f"{self.path}/{key} exists: another process is writing there")
            return made
        return self._tagged_by(key, self._hidden(key, reply, hidden)).strip('"')

    def _tag_of(self, key: str, body: Body, hidden: Mapping[str, str]) -> str | None:
        """Return the tag of an object if it has these bytes, encrypted as requested; or else `None`."""
        state = self._state(key)
        if state is None or state.size != body.nbytes:
            return None
        for begin, piece in pieces(body):
            found = self.part(key, begin, piece.nbytes)
            if found is None or (found.tag or "").strip('"') != state.tag or piece != found.body:
                return None
        if hidden:
            self._hidden(key, self._asked(key, "HEAD"), hidden)
        return state.tag

    def _in_parts(self, key: str, body: Body) -> str:
        """Write a large object by several parallel requests; the object does not exist before the last one."""
        hidden = encryption(self.path)
        begun = self._done(key, self._asked(key, "POST", {"uploads": ""}, headers=hidden), "Initiate")
        named = re.search(r"<UploadId>([^<>&]{1,2000})</UploadId>", begun.body.decode("utf-8", "replace"))
        if named is None:
            raise TargetError(f"{self.path}/{key} cannot be written: the server gives no id for the multipart upload")
        upload, step = {"uploadId": named[1]}, max(_PART, -(-body.nbytes // _PARTS))

        def send(number: int) -> str:
            part = body[(number - 1) * step : number * step]
            reply = self._asked(key, "PUT", {"partNumber": str(number), **upload}, part)
            tag = escape(self._tagged_by(key, reply))
            return f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"

        lost = False
        try:
            self._hidden(key, begun, hidden)
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                parts = "".join(pool.map(send, range(1, -(-body.nbytes // step) + 1)))
            whole = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
            lost = True
            reply = self._asked(key, "POST", upload, memoryview(whole))
            lost = reply.again or reply.status == 200
            self._done(key, reply, "CompleteMultipartUploadResult")
        except BaseException as error:
            with suppress(TargetError):
                self._asked(key, "DELETE", upload)
            # If it was completed but the response was lost, there are no parts any more.
            with suppress(CfaggError):
                made = self._tag_of(key, body, hidden) if lost and isinstance(error, TargetError) else None
                if made is not None:
                    return made
            raise
        tag = re.search(r"<ETag>(?:&quot;|&#34;|\")?([^<>&\"]{1,200})", reply.body.decode("utf-8", "replace"))
        return "" if tag is None else tag[1]

    def copy(self, old: str, new: str) -> None:
        """Copy an object within the store, on the server."""
        given = quote(f"{self.path.removeprefix('s3:/')}/{check_key(self.path, old)}", safe="/-_.~")
        hidden = encryption(self.path)
        reply = self._asked(new, "PUT", headers={"x-amz-copy-source": given, **hidden})
        # The status may be a success, sent while the server copies, and the body an error all the same.
        self._hidden(new, self._done(new, reply, "CopyObjectResult", f" to a copy of {old}"), hidden)

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; missing ones are ignored."""
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
        body: Body = memoryview(b""),  # noqa: B008 - it cannot be changed
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Return the response to a request about an object, or about the bucket if there is no key."""
        sent = {"content-length": str(body.nbytes), "x-amz-content-sha256": sha256(body)}
        asked, url = (self._transport, self._url(key)) if key else (self._listing, f"{self._root}/")
        try:
            return asked.ask(
                method, url, canonical_query(query or {}), {**sent, **(headers or {})}, limit=_ANSWER, body=body
            )
        except (FragmentReadError, LimitError) as error:
            raise TargetError(f"{self.path}/{key} cannot be written: {error.message}") from error

    def _tagged_by(self, key: str, reply: Reply) -> str:
        """Return the tag of a written object, which no web page has."""
        if reply.status != 200 or not reply.headers.get("etag"):
            raise self._unwritten(key, reply, " without an ETag" if reply.status == 200 else "")
        return reply.headers["etag"]

    def _done(self, key: str, reply: Reply, element: str, what: str = "") -> Reply:
        """Return a response if its element confirms success."""
        if reply.status != 200 or f"<{element}".encode() not in reply.body[:1000] or _FAILED.search(reply.body):
            raise self._unwritten(key, reply, what)
        return reply

    def _hidden(self, key: str, reply: Reply, hidden: Mapping[str, str]) -> Reply:
        """Return a response if it confirms that an object is encrypted as requested."""
        asked = hidden.get(_ENCRYPTION)
        if reply.status == 200 and asked is not None and reply.headers.get(_ENCRYPTION) != asked:
            raise TargetError(
                f"{self.path}/{key} is not encrypted by the server with {asked}, as AWS_SERVER_SIDE_ENCRYPTION asks; "
                "unset it or write to a server that encrypts, and remove the object"
            )
        return reply

    def _unwritten(self, key: str, reply: Reply, what: str = "") -> TargetError:
        body = reply.body.decode("utf-8", "replace")
        code = re.search(r"<Code>([A-Za-z]{1,60})</Code>", body)
        said = body[:200].strip() if code is None else code[1]
        named = re.search(r"<Region>([a-z0-9-]{1,40})</Region>", body)
        region = named[1] if named else reply.headers.get("x-amz-bucket-region", self._region)
        hint = (
            ""
            if region == self._region
            else f"; the bucket is in the region {region!r}: give it as {self.options_name}={{'region': …}}"
        )
        return TargetError(
            f"{self.path}/{key} cannot be written: the server answers {reply.status}{what}: {said}{hint}"
        )

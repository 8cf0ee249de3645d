"""Azure: which servers may receive signatures, and reading blobs in forked processes, in which obstore does not work.

Source: "Authorize with Shared Key" in the REST API of Azure Storage.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

from cfagg.errors import AccessError
from cfagg.errors.redacting import redacted
from cfagg.storage.remote import HttpSource, bucket_source

__all__ = ["azure_source", "check_server"]

_VERSION = "2021-08-06"

#: Headers in the order in which their values are signed.
_SIGNED = (
    "content-encoding", "content-language", "content-length", "content-md5", "content-type", "date",
    "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range",
)  # fmt: skip


#: The servers of Azure itself, in all its clouds.
_OWN = re.compile(
    r"https://[a-z0-9.-]+\.(core\.windows\.net|core\.chinacloudapi\.cn|core\.usgovcloudapi\.net|storage\.azure\.net"
    r"|fabric\.microsoft\.com)(:443)?(/.*)?",
    re.IGNORECASE,
)

#: Environment variables that may contain a SAS token, and the server.
_TOKEN = ("AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN")
_SERVER = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")


def check_server(path: str, options: Mapping[str, Any]) -> None:
    """Refuse to send a SAS token to a server outside Azure: obstore would pass it on if that server redirects."""
    endpoint = options.get("endpoint") or _from(_SERVER)
    token = options.get("sas_key") or (not options.get("account_key") and _from(_TOKEN))
    if token and endpoint is not None and not _OWN.fullmatch(str(endpoint)):
        raise AccessError(
            f"{path}: a SAS token is part of each request's URL and would reach any server it redirects to, so it is "
            f"sent to Azure servers only, not to {redacted(str(endpoint))}: give account_key instead"
        )


def _from(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


@dataclass(frozen=True)
class _SharedKey:
    """Signs requests with the key of an account."""

    account: str
    key: str = field(repr=False)

    def __call__(
        self, method: str, host: str, path: str, query: str, headers: Mapping[str, str], now: datetime  # noqa: ARG002
    ) -> dict[str, str]:  # fmt: skip
        sent = {k.lower(): v for k, v in headers.items()}
        sent |= {"x-ms-date": format_datetime(now.astimezone(UTC), usegmt=True), "x-ms-version": _VERSION}
        own = "".join(f"{k}:{sent[k]}\n" for k in sorted(sent) if k.startswith("x-ms-"))
        values = "".join(f"{sent.get(name, '')}\n" for name in _SIGNED)
        text = f"{method}\n{values}{own}/{self.account}{path}"
        digest = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        return {**sent, "authorization": f"SharedKey {self.account}:{base64.b64encode(digest).decode()}"}


def azure_source(container: str, prefix: str, options: Mapping[str, Any]) -> HttpSource | None:
    """Return the reader of a container, or `None` if it needs credentials other than a shared key."""
    account = options.get("account_name") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    key = options.get("account_key") or os.environ.get("AZURE_STORAGE_ACCOUNT_KEY")
    others = {"client_id", "client_secret", "credentials", "sas_key", "tenant_id", "use_emulator"} & set(options)
    if not account or others or not (key or options.get("skip_signature")):
        return None
    endpoint = str(options.get("endpoint") or f"https://{account}.blob.core.windows.net").rstrip("/")
    signer = None if options.get("skip_signature") else _SharedKey(account, str(key))
    return bucket_source(f"{endpoint}/{container}", prefix, options, signer)

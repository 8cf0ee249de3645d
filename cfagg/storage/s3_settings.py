"""Settings of S3 in the environment: switches, and the encryption of written objects.

The variables are those of obstore.  One that is not understood raises an error if it matters, so that no data are
written without the requested encryption.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from cfagg.errors import SourceError, TargetError

__all__ = ["encryption", "switched_on"]

_ON = frozenset({"1", "on", "requester", "t", "true", "y", "yes"})
_OFF = frozenset({"", "0", "f", "false", "n", "no", "off"})


def switched_on(options: Mapping[str, Any], name: str) -> bool:
    """Return whether an option is switched on, in the environment if it is not given."""
    given = options.get(name)
    return _truth(f"AWS_{name.upper()}") if given is None else bool(given)


def encryption(path: str) -> dict[str, str]:
    """Return the headers of writing requests for the encryption that the environment requests.

    Raises
    ------
    TargetError
        The encryption is not requested by headers alone, or is specified incompletely.
    """
    kind, key, customer, bucket = (
        os.environ.get(f"AWS_{name}", "").strip()
        for name in ("SERVER_SIDE_ENCRYPTION", "SSE_KMS_KEY_ID", "SSE_CUSTOMER_KEY_BASE64", "SSE_BUCKET_KEY_ENABLED")
    )
    if not (kind or key or customer or bucket):
        return {}
    if customer or kind.lower() == "sse-c":
        raise TargetError(
            f"{path} is not written: the environment asks for encryption with a key of your own "
            "(AWS_SERVER_SIDE_ENCRYPTION=sse-c, AWS_SSE_CUSTOMER_KEY_BASE64), which cfagg does not support; use "
            "aws:kms or AES256, or unset both"
        )
    managed = kind in ("aws:kms", "aws:kms:dsse")
    if (kind and kind != "AES256" and not managed) or (key and not managed):
        raise TargetError(
            f"{path} is not written: AWS_SERVER_SIDE_ENCRYPTION is {kind or 'not set'}"
            f"{' and AWS_SSE_KMS_KEY_ID is set' if key else ''}; expected AES256 or, with a key, aws:kms or "
            "aws:kms:dsse"
        )
    asked = {"": kind, "-aws-kms-key-id": key}
    if bucket:
        asked["-bucket-key-enabled"] = str(_truth("AWS_SSE_BUCKET_KEY_ENABLED")).lower()
    return {f"x-amz-server-side-encryption{name}": value for name, value in asked.items() if value}


def _truth(variable: str) -> bool:
    found = os.environ.get(variable, "").strip().lower()
    if found not in _ON | _OFF:
        raise SourceError(f"the environment has {variable}={found[:40]!r}; expected true or false")
    return found in _ON

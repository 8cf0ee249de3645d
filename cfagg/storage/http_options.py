"""Options of web servers: headers, timeouts, and the parts of their URLs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

from cfagg.errors import AccessError, SourceError
from cfagg.errors.redacting import redacted

__all__ = ["Headers", "check_options", "common_options", "seconds_of", "split_url"]

_TIMEOUT, _DEADLINE = 60.0, 300.0
#: Longer times, such as infinity, mean this: the system does not accept any number of seconds.
_LONGEST = 1e9
#: Headers that contain no secret, and are therefore sent to other processes along with a store.
_OPEN_HEADERS = frozenset({"accept", "accept-language", "referer", "user-agent", "x-amz-request-payer"})


def split_url(url: str) -> SplitResult | None:
    """Return the parts of a URL, or `None` if it has no server or is malformed."""
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0 and parts.netloc.isascii()
    except ValueError:
        return None
    return parts if usable and not re.search(r"[\x00-\x20\x7f]", parts.netloc) else None


@dataclass(frozen=True)
class Headers:
    """Headers for one store, or a function that returns them, pickled by name; only harmless headers are pickled."""

    given: Any = field(repr=False)

    def now(self) -> dict[str, str]:
        """Return the current headers, with names in lower case."""
        found = self.given() if callable(self.given) else self.given
        if not isinstance(found, Mapping) or not all(_is_header(t) for pair in found.items() for t in pair):
            raise SourceError("headers that do not map names to one-line texts")
        return {k.lower(): v for k, v in found.items()}

    def __getstate__(self) -> dict[str, Any]:
        if not callable(self.given):
            secret = sorted(set(self.now()) - _OPEN_HEADERS)
            if secret:
                raise AccessError(
                    f"headers given as storage_options= ({', '.join(secret)}) may hold secrets and are not sent to "
                    "other processes; give storage_options={'headers': provider}, an importable function that returns "
                    "them, for instance from the environment of the process that reads"
                )
        return {"given": self.given}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


#: Options of S3 in fsspec, which many programs use, and what they are called here.
_OF_FSSPEC = {
    "anon": "skip_signature=True", "key": "access_key_id", "secret": "secret_access_key", "token": "session_token",
    "endpoint_url": "endpoint", "client_kwargs": "endpoint", "requester_pays": "request_payer",
}  # fmt: skip


def _is_header(text: Any) -> bool:
    return isinstance(text, str) and not re.search(r"[\r\n\0]", text) and text.isascii()


def check_options(url: str, options: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse options that a store does not support."""
    unknown = sorted(set(options) - set(known))
    if unknown:
        meant = {name: own for name in unknown if (own := _OF_FSSPEC.get(name, "")).partition("=")[0] in known}
        instead = "".join(f"; for {name!r} give {own}" for name, own in meant.items())
        raise SourceError(f"{redacted(url)} has no options {unknown}; expected some of {sorted(known)}{instead}")


def common_options(url: str, options: Mapping[str, Any]) -> tuple[Headers, float, float]:
    """Return headers, timeout and deadline."""
    timeout, deadline = seconds_of(url, options)
    headers = Headers(options.get("headers", {}))
    if not callable(headers.given):
        try:
            headers.now()
        except SourceError as error:
            raise SourceError(f"{redacted(url)}: storage_options= has {error.message}") from None
    return headers, timeout, deadline


def seconds_of(url: str, options: Mapping[str, Any]) -> tuple[float, float]:
    """Return timeout and deadline.

    >>> seconds_of("s3://b/a", {"deadline": float("inf")})
    (60.0, 1000000000.0)
    """
    seconds = []
    for name, usual in (("timeout", _TIMEOUT), ("deadline", _DEADLINE)):
        value = options.get(name, usual)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise SourceError(f"{redacted(url)}: storage_options= has a {name} that is not a number of seconds above 0")
        seconds.append(float(min(value, _LONGEST)))
    return seconds[0], seconds[1]

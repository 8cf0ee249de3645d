"""Icechunk repositories, local and in S3, as Zarr stores: the state of the branch ``main`` when opened.

The Icechunk library reads the repository.  It is not permitted to read virtual chunks, which are in other files, and a
local repository that contains links, which Icechunk never creates, raises an error.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cfagg.errors import AccessError, FragmentReadError, SourceError, UnsupportedError
from cfagg.errors.extras import require
from cfagg.errors.redacting import redacted
from cfagg.formats.metadata.stores import MemoryStore
from cfagg.formats.opening import BRANCH
from cfagg.storage.credentials import from_environment, setting
from cfagg.storage.http_options import seconds_of
from cfagg.storage.s3_settings import switched_on
from cfagg.storage.urls import OPEN, Url

__all__ = ["BRANCH", "IcechunkStore", "checked_root", "open_repository", "said", "storage_of"]

#: How long keys from the environment or a provider are used before they are requested again.
_RENEWED = timedelta(minutes=1)

#: The `storage_options` that Icechunk's S3 supports.
_KNOWN = frozenset(
    {
        "access_key_id", "credentials", "deadline", "endpoint", "region", "request_payer", "secret_access_key",
        "session_token", "skip_signature", "timeout", "virtual_hosted_style_request",
    }
)  # fmt: skip

#: The process in which Icechunk has threads, which do not survive a fork.
_process: int | None = None


class IcechunkStore(MemoryStore):
    """The content of a branch of a repository; it can be pickled, but keys only as the function that provides them."""

    def __init__(self, store: Any, path: str, source: str, place: str | Url) -> None:
        super().__init__(store, path, source)
        self._place = place

    def __getstate__(self) -> dict[str, Any]:
        pickle.dumps(self._place)  # a session would include keys
        return self.__dict__

    def read(self, key: str) -> bytes | None:
        """Return the value of a key, or `None` if there is none."""
        import icechunk

        _refuse_fork(self.source)
        try:
            return super().read(key)
        except icechunk.IcechunkError as error:
            raise FragmentReadError(
                f"{self.source}: {key} cannot be read; Icechunk reports: {said(error, self._place)}; virtual chunks, "
                "which are in other files, are not read"
            ) from error

    def opens(self, path: str) -> tuple[Callable[[int, int], bytes], int, tuple[int, ...]] | None:
        """Return a read function for an object at a path below this one, its size, and a tag of its state."""
        raw = self.read(path[len(self.source) + 1 :])
        if raw is None:
            return None
        digest = int.from_bytes(hashlib.blake2b(raw, digest_size=7).digest())
        return lambda count, start: raw[start : start + count], len(raw), (digest,)


def open_repository(place: str | Url) -> IcechunkStore:
    """Return the content of a repository."""
    storage = storage_of(place)
    import icechunk

    root = checked_root(place)
    try:
        store = icechunk.Repository.open(storage).readonly_session(BRANCH).store
    except icechunk.IcechunkError as error:
        message = said(error, place)
        raise SourceError(
            f"{redacted(str(place))} cannot be read as an Icechunk repository; Icechunk reports: {message}"
        ) from error
    return IcechunkStore(store, "", root, place)


def checked_root(place: str | os.PathLike[str]) -> str:
    """Return the absolute path or URL of a repository; a local one with links raises an error."""
    if isinstance(place, Url):
        return str(place).rstrip("/")
    root = os.path.abspath(place)  # noqa: PTH100
    _refuse_links(root)
    return root


def storage_of(place: str | Url) -> Any:
    """Return the Icechunk storage of a repository: a directory, or a prefix in S3 with its keys."""
    require("Icechunk repositories", "icechunk")
    import icechunk

    _refuse_fork(str(place))
    icechunk.set_logs_filter("error")
    if not isinstance(place, Url):
        return icechunk.local_filesystem_storage(os.path.abspath(place))  # noqa: PTH100
    scheme, _, rest = place.partition("://")
    bucket, _, prefix = rest.partition("/")
    if scheme.lower() != "s3" or not bucket or not prefix.strip("/"):
        raise UnsupportedError(
            f"{redacted(str(place))}: Icechunk repositories are read and written on this machine and below "
            "s3://bucket/path; copy it there"
        )
    options = dict(place.options.given)
    if unknown := sorted(set(options) - _KNOWN):
        raise SourceError(f"{place} does not take the options {unknown}; it takes {sorted(_KNOWN)}")
    endpoint = options.get("endpoint") or setting("endpoint_url")
    return icechunk.s3_storage(
        bucket=bucket,
        prefix=prefix.strip("/"),
        region=options.get("region") or setting("region") or "us-east-1",
        endpoint_url=endpoint,
        allow_http=bool(endpoint) and str(endpoint).startswith("http:"),
        force_path_style=not switched_on(options, "virtual_hosted_style_request"),
        requester_pays=switched_on(options, "request_payer"),
        network_stream_timeout_seconds=max(1, round(seconds_of(place, options)[0])),
        **_credentials(place, options),
    )


def _credentials(place: Url, options: dict[str, Any]) -> dict[str, Any]:
    """Return the credentials for requests: given keys, a function that provides them, or none."""
    if switched_on(options, "skip_signature"):
        return {"anonymous": True}
    given = {n: options[n] for n in ("access_key_id", "secret_access_key", "session_token") if options.get(n)}
    if given:
        return given
    provider = options.get("credentials")
    if provider is None and "access_key_id" not in from_environment():
        return {"anonymous": True}
    if provider == "environment":
        provider = None
    if provider is not None and not callable(provider):
        raise SourceError(f"{place}: storage_options= has credentials that are neither a function nor 'environment'")
    # Icechunk pickles the function that it calls, by name, as for workers.  A pickled session has no key.
    try:
        pickle.dumps(provider)
    except Exception as error:  # what cannot be pickled may raise anything
        raise AccessError(
            f"{place}: Icechunk asks for keys in threads of its own; give a function that can be imported by its name, "
            "as in storage_options={'credentials': function}"
        ) from error
    return {"get_credentials": _Keys(provider)}


@dataclass(frozen=True)
class _Keys:
    """Provides keys when Icechunk requests them: those of a provider, or from the environment of this process."""

    provider: Callable[[], Any] | None

    def __call__(self) -> Any:
        import icechunk

        found = from_environment() if self.provider is None else self.provider()
        return icechunk.S3StaticCredentials(
            found["access_key_id"],
            found["secret_access_key"],
            found.get("session_token") or None,
            datetime.now(UTC) + _RENEWED,
        )


def said(error: BaseException, place: str | Url = "") -> str:
    """Return the first line of an error of Icechunk, without anything that could be a key."""
    text = str(error).partition("\n")[0]
    if isinstance(place, Url):
        for name, value in place.options.given.items():
            if isinstance(value, str) and value and name not in OPEN:
                text = text.replace(value, "…")
    return redacted(text)


def _refuse_fork(source: str) -> None:
    """Raise an error in a process forked from one that used Icechunk, which would wait for missing threads."""
    global _process  # noqa: PLW0603
    if _process not in (None, os.getpid()):
        raise UnsupportedError(
            f"{redacted(source)} is an Icechunk repository, which cannot be used in a process that was forked from one "
            "that used Icechunk: start workers with the method 'spawn' or 'forkserver'"
        )
    _process = os.getpid()


def _refuse_links(root: str) -> None:
    """Raise an error for a repository with links, which could point anywhere."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        raise AccessError(
                            f"{entry.path} is a link within an Icechunk repository, which may lead out of it; replace "
                            "it by what it leads to"
                        )
                    if entry.is_dir():
                        waiting.append(entry.path)
        except OSError as error:
            if isinstance(error, AccessError):
                raise
            raise SourceError(f"{folder} cannot be listed: {error.strerror or error}") from error

"""Object stores: S3 by cfagg's own requests, Google and Azure by obstore.

The threads of obstore do not survive a fork, after which it would wait forever.  In a forked process the small reader
also reads the other stores if it supports their credentials; everything else is refused.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from cfagg.errors import (
    AccessError,
    FragmentReadError,
    LimitError,
    SourceError,
    StaleError,
    TargetError,
    TargetExistsError,
    UnsupportedError,
)
from cfagg.errors.extras import require
from cfagg.errors.redacting import redacted
from cfagg.storage.azure import azure_source, check_server
from cfagg.storage.credentials import from_environment, setting
from cfagg.storage.http_options import check_options, seconds_of
from cfagg.storage.remote import HttpSource, bucket_source
from cfagg.storage.remote_source import RemoteSource
from cfagg.storage.s3_writing import S3Target
from cfagg.storage.store import MAX_OBJECT, Part, State, check_key
from cfagg.storage.urls import OPEN

__all__ = ["ObjectStore"]

#: Options by kind of store, in addition to the common ones.
_ALL = ("credentials", "deadline", "skip_signature", "timeout")
_KNOWN = {
    "s3": ("access_key_id", "endpoint", "region", "request_payer", "secret_access_key", "session_token",
           "virtual_hosted_style_request"),
    "gs": ("service_account", "service_account_key"),
    "az": ("account_key", "account_name", "client_id", "client_secret", "endpoint", "sas_key", "tenant_id",
           "use_emulator"),
}  # fmt: skip

#: Names that obstore refuses or changes.
_ODD = re.compile(r"/\.{0,2}/|[\x00-\x1f\x7f]")

#: Largest object that is written by one request, and maximum number and minimum size of the parts of a larger one.
_AT_ONCE, _PARTS, _PART = 5000 << 20, 10_000, 5 << 20

#: How long the result of a provider is used before the provider is called again.
_RENEWED = timedelta(minutes=1)

#: Number of characters of an error message that are shown.
_SHOWN = 300

#: The process in which obstore has threads.
_process: int | None = None


class ObjectStore(RemoteSource):
    """The objects below one URL ``s3://``, ``gs://`` or ``az://``."""

    lists = True

    def __init__(
        self,
        url: str,
        options: Mapping[str, Any],
        allow: Iterable[str] = (),
        *,
        guarded: bool = False,  # noqa: ARG002 - the user's settings say where its servers are
        options_name: str = "storage_options",
    ) -> None:
        scheme, _, rest = url.partition("://")
        self.scheme = scheme.lower()
        if self.scheme != "s3":
            require("object stores", "obstore")
        found = re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._-]+)(?:/+(.*))?", rest, re.DOTALL)
        if found is None:
            raise SourceError(f"{redacted(url)} is not a URL of a store; expected {self.scheme}://bucket/path")
        check_options(url, options, (*_ALL, *_KNOWN[self.scheme]))
        seconds_of(url, options)
        self._bucket, prefix = found[1], (found[2] or "").strip("/")
        self.path = f"{self.scheme}://{self._bucket}/{prefix}".rstrip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._options, self._options_name = dict(options), options_name
        self._allow = tuple(allow)
        if self.scheme == "az":
            check_server(self.path, options)
        self._opened: Any = None
        self._known = {}

    def __repr__(self) -> str:
        return f"ObjectStore({self.path!r})"

    @property
    def server(self) -> str | None:
        """The server, if it is not the usual one of its kind."""
        found = self._options.get("endpoint") or (setting("endpoint_url") if self.scheme == "s3" else None)
        return None if found is None else str(found)

    def __getstate__(self) -> dict[str, Any]:
        from cfagg.storage.urls import Options

        state = {k: v for k, v in self.__dict__.items() if k != "_small"}
        return {**state, "_options": Options(self._options), "_opened": None, "_known": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._options = dict(state["_options"].given)

    # ---- reading

    def read(self, key: str) -> bytes | None:
        """Return all bytes under a key, or `None` if it does not exist."""
        if (other := self._other) is not None:
            return other.read(key)
        found = self._get(key, None)
        if found is None:
            return None
        if found.meta["size"] > MAX_OBJECT:
            raise LimitError(
                f"{self.path}/{key} has {found.meta['size']:,} bytes; at most {MAX_OBJECT:,} are read at once"
            )
        whole: bytes = self._answered(key, lambda: bytes(found.bytes()))
        return whole

    def part(self, key: str, start: int | None, count: int) -> Part | None:
        """Return `count` bytes from `start` on, or the last ones, and the object's state; `None` if it is missing."""
        if (other := self._other) is not None:
            return other.part(key, start, count)
        try:
            # Azure has no suffix ranges.
            found = None if start is None else self._get(key, {"range": (start, start + count)})
        except FragmentReadError:
            found = None  # as for a range that begins beyond the end, e.g. in an empty object
        if found is None:
            size = self._head(key)
            if size is None:
                return None
            begin = max(size[0] - count, 0) if start is None else start
            if begin >= size[0]:
                return Part(b"", *size)
            found = self._get(key, {"range": (begin, min(begin + count, size[0]))})
        if found is None:
            return None
        body: bytes = self._answered(key, lambda: bytes(found.bytes()))
        return Part(body, int(found.meta["size"]), found.meta["e_tag"])

    def size(self, key: str) -> int | None:
        """Return the number of bytes under a key, or `None` if it does not exist."""
        if (other := self._other) is not None:
            return other.size(key)
        found = self._head(key)
        return None if found is None else found[0]

    def _state(self, key: str) -> State | None:
        """Return the state of an object."""
        if (other := self._other) is not None:
            return other._state(key)
        meta = self._meta(key)
        found = None if meta is None else _state(meta)
        if found is not None and not found.tag:
            raise self.untold(key)
        return found

    def _by_listing(self, folder: str) -> dict[str, State] | None:
        return super()._by_listing(folder) if (other := self._other) is None else other._by_listing(folder)

    def children(self, folder: str) -> Iterator[str]:
        """Yield the names of folders below a folder, ``""`` for the store itself."""
        if isinstance(other := self._other, S3Target):
            yield from other.children(folder)
            return
        import obstore

        prefix = f"{self._prefix}{check_key(self.path, folder) if folder else ''}".rstrip("/") or None
        found = self._answered(folder, lambda: obstore.list_with_delimiter(self._store, prefix))
        for path in found["common_prefixes"]:
            yield path.rstrip("/").rpartition("/")[2]

    # ---- writing

    def listed(self, folder: str = "") -> Iterator[str]:
        """Yield the keys of all objects below a folder."""
        yield from (key for key, _ in self.objects(folder))

    def objects(self, folder: str) -> Iterator[tuple[str, State]]:
        """Yield the keys and states of all objects below a folder, ``""`` for the store itself."""
        if isinstance(other := self._other, S3Target):
            yield from other.objects(folder)
            return
        for meta in self._metas(check_key(self.path, folder) if folder else ""):
            yield meta["path"][len(self._prefix) :], _state(meta)

    def check(self, keys: Iterable[str]) -> None:
        """Refuse names that obstore cannot write or remove, or confuses with others, such as ``a/`` with ``a``."""
        for key in keys:
            if _ODD.search(f"/{self._prefix}{key}/"):
                raise TargetError(
                    f"{self.path}: {key!r} can be neither written nor removed: its name has an empty part, '..' or a "
                    "control character; rename or remove it with a tool of the object store"
                )

    def put(self, key: str, data: Any, *, create: bool = False, match: str | None = None) -> str:
        """Write an object and return its tag.

        With `create` the object must not exist yet, with `match` it must have this tag; otherwise `TargetExistsError`.
        """
        size = data.stat().st_size if isinstance(data, Path) else memoryview(data).nbytes
        if (create or match is not None) and size > _AT_ONCE and self.scheme != "gs":
            raise TargetError(
                f"{self.path}/{key} was not written: it has {size:,} bytes, and an object that must not replace "
                f"another is written by one request, of at most {_AT_ONCE:,}; divide it into smaller files"
            )
        self.check([key])
        self._known.pop(key, None)
        if isinstance(small := self._small, S3Target):
            return small.put(key, data, create=create, match=match)
        import obstore
        from obstore import exceptions

        mode: Any = "create" if create else "overwrite" if match is None else self._condition(key, match)
        whole = None if mode == "overwrite" else False
        try:
            part = max(_PART, -(-size // _PARTS))
            made = obstore.put(
                self._store, f"{self._prefix}{key}", data, mode=mode, use_multipart=whole, chunk_size=part
            )
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
            raise TargetExistsError(f"{self.path}/{key} exists: another process is writing there") from error
        except (exceptions.BaseError, OSError) as error:
            raise self._unwritten(key, error) from error
        return (made["e_tag"] or "").strip('"')

    def _condition(self, key: str, match: str) -> dict[str, str]:
        """Return the condition for replacing an object only if it has a tag."""
        if self.scheme != "gs":
            return {"e_tag": match if match.startswith(('"', "W/")) else f'"{match}"'}
        # Google's conditions use generations, which neither listings nor responses to reads give.
        found = self._meta(key)
        if found is None or (found["e_tag"] or "").strip('"') != match.strip('"'):
            raise TargetExistsError(f"{self.path}/{key} has changed: another process is writing there")
        return {"e_tag": found["e_tag"], "version": found["version"]}

    def copy(self, old: str, new: str) -> None:
        """Copy an object on the server."""
        self.check([old, new])
        self._known.pop(new, None)
        if isinstance(small := self._small, S3Target):
            small.copy(old, new)
            return
        import obstore
        from obstore import exceptions

        try:
            obstore.copy(self._store, f"{self._prefix}{old}", f"{self._prefix}{new}")
        except (exceptions.BaseError, OSError) as error:
            raise self._unwritten(new, error) from error

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; missing ones are ignored."""
        self.check(keys)
        if isinstance(small := self._small, S3Target):
            small.delete(keys)
            return
        import obstore
        from obstore import exceptions

        try:
            for begin in range(0, len(keys), 1000):
                obstore.delete(self._store, [f"{self._prefix}{key}" for key in keys[begin : begin + 1000]])
        except FileNotFoundError:
            pass
        except (exceptions.BaseError, OSError) as error:
            raise self._unwritten(keys[0], error) from error

    def _unwritten(self, key: str, error: Exception) -> TargetError:
        return TargetError(f"{self.path}/{key} cannot be written: {self._said(error)}")

    # ---- obstore

    def _metas(self, folder: str) -> Iterator[Any]:
        import obstore

        prefix = f"{self._prefix}{folder}".rstrip("/") or None
        pages = iter(obstore.list(self._store, prefix))
        while (page := self._answered(folder, lambda: next(pages, None))) is not None:
            yield from page

    def _head(self, key: str) -> tuple[int, str | None] | None:
        found = self._meta(key)
        return None if found is None else (int(found["size"]), found["e_tag"])

    def _meta(self, key: str) -> Any:
        import obstore

        whole = f"{self._prefix}{check_key(self.path, key)}"
        try:
            return self._answered(key, lambda: obstore.head(self._store, whole))
        except FileNotFoundError:
            return None

    def _get(self, key: str, options: Any) -> Any:
        import obstore

        whole = f"{self._prefix}{check_key(self.path, key)}"
        try:
            return self._answered(key, lambda: obstore.get(self._store, whole, options=options))
        except FileNotFoundError:
            return None

    def _answered(self, key: str, ask: Callable[[], Any]) -> Any:
        """Return the result of obstore; its errors are converted, except those about missing objects."""
        from obstore import exceptions

        try:
            return ask()
        except FileNotFoundError:
            raise
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise self._refused(key, error) from error
        except exceptions.PreconditionError as error:
            raise StaleError(f"{self.path}/{key} has been written since it was opened; open it again") from error
        except (AccessError, SourceError, UnsupportedError):
            raise
        except ValueError as error:  # obstore does not accept such names
            raise UnsupportedError(
                f"{self.path}/{key!r} is not read: its name has a control character; rename it"
            ) from error
        except (exceptions.BaseError, OSError) as error:
            if re.search(r"status code: 40[13]\b", str(error)):
                raise self._refused(key, error) from error
            raise FragmentReadError(f"{self.path}/{key} cannot be read: {self._said(error)}") from error

    def _refused(self, key: str, error: Exception) -> AccessError:
        where = f"{self.path}/{key}".rstrip("/")
        return AccessError(f"{where} may not be read: {self._said(error)}; give credentials as {self._options_name}=")

    def _said(self, error: BaseException) -> str:
        """Return the beginning of the message of obstore, without anything that could be a key."""
        text = str(error).partition("\n\nDebug source:")[0].strip()
        for name, value in self._options.items():
            if isinstance(value, str) and value and name not in OPEN:
                text = text.replace(value, "…")
        return redacted(re.sub(r"(?i)(sig|signature|token|secret|key)=[^&\s\"]+", r"\1=…", text))[:_SHOWN]

    @cached_property
    def _small(self) -> HttpSource | None:
        """The small reader, or `None` if it does not support the credentials."""
        if self.scheme == "s3":
            made = S3Target(self.path, self._options, self._allow)
            made.options_name = self._options_name
            return made
        if self.scheme == "az":
            return azure_source(self._bucket, self._prefix, self._options)
        place = f"https://storage.googleapis.com/{self._bucket}"
        return bucket_source(place, self._prefix, self._options) if self._options.get("skip_signature") else None

    @property
    def _other(self) -> HttpSource | None:
        """The reader used instead of obstore: always for S3, where obstore follows any redirect; else after a fork."""
        return self._small if self.scheme == "s3" or _process not in (None, os.getpid()) else None

    @property
    def _store(self) -> Any:
        """The store as an object of obstore; refused in a process that was forked from one that used obstore."""
        global _process  # noqa: PLW0603
        if _process not in (None, os.getpid()):
            raise UnsupportedError(
                f"{self.path} cannot be used in a process forked from one that used object stores: start workers with "
                "the method 'spawn' or 'forkserver'"
            )
        _process = os.getpid()
        if self._opened is None:
            try:
                self._opened = _open(self.scheme, self._bucket, self._options)
            except (ValueError, TypeError, OSError) as error:
                raise SourceError(f"{self.scheme}://{self._bucket} cannot be opened: {self._said(error)}") from None
        return self._opened


def _state(meta: Any) -> State:
    tag, when = (meta["e_tag"] or "").strip('"'), int(meta["last_modified"].timestamp()) * 10**9
    return State(int(meta["size"]), tag, when, time.time_ns())


def _open(scheme: str, bucket: str, options: Mapping[str, Any]) -> Any:
    from obstore.store import AzureStore, GCSStore

    given = {n: v for n, v in options.items() if n not in ("credentials", "deadline", "timeout")}
    timeout, deadline = (timedelta(seconds=n) for n in seconds_of(f"{scheme}://{bucket}", options))
    common: dict[str, Any] = {
        "client_options": {"timeout": timeout, "allow_http": True},
        "retry_config": {"max_retries": 3, "retry_timeout": deadline},
    }
    provider = options.get("credentials")
    if scheme == "gs":
        return GCSStore(bucket, **common, **given, **_provided(provider, _as_given))

    def token(found: Mapping[str, Any]) -> dict[str, Any]:
        check_server(f"az://{bucket}", {**options, "sas_key": found.get("sas_token")})
        return _as_given(found)

    return AzureStore(bucket, **common, **given, **_provided(provider, token))


def _provided(provider: Any, form: Callable[[Mapping[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    if provider is None:
        return {}
    ask = from_environment if provider == "environment" else provider
    return {"credential_provider": lambda: form(ask())}


def _as_given(found: Mapping[str, Any]) -> dict[str, Any]:
    return {"expires_at": datetime.now(UTC) + _RENEWED, **found}

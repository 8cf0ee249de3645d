"""The store at a path or URL."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from cfagg.errors import SourceError
from cfagg.errors.arguments import a_mapping, a_path, paths
from cfagg.errors.redacting import redacted
from cfagg.storage.credentials import setting
from cfagg.storage.local import LocalSource
from cfagg.storage.store import Source
from cfagg.storage.urls import Options, Url, is_url

__all__ = ["make_source", "new_source", "source_of"]


def make_source(
    path: str | os.PathLike[str],
    options: Mapping[str, Any] | None = None,
    allow: Iterable[str] = (),
    *,
    guarded: bool = False,
) -> Source:
    """Return the store in a directory, or at a URL with `options`; docs/remote.md lists them.

    `allow` lists prefixes of URLs to which the server may redirect, or places to which links in a directory may lead.
    The store is `guarded` if an untrusted file led here: addresses of this network are then refused.

    >>> import tempfile
    >>> source = make_source(tempfile.mkdtemp())
    >>> source.size("data/.zarray") is None, source.remote
    (True, False)
    """
    name = a_path(path, expected="name an observation store")
    scheme, mark, _ = name.partition("://")
    places = paths(allow)
    given = a_mapping(options, "options", "a mapping such as {'timeout': 30}")
    if mark and scheme.lower() in ("http", "https", "s3"):
        from cfagg.storage.remote import HttpSource, S3Source

        made = S3Source if scheme.lower() == "s3" else HttpSource
        return made(name, given, places, guarded=guarded)
    if mark and scheme.lower() in ("gs", "az"):
        from cfagg.storage.objects import ObjectStore

        return ObjectStore(name, given, places, guarded=guarded)
    if mark:
        raise SourceError(
            f"{name} is not a URL of a store; stores are read from http://, https://, s3://, gs:// and az://"
        )
    if given:
        raise SourceError(
            f"{name} is a local directory, for which there are no options; found {sorted(map(str, given))}"
        )
    return LocalSource(os.path.expanduser(name), places)  # noqa: PTH111


def new_source(url: Url, place: str) -> Source:
    """Return the store at a place, with the options of a URL, in its current state: no earlier state of it is known."""
    _check(url, place)
    return make_source(place, url.options.given, url.options.allow, guarded=url.options.guarded)


def _check(url: Url, place: str) -> None:
    """Refuse a place that would be a local directory, such as "s3:/", the parent of a bare bucket."""
    if not is_url(place):
        raise SourceError(f"{redacted(url)} names neither a file nor a folder; expected a URL such as s3://bucket/key")


def source_of(url: Url, place: str) -> Source:
    """Return the store at a place, with the options of a URL; it is cached, and its connections with it."""
    _check(url, place)
    return _source(place, url.options, _settings(place.partition(":")[0].lower()))


def _settings(scheme: str) -> tuple[Any, ...]:
    """Return the environment's settings for servers of this kind; sources are created again when they change."""
    if scheme == "s3":
        return setting("region"), setting("endpoint_url")
    prefix = {"az": "AZURE_", "gs": "GOOGLE_"}.get(scheme)
    return () if prefix is None else tuple(sorted(i for i in os.environ.items() if i[0].upper().startswith(prefix)))


@lru_cache(maxsize=64)
def _source(place: str, options: Options, _settings: tuple[Any, ...]) -> Source:
    return make_source(place, options.given, options.allow, guarded=options.guarded)

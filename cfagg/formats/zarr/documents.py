"""Reading the JSON documents of a Zarr store, never consolidated ones, which may be outdated."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from cfagg.errors import CfaggError, LimitError, SourceError
from cfagg.errors.arguments import a_path, a_text
from cfagg.storage.files import no_directory
from cfagg.storage.store import is_page
from cfagg.storage.tree import read_file
from cfagg.storage.urls import Url, refuse_url

__all__ = [
    "MAX_DOCUMENT",
    "Document",
    "is_group",
    "is_icechunk",
    "is_there",
    "no_store",
    "node_folder",
    "parse",
    "read_document",
    "read_group",
    "read_identity",
    "read_text",
    "store_path",
]

#: Most bytes of one metadata document; consolidated metadata of large stores are well below.
MAX_DOCUMENT = 2**28

#: Present in every Icechunk repository besides snapshots: the first in version 2, the second in version 1.
_BRANCHES = ("repo", "refs")


class Document(NamedTuple):
    """A JSON object, the file it was in, and its text."""

    content: dict[str, Any]
    #: Inode, size, and times of modification and change in nanoseconds; for a remote file a digest of its text.
    identity: tuple[int, ...]
    text: bytes


def store_path(store: str | os.PathLike[str]) -> str:
    """Return the absolute path of a local store, or its `Url`; raise an error for other URLs and non-directories."""
    if isinstance(store, Url):
        return store.beside(store.rstrip("/")) if store.endswith("/") else store
    name = os.path.expanduser(a_path(store, "store", expected="name a Zarr store"))  # noqa: PTH111
    refuse_url(name, "used like that")
    path = os.path.abspath(name)  # noqa: PTH100  (Path.absolute keeps "..")
    if not name or not os.path.isdir(path):  # noqa: PTH112
        raise no_directory(name, "a Zarr store", f"make one with: cfagg convert {name} STORE")
    return path


def node_folder(store: str, path: str) -> str:
    """Return the directory of a group or array within a store; raise an error for ``..`` and other ways out of it."""
    inner = a_text(path, "variable", "the name or path of an array").strip("/")
    parts = inner.split("/") if inner else []
    for part in parts:
        if part in ("", ".", "..") or "\\" in part or "\0" in part:
            raise SourceError(f"{store}: {path!r} is not a path of a Zarr node; {part!r} cannot be a name in it")
    return "/".join([store, *parts])


def read_document(folder: str, name: str, root: str | None = None, allow: Sequence[str] = ()) -> Document | None:
    """Return a JSON object and the identity of its file, or `None` if there is no such file; see `read_text`."""
    read = read_text(folder, name, root, allow)
    if read is None:
        return None
    text, identity = read
    path = f"{folder}/{name}"
    return Document(parse(text, path), identity, text)


def parse(text: bytes, path: str) -> dict[str, Any]:
    """Return a JSON object; raise an error for other, too long, or too deeply nested texts."""
    if len(text) > MAX_DOCUMENT:
        raise LimitError(f"{path} has {len(text):,} bytes; at most {MAX_DOCUMENT:,} of metadata are read")
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise LimitError(f"{path} is nested too deeply") from error
    except ValueError as error:
        if is_page(text):
            raise SourceError(
                f"{path} is not JSON: it is a web page, as servers send for a login or instead of an error; check the "
                "address, and what the server needs to let you in"
            ) from error
        raise SourceError(f"{path} is not JSON: {place_of(error)}; write it again") from error
    if not isinstance(found, dict):
        raise SourceError(f"{path} holds a JSON {type(found).__name__}, expected an object; write it again")
    return found


def place_of(error: ValueError) -> str:
    """Return the position of an error in a JSON text."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno} is malformed from column {error.colno:,} on"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start:,} is not UTF-8"
    return "a number has too many digits"


def read_group(store: str, path: str, zarr_format: int, allow: Sequence[str] = ()) -> Document | None:
    """Return the attributes of a group, and the document that contains them, or `None` if there is no group."""
    folder = node_folder(store, path)
    if zarr_format == 2:
        marker = read_document(folder, ".zgroup", store, allow)
        return None if marker is None else read_document(folder, ".zattrs", store, allow) or marker._replace(content={})
    found = read_document(folder, "zarr.json", store, allow)
    if found is None:
        return None
    attributes = found.content.get("attributes", {})
    if found.content.get("node_type") != "group" or not isinstance(attributes, dict):
        raise SourceError(f"{folder}/zarr.json does not describe a group with attributes")
    return found._replace(content=attributes)


def is_there(folder: str, name: str, root: str) -> bool:
    """Return whether a name exists in a directory, or as a document on another machine."""
    return read_text(folder, name, root) is not None if isinstance(root, Url) else os.path.lexists(f"{folder}/{name}")


def is_group(folder: str, root: str | None = None) -> bool:
    """Return whether a directory is a Zarr group, and not an array."""
    try:
        if read_document(folder, ".zarray", root) is not None:
            return False
        found = read_document(folder, "zarr.json", root)
        if found is not None:
            return bool(found.content.get("node_type") == "group")
        return read_document(folder, ".zgroup", root) is not None
    except CfaggError:
        return False


def read_text(
    folder: str, name: str, root: str | None = None, allow: Sequence[str] = ()
) -> tuple[bytes, tuple[int, ...]] | None:
    """Return the bytes of a document and the identity of its file, or `None`. Links must stay in `root`."""
    path = f"{folder}/{name}"
    if isinstance(root, Url):
        from cfagg.formats.zarr.remote import identity_of, read_object

        raw = read_object(root, path, MAX_DOCUMENT)
        return None if raw is None else (raw, identity_of(raw))
    found = read_file(folder if root is None else root, path, MAX_DOCUMENT, allow)
    if found is None:
        return None
    text, status = found
    if len(text) > MAX_DOCUMENT:
        raise LimitError(f"{path} has {status.st_size:,} bytes; at most {MAX_DOCUMENT:,} of metadata are read")
    return text, _identity(status)


def read_identity(folder: str, name: str, root: str | None = None) -> tuple[int, ...] | None:
    """Return the identity of a document's file, or for a remote one that of its text; `None` if there is none."""
    if isinstance(root, Url):
        found = read_text(folder, name, root)
        return None if found is None else found[1]
    try:
        status = os.stat(f"{folder}/{name}")  # noqa: PTH116
    except OSError:
        return None
    return _identity(status)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_icechunk(folder: str) -> bool:
    """Return whether a directory looks like a repository of Icechunk, which is not a Zarr store."""
    if not os.path.isdir(f"{folder}/snapshots") or os.path.lexists(f"{folder}/zarr.json"):  # noqa: PTH112
        return False
    return any(os.path.lexists(f"{folder}/{name}") for name in _BRANCHES)


def no_store(name: str, *, is_remote: bool = False) -> str:
    """Return the message about a place that is not a Zarr store."""
    if is_remote:
        http = name.lower().startswith("http")
        said = "the server answers 404 (not found) for" if http else "there are no"
        return (
            f"{name} is neither a file that can be read nor a Zarr store: {said} zarr.json and .zgroup below it; check "
            f"the address{', and in a browser whether a login page is sent instead' if http else ''}"
        )
    if is_icechunk(name):
        return (
            f"{name} is an Icechunk repository, not a Zarr store; convert it to one with cfagg.convert "
            "(cfagg convert), and name that"
        )
    return (
        f"{name} is not a Zarr store: it has neither zarr.json nor .zgroup; name the directory that has one, or join "
        "the files in it with cfagg.aggregate (cfagg aggregate)"
    )

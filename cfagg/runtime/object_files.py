"""Single files in object stores: written locally first, then uploaded by one request."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cfagg.errors import TargetExistsError
from cfagg.storage.objects import ObjectStore
from cfagg.storage.urls import Url, refuse_url

__all__ = ["check_object", "exists", "object_at", "written_object"]


def check_object(url: Url, *, overwrite: bool) -> None:
    """Refuse a file that cannot or must not be written, before work begins."""
    objects, name = object_at(url)
    if not overwrite and objects.size(name) is not None:
        raise exists(url)


def exists(target: object) -> TargetExistsError:
    """Return the error about a file that must not be replaced."""
    return TargetExistsError(f"{target} exists; replace it with overwrite=True (--overwrite), or give another name")


@contextmanager
def written_object(url: Url, *, create: bool = False, match: str | None = None) -> Iterator[Path]:
    """Give the path of a new local file, uploaded when the block ends without an error; see `ObjectStore.put`."""
    objects, name = object_at(url)
    with tempfile.TemporaryDirectory(prefix="cfagg-") as folder:
        made = Path(folder) / Path(name).name[-60:]  # what checks it finds the name of the object
        yield made
        objects.put(name, made, create=create, match=match)


def object_at(url: Url) -> tuple[ObjectStore, str]:
    """Return the object store of a file, and its key there."""
    if url.lower().startswith("http"):
        refuse_url(url, "written")
    home, name = url.place
    return ObjectStore(home, url.options.given, options_name="target_options"), name

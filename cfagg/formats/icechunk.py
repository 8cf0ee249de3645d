"""Icechunk repositories on this machine as stores of Zarr: what the branch ``main`` holds when it is opened.

The library of Icechunk reads the repository.  It is not given leave to read virtual chunks, which are in other files; a
repository with links in it, which Icechunk never makes, is refused.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

from cfagg.errors import AccessError, FragmentReadError, SourceError
from cfagg.errors.extras import require
from cfagg.formats.metadata.stores import MemoryStore

__all__ = ["BRANCH", "IcechunkStore", "is_repository", "open_repository"]

#: The branch that is read.
BRANCH = "main"

#: What every repository has besides snapshots: this of version 2 or that of version 1.
_BRANCHES = ("repo", "refs")


def is_repository(path: str) -> bool:
    """Return whether a directory looks like a repository, which is no store of Zarr."""
    if not os.path.isdir(f"{path}/snapshots") or os.path.lexists(f"{path}/zarr.json"):  # noqa: PTH112
        return False
    return any(os.path.lexists(f"{path}/{name}") for name in _BRANCHES)


class IcechunkStore(MemoryStore):
    """What a branch of a repository holds; it can be sent to other processes."""

    def read(self, key: str) -> bytes | None:
        """Return what is stored under a key, `None` where there is nothing."""
        import icechunk

        try:
            return super().read(key)
        except icechunk.IcechunkError as error:
            said = str(error).partition("\n")[0]
            raise FragmentReadError(
                f"{self.source}: {key} cannot be read, Icechunk says: {said}; virtual chunks, which are in other "
                "files, are not read"
            ) from error

    def opens(self, path: str) -> tuple[Callable[[int, int], bytes], int, tuple[int, ...]] | None:
        """Return how an object at a path below this one is read, its size, and what tells its state."""
        raw = self.read(path[len(self.source) + 1 :])
        if raw is None:
            return None
        digest = int.from_bytes(hashlib.blake2b(raw, digest_size=7).digest())
        return lambda count, start: raw[start : start + count], len(raw), (digest,)


def open_repository(path: str) -> IcechunkStore:
    """Return what is in a repository."""
    require("Icechunk repositories", "icechunk")
    import icechunk

    root = os.path.abspath(path)  # noqa: PTH100
    _refuse_links(root)
    icechunk.set_logs_filter("error")
    try:
        repository = icechunk.Repository.open(icechunk.local_filesystem_storage(root))
        store = repository.readonly_session(BRANCH).store
    except icechunk.IcechunkError as error:
        said = str(error).partition("\n")[0]
        raise SourceError(f"{path} cannot be read as an Icechunk repository, Icechunk says: {said}") from error
    return IcechunkStore(store, "", root)


def _refuse_links(root: str) -> None:
    """Refuse a repository with links in it, which could lead anywhere."""
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

"""The place of an Icechunk repository, on this machine or in S3, and what its writers share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from cfagg.errors import CfaggError, TargetError, TargetExistsError
from cfagg.formats.icechunk import BRANCH, said, storage_of
from cfagg.runtime.publishing import reason, sync_tree
from cfagg.storage.s3_settings import encryption
from cfagg.storage.urls import Url

__all__ = ["Place"]


@dataclass(frozen=True)
class Place:
    """Where a repository is, or is to be: a directory, or a prefix in S3."""

    where: Path | Url

    def __str__(self) -> str:
        return str(self.where)

    @property
    def _storage(self) -> Any:
        if isinstance(self.where, Url) and encryption(str(self)):
            raise TargetError(
                f"{self} is not written: the environment asks for encryption (AWS_SERVER_SIDE_ENCRYPTION or "
                "AWS_SSE_…), which Icechunk's library does not request; make it the default of the bucket and unset it"
            )
        return storage_of(self.where if isinstance(self.where, Url) else str(self.where))

    def exists(self) -> bool:
        """Return whether there is a repository."""
        return (isinstance(self.where, Url) or self.where.is_dir()) and bool(
            _library().Repository.exists(self._storage)
        )

    def create(self) -> Any:
        """Return a new repository, where there is nothing."""
        return _library().Repository.create(self._storage)

    def open(self) -> Any:
        """Return the repository."""
        return _library().Repository.open(self._storage)

    def may_be_written(self, *, overwrite: bool) -> bool:
        """Refuse a repository that would be replaced unasked; return whether there is one."""
        exists = self.exists()
        if exists and not overwrite and not _is_new(self.open()):
            raise TargetExistsError(
                f"{self} is an Icechunk repository; overwrite=True (--overwrite) makes a commit on its branch "
                f"{BRANCH!r} that replaces what it holds (older snapshots stay), or give another name"
            )
        return exists

    @contextmanager
    def told(self) -> Iterator[None]:
        """Say in one sentence what the system or the library refused."""
        try:
            yield
        except CfaggError:
            raise
        except OSError as error:
            path = self.where if isinstance(self.where, Path) else None
            raise TargetError(f"{self} was not written: {reason(error, path)}") from error
        except Exception as error:
            if not isinstance(error, _library().IcechunkError):
                raise
            answer = said(error, str(self) if isinstance(self.where, Path) else self.where)
            raise TargetError(
                f"{self} was not written, and its branch is unchanged; Icechunk reports: {answer}"
            ) from error

    def sync(self) -> None:
        """Force to disk what is in a directory; servers keep what they have confirmed."""
        if isinstance(self.where, Path):
            sync_tree(self.where)


def _is_new(repository: Any) -> bool:
    """Return whether nothing was ever committed to a repository, as where its first conversion was cut short."""
    first = list(islice(repository.ancestry(branch=BRANCH), 2))
    return len(first) == 1 and set(repository.list_branches()) == {BRANCH} and not set(repository.list_tags())


def _library() -> Any:
    import icechunk

    return icechunk

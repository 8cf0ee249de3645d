"""The location of an Icechunk repository, local or in S3, and operations shared by its writers."""

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
    """The location of an existing or future repository: a directory, or a prefix in S3."""

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
        """Return a new repository in an empty place."""
        return _library().Repository.create(self._storage)

    def open(self) -> Any:
        """Return the repository."""
        return _library().Repository.open(self._storage)

    def may_be_written(self, *, overwrite: bool) -> bool:
        """Raise if an existing repository would be replaced without `overwrite`; return whether there is one."""
        exists = self.exists()
        if exists and not overwrite and not _is_new(self.open()):
            raise TargetExistsError(
                f"{self} is an Icechunk repository; overwrite=True (--overwrite) makes a commit on its branch "
                f"{BRANCH!r} that replaces what it holds (older snapshots stay), or give another name"
            )
        return exists

    @contextmanager
    def reporting_errors(self) -> Iterator[None]:
        """Report errors of the system or the library in one sentence."""
        try:
            yield
        except CfaggError:
            raise
        except OSError as error:
            path = self.where if isinstance(self.where, Path) else None
            raise TargetError(f"{self} was not written: {reason(error, path)}") from error
        except _library().IcechunkError as error:  # evaluated only once something is raised
            answer = said(error, str(self) if isinstance(self.where, Path) else self.where)
            raise TargetError(
                f"{self} was not written, and its branch is unchanged; Icechunk reports: {reason(OSError(answer))}"
            ) from error

    def sync(self) -> None:
        """Force the content of a directory to disk; servers keep what they have confirmed."""
        if isinstance(self.where, Path):
            sync_tree(self.where)


def _is_new(repository: Any) -> bool:
    """Return whether nothing was ever committed to a repository, as after an interrupted first conversion."""
    first = list(islice(repository.ancestry(branch=BRANCH), 2))
    return len(first) == 1 and set(repository.list_branches()) == {BRANCH} and not set(repository.list_tags())


def _library() -> Any:
    import icechunk

    return icechunk

"""A copy beside its target, which replaces it when finished and is removed otherwise."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cfagg.errors import CfaggError, TargetError
from cfagg.runtime.files import NewFolder
from cfagg.runtime.publishing import put, reason, refusals_of, replace_file, sync_tree

__all__ = ["copied", "finished"]


@contextmanager
def copied(source: str, target: str) -> Iterator[str]:
    """Copy a file or directory to a new name beside `target` and yield its path; errors name the target."""
    # A link remains a link; the file or directory that it points to is replaced.
    place = Path(os.path.realpath(target))
    with refusals_of(target):
        folder = NewFolder(place)
    try:
        # Of links, their own name is checked.  What is named otherwise in the directory is not removed after a kill.
        inside = folder.path / "file"
        copy = inside / Path(os.path.abspath(target)).name  # noqa: PTH100
        try:
            inside.mkdir()
            if Path(source).is_dir():
                shutil.copytree(source, copy, symlinks=True)
            else:
                shutil.copyfile(source, copy)
                shutil.copymode(source, copy)
                # The copy is writable even if the source is not.
                copy.chmod(copy.stat().st_mode | 0o200)
                if place.exists() and place.samefile(source):
                    _give_owner(copy, place.stat())
        except shutil.Error as error:
            raise TargetError(f"{source} cannot be copied to {place.parent}: {_first(error)}") from error
        except OSError as error:
            raise TargetError(f"{source} cannot be copied to {place.parent}: {reason(error)}") from error
        try:
            yield str(copy)
        except CfaggError as error:
            if str(copy) not in error.message:
                raise
            said = error.message.removeprefix(f"{copy}: ").replace(str(copy), target)
            raise TargetError(f"{target} is not written: {said}") from error
    except BaseException:
        folder.remove(done=False)
        raise
    folder.remove(done=True)


def _give_owner(copy: Path, like: os.stat_result) -> None:
    """Give a copy the owner and group of the file that it replaces, as far as that is permitted."""
    if (like.st_uid, like.st_gid) != (copy.stat().st_uid, copy.stat().st_gid):
        mode = copy.stat().st_mode
        with suppress(PermissionError):
            os.chown(copy, like.st_uid, like.st_gid)
            copy.chmod(mode)  # a change of the owner may take some permissions away


def _first(error: shutil.Error) -> str:
    """Return why the first of several files could not be copied; the error has a list of files or one sentence."""
    found = error.args[0]
    if not isinstance(found, list):
        return str(found)
    place, _, why = found[0]
    # The middle part of "[Errno 28] No space left on device: 'FILE'".
    said = re.fullmatch(r"\[Errno \d+\] ([^:]*)(: .*)?", str(why))
    return f"{said[1] if said else why} ({place})"


def finished(copy: str, target: str) -> None:
    """Replace `target` by a copy after its data are on disk; `TargetError` if that is impossible."""
    made, place = Path(copy), Path(os.path.realpath(target))
    with refusals_of(target):
        if made.is_dir():
            sync_tree(made)
            put(made, place, made.parent.with_name("former"))
        else:
            replace_file(made, place)

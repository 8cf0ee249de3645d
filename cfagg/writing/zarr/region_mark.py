"""The mark of a run that lets its workers write into a part of an object store; late workers find it gone.

Each run has its own mark, so that several runs can write different parts at the same time. A new run first removes the
marks of dead runs that write into the same part; a worker of such a run then cannot replace anything written since.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from cfagg.errors import CfaggError, TargetError
from cfagg.runtime.object_publishing import Fenced
from cfagg.storage.objects import ObjectStore
from cfagg.writing.zarr.object_place import LEASE, RENEWED, content_of, is_gone, who

__all__ = ["fenced"]

#: The folder of marks, each of which is an object.
_MARKS = ".cfagg-region"


@contextmanager
def fenced(
    objects: ObjectStore, part: Mapping[str, tuple[int, int | None]], *, workers: bool
) -> Iterator[Fenced | None]:
    """Yield what workers use to write into a part of a store, or `None` without workers; fence them off afterwards."""
    # `TargetError` is raised if another run may still be writing there.
    name = f"{_MARKS}/{secrets.token_hex(16)}"
    mark = json.dumps({**who(), "part": {d: list(p) for d, p in part.items()}, "holder": name}).encode()
    if not workers:
        _remove_others(objects, part, name)
        yield None
        return
    ended = threading.Event()
    objects.put(name, mark, create=True)
    renewing = threading.Thread(target=_renew, args=(objects, name, mark, ended), name="cfagg-mark", daemon=True)
    renewing.start()
    try:
        # In this order: if two runs begin at once, at least one sees the other.
        _remove_others(objects, part, name)
        yield Fenced(objects, mark, name)
    finally:
        ended.set()
        renewing.join()
        with suppress(CfaggError):
            objects.delete([name])


def _remove_others(objects: ObjectStore, part: Mapping[str, tuple[int, int | None]], own: str) -> None:
    """Remove the marks of dead runs; raise if one that writes into the same part may be alive."""
    for key, state in list(objects.objects(_MARKS)):
        found = None if key == own else objects.read(key)
        if found is None:
            continue
        content = content_of(found)
        age = (time.time_ns() - state.modified) / 1e9
        if is_gone(content) or age >= LEASE:
            objects.delete([key])
        elif _meet(content.get("part"), part):
            raise TargetError(
                f"{objects.path}: another process is writing into the same part of it (process "
                f"{content.get('process')} of {content.get('host')}); wait for it, or stop it: if it was killed, its "
                f"mark ends in {max(LEASE - age, 1):.0f} s"
            )


def _meet(one: Any, other: Mapping[str, tuple[int, int | None]]) -> bool:
    """Whether two parts overlap; if that cannot be determined, they are assumed to."""
    if not isinstance(one, dict):
        return True
    for dim, (start, stop) in other.items():
        try:
            begin, end = one.get(dim, (0, None))
            if (end is not None and end <= start) or (stop is not None and stop <= begin):
                return False
        except (TypeError, ValueError):
            return True
    return True


def _renew(objects: ObjectStore, name: str, mark: bytes, ended: threading.Event) -> None:
    """Rewrite the mark until the work is done, unless it has been removed."""
    while not ended.wait(RENEWED):
        with suppress(CfaggError):
            state = objects._state(name)
            if state is None:
                return
            objects.put(name, mark, match=state.tag)

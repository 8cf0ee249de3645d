"""Finding the accumulation that gives the same results as xarray for a DataArray, or the reason why there is none."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cfagg.accumulation.provenance import BOOLEANS, Decoding, Origin, UntracedError, trace
from cfagg.errors import (
    CfaggError,
    LimitError,
    NotAccumulatedError,
    OptionError,
    SelectionError,
    SourceError,
    StaleAccumulationWarning,
    UnsupportedError,
)

if TYPE_CHECKING:
    from xarray import DataArray

    from cfagg.accumulation.accumulated import Accumulated
    from cfagg.accumulation.group import Group

__all__ = ["UnusableError", "accumulated", "guarded"]


class UnusableError(Exception):
    """No accumulation can be used for an array; `found` if there is one that is stale or damaged."""

    def __init__(self, reason: str, *, found: bool = False) -> None:
        self.reason = reason
        self.found = found
        super().__init__(reason)


def accumulated(array: DataArray, trust_for: float = 0.0) -> Accumulated:
    """Return the accumulation of the stored array of which an array is an unmodified selection; values are not read."""
    from cfagg.accumulation.accumulated import Accumulated
    from cfagg.accumulation.labels import Labels, forward

    try:
        origin = trace(array.variable)
    except UntracedError as error:
        raise UnusableError(str(error)) from error
    if not all(isinstance(d, str) for d in array.dims):
        raise UnusableError("the names of its dimensions are not text")
    with guarded():
        group = _open(origin)
        reason = disagreement(group, origin)
        if reason:
            raise UnusableError(reason)
    named = array if array.name is not None else array.rename(group.variable)
    base = [forward(p) if isinstance(p, range) else p for p in origin.picked]
    return Accumulated(group, Labels.of_array(named, base), trust_for)


@contextmanager
def guarded() -> Iterator[None]:
    """Turn errors of an accumulation, for example if it is stale, into `UnusableError`."""
    try:
        yield
    except (OptionError, SelectionError):  # the request is wrong, not the accumulation
        raise
    except NotAccumulatedError as error:
        raise UnusableError(error.message, found=bool(error.problems)) from error
    except (SourceError, UnsupportedError, LimitError) as error:
        raise UnusableError(error.message) from error
    except CfaggError as error:
        reasons = [error.message, *map(str, error.problems[:3])]
        if len(error.problems) > 3:
            reasons.append(f"and {len(error.problems) - 3:,} more")
        raise UnusableError("; ".join(reasons), found=True) from error
    except OSError as error:
        raise UnusableError(f"the accumulation cannot be read: {error}", found=True) from error


def disagreement(group: Group, origin: Origin) -> str:
    """Return why statistics of an accumulation would differ from those of the values decoded by xarray, or ""."""
    from cfagg.accumulation.source import in_type

    decoding = origin.decoding
    if group.foreign is not None or group.extra is None:
        return f"the accumulation cannot be checked: {group.foreign}"
    if origin.shape != group.source.shape or origin.dtype != group.source.dtype.newbyteorder("="):
        return "the shape or type of the stored array has changed since it was opened"
    if origin.dtype.kind == "b":
        return BOOLEANS
    if (decoding.scale, decoding.offset) != (group.scale, group.offset) or _unsigned(decoding, origin) != (
        group.dtype.kind == "u"
    ):
        return "it is decoded differently from what was accumulated (by mask_and_scale=False, or attributes changed)"
    # Those values that elements of this type can equal.
    masked, left_out = (
        {f for f in fills if in_type(f, group.dtype) == f} for fills in (decoding.fills, group.mask.fills)
    )
    ranged = group.mask.valid_min is not None or group.mask.valid_max is not None
    if not masked <= left_out or (group.extra.excluded.missing and (masked != left_out or ranged)):
        return "the accumulation and xarray treat different values as missing (a valid range, or other fill values)"
    if group.extra.excluded.nonfinite:
        return f"the accumulation leaves out {group.extra.excluded.nonfinite:,} infinite values, which xarray counts"
    return ""


#: The accumulations that were opened most recently, by store, path of the array, and where links may lead.
_opened: dict[tuple[str, str, tuple[str, ...]], Group] = {}
_KEPT = 8


def _open(origin: Origin) -> Group:
    """Return the accumulation of an array, reusing one that was opened before if it has not been replaced."""
    from cfagg.accumulation.freshness import is_replaced

    # Every query checks that it belongs to the data; this only avoids reading its metadata again.
    key = (origin.store, origin.path, tuple(origin.allow))
    # At worst, two threads open the same group.
    known = _opened.pop(key, None)
    if known is None or known.source.shape != origin.shape or is_replaced(known):
        from cfagg.accumulation.opening import open_group

        with warnings.catch_warnings():
            # A group of another writer is never used here, as the reason states.
            warnings.simplefilter("ignore", StaleAccumulationWarning)
            known = open_group(origin.store, origin.path, allow=origin.allow)
    _opened[key] = known
    for oldest in list(_opened)[:-_KEPT]:
        _opened.pop(oldest, None)
    return known


def _unsigned(decoding: Decoding, origin: Origin) -> bool:
    return origin.dtype.kind == "u" if decoding.unsigned is None else decoding.unsigned

"""Converting to Zarr: into a local directory, or an object store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from cfagg.conversion.cluster import on_cluster
from cfagg.conversion.report import Report
from cfagg.conversion.request import Request
from cfagg.errors import TargetError
from cfagg.formats.values.pool import close_files
from cfagg.runtime.workplace import Workplace
from cfagg.storage.urls import Url, a_place, are_nested, is_url, refuse_url

if TYPE_CHECKING:
    from cfagg.conversion.dry_run import DryRun

__all__ = ["to_zarr"]


def to_zarr(request: Request) -> Report | DryRun:
    """Write the source as a Zarr store with the same values."""
    there = _elsewhere(request)
    with on_cluster(request, there) as served:
        return _written(served, there)


def _elsewhere(request: Request) -> Url | None:
    """Return the URL of the target, or `None` for a directory."""
    if not (is_url(os.fspath(request.target)) or request.target_options):
        return None
    there = a_place(
        request.target,
        request.target_options,
        name="target",
        expected="name a directory for the store",
        options_name="target_options",
    )
    return there if isinstance(there, Url) else None


def _written(request: Request, there: Url | None) -> Report | DryRun:
    if there is not None:
        return _into_objects(request, there)
    from cfagg.conversion.local_target import working, write_local

    path = request.source
    place = Workplace(request.target, overwrite=request.overwrite, resume=request.resume)
    if not isinstance(path, Url) and Path(os.path.realpath(path)).is_relative_to(place.target):
        raise TargetError(f"{path} lies within {place.target}, which would replace it; choose another target")
    if os.path.isdir(path) and place.target.is_relative_to(os.path.realpath(path)):  # noqa: PTH112
        request.open()  # raises an error for a directory that is not a store
        raise TargetError(f"{place.target} lies within the source {path}; choose another target")
    if request.dry_run:
        from cfagg.conversion.dry_run import try_out

        return try_out(request, str(place.target))
    # Before anything expensive: raise an error immediately if the target cannot be created.
    with working(place, resume=request.resume, overwrite=request.overwrite):
        try:
            source, access = request.open()
            return write_local(source, access, place, request)
        finally:
            # Callers may want to change the source next, which the libraries refuse while it is open.
            close_files()


def _into_objects(request: Request, target: Url) -> Report | DryRun:
    """Perform the conversion described in `convert`, into an object store."""
    if target.lower().startswith("http"):
        refuse_url(target, "written")
    if is_url(request.source) and are_nested(target, request.source):
        raise TargetError(
            f"{target} is the source, contains it or lies within it (source {request.source}), and would replace what "
            "is read; choose another target"
        )
    from cfagg.conversion.object_target import write_objects
    from cfagg.runtime.object_publishing import NewStore
    from cfagg.storage.objects import ObjectStore

    place = NewStore(
        ObjectStore(target, target.options.given, options_name="target_options"),
        overwrite=request.overwrite,
        resume=request.resume,
    )
    place.check()
    if request.dry_run:
        from cfagg.conversion.dry_run import try_out

        return try_out(request, place.objects.path)
    with request.opened() as (source, access):
        return write_objects(source, access, place, request)

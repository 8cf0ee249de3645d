"""Converting to netCDF-4: one file, written aside and renamed, or uploaded to an object store as a whole."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from cfagg.conversion.dry_run import DryRun, try_staged
from cfagg.conversion.netcdf_file import write_file
from cfagg.conversion.netcdf_plan import plan_netcdf
from cfagg.conversion.plan import Plan, dialects_of
from cfagg.conversion.report import NetcdfReport
from cfagg.conversion.request import BEGINS_ANEW, Request
from cfagg.errors import LimitError, OptionError, TargetError, UnsupportedError
from cfagg.runtime.files import check_file
from cfagg.runtime.object_files import check_object, exists, written_object
from cfagg.storage.urls import Url, a_place, are_nested, is_url
from cfagg.writing.aggregation_file import written
from cfagg.writing.replacing import refuse_to_break

__all__ = ["write_netcdf"]

#: Options that do not apply to a single file.
_SENSELESS = frozenset({"zarr_format", "shards", "region"})


def _check(path: Path, request: Request) -> None:
    """Raise an error if a file cannot or must not be written."""
    check_file(path)
    if not isinstance(request.source, Url):
        source = Path(os.path.realpath(request.source))
        if path == source or path.is_relative_to(source):
            raise TargetError(f"{path} is the source or within it; choose another target")
    if os.path.lexists(path) and not request.overwrite:
        raise exists(path)


def write_netcdf(request: Request) -> NetcdfReport | DryRun:
    """Write the source of a request to its target."""
    request.refuse(_SENSELESS, f"{os.fspath(request.target)} is one netCDF file, which is written as a whole")
    if request.client is not None:
        raise OptionError(
            f"{os.fspath(request.target)} is one netCDF file, which one process writes: leave out client=, as threads "
            "of this process read and pack, or convert to Zarr with client=, and that store to netCDF"
        )
    if "codec" in request.given and request.options.codec not in ("gzip", "none"):
        raise UnsupportedError(
            f"codec={request.options.codec!r}: not every reader of netCDF-4 supports it; choose 'gzip' or 'none'"
        )
    level = request.options.level
    if level is not None and not 0 <= level <= 9:
        raise LimitError(f"level={level} is outside 0 to 9, the levels of gzip (deflate), which netCDF-4 files have")
    target = a_place(
        request.target,
        request.target_options,
        name="target",
        expected="name a file",
        options_name="target_options",
    )
    if isinstance(target, Url):
        check_object(target, overwrite=request.overwrite)
        if is_url(request.source) and are_nested(target, request.source):
            raise TargetError(f"{target} is the source or within it; choose another target")
    path = Path(os.path.realpath(target))
    if not isinstance(target, Url):
        _check(path, request)
    with request.opened() as (source, access):
        refuse_to_break(target if isinstance(target, Url) else path, source)
        plan = plan_netcdf(source, access, request)
        if request.resume:
            plan = replace(plan, notes=(*plan.notes, BEGINS_ANEW))
        arrays = [v.array for v in plan.variables]
        name = str(target if isinstance(target, Url) else path)
        if request.dry_run:
            return try_staged(name, Plan({}, tuple(arrays), plan.notes, plan.losses), request)
        if isinstance(target, Url):
            with written_object(target, create=not request.overwrite) as aside:
                write_file(plan, aside, request)
                stored = aside.stat().st_size
        else:
            with written(path, create=not request.overwrite) as aside:
                write_file(plan, aside, request)
            stored = path.stat().st_size
    return NetcdfReport(
        target=name,
        variables=tuple(a.path for a in arrays),
        bytes=sum(a.nbytes for a in arrays),
        stored=stored,
        chunks=sum(a.grid.size for a in arrays),
        verified=request.verify,
        losses=plan.losses,
        notes=plan.notes,
        dialects=dialects_of(arrays),
    )

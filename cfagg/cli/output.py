"""Output of results: to stdout, or to a file that is written completely or not at all; and printing of reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from cfagg.cli.options import Arguments
from cfagg.errors import OptionError, TargetError, TargetExistsError
from cfagg.errors.losses import loss_lines
from cfagg.storage.urls import Url, a_place, is_url

if TYPE_CHECKING:
    from cfagg.errors import LossError

__all__ = [
    "aside",
    "check",
    "check_outputs",
    "in_colour",
    "list_losses",
    "note_picture",
    "opened",
    "print_report",
    "refused",
    "write_netcdf",
]


def check(target: str, *, overwrite: bool, of_data: bool = False) -> None:
    """Raise if an output file cannot or must not be written, before work begins; ``-`` is stdout.

    Only a file `of_data` may replace data: a report or a picture with their name is a slip.
    """
    if isinstance(there := _place(target), Url):
        from cfagg.runtime.object_files import check_object

        check_object(there, overwrite=overwrite)
        if overwrite and not of_data:
            from cfagg.writing.replacing import refuse_data

            refuse_data(there, "report or picture")
        return
    path = Path(target)
    if target == "-" or _is_device(path):
        return
    # Path would raise if a directory may not be read; writing reports that.
    if os.path.isdir(path):  # noqa: PTH112
        raise TargetError(f"{target} is a directory; give the name of a file")
    if os.path.exists(path) and not overwrite:  # noqa: PTH110
        raise _exists(target)
    if not os.path.isdir(path.absolute().parent):  # noqa: PTH112
        raise TargetError(f"{target} cannot be written: there is no directory {path.parent}")
    from cfagg.formats.opening import is_store

    if store := next((folder for folder in Path(os.path.realpath(path)).parents if is_store(folder)), None):
        raise TargetError(f"{target} would be within the Zarr store {store}; choose another place")
    if os.path.exists(path) and not of_data:  # noqa: PTH110
        from cfagg.writing.replacing import refuse_data

        refuse_data(target, "report or picture")


@contextmanager
def opened(target: str | None, *, overwrite: bool) -> Iterator[TextIO]:
    """Yield a stream for text: stdout for `None` and ``-``, else a file that appears once it is complete."""
    if target is None or target == "-":
        yield sys.stdout
        return
    with (
        aside(target, overwrite=overwrite) as name,
        Path(name).open("w", encoding="utf-8", errors="backslashreplace") as stream,
    ):
        yield stream


@contextmanager
def aside(target: str, *, overwrite: bool) -> Iterator[str]:
    """Yield the name of a new file with the same suffix that becomes the output if the block succeeds.

    Without `overwrite`, a file that appeared meanwhile is kept, and the result discarded.
    """
    if isinstance(there := _place(target), Url):
        from cfagg.runtime.object_files import written_object

        with written_object(there, create=not overwrite) as new:
            yield str(new)
        return
    # Imported here because most commands only write to stdout.
    from cfagg.runtime.files import written_aside
    from cfagg.runtime.publishing import refusals_of

    path = Path(target)
    with refusals_of(target):
        if _is_device(path):
            yield target
            return
        # Resolve links, so that the file is replaced and not the link.
        try:
            with written_aside(path.resolve(), create=not overwrite) as made:
                yield str(made)
        except FileExistsError as error:
            raise _exists(target) from error


def check_outputs(args: Arguments, *, of_data: bool = False) -> None:
    """Raise an error for a ``--plot`` or ``--output`` that cannot be written, before anything is read."""
    if None not in (args.plot, args.output) and os.path.realpath(args.plot) == os.path.realpath(args.output):
        raise OptionError(f"--plot and --output are the same file, {args.plot}; give one of them another name")
    if args.output is not None:
        check(args.output, overwrite=args.overwrite, of_data=of_data)
    if args.plot is not None:
        check(args.plot, overwrite=args.overwrite)
        from cfagg.display import picture

        picture.kind(args.plot)
        picture.check_library()


def in_colour() -> bool:
    """Return whether stdout is a terminal that shows colours, which the user wants (https://no-color.org)."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def note_picture(args: Arguments) -> None:
    """Print the path of the plotted picture on stderr."""
    if args.plot is not None and not args.quiet:
        from cfagg.display.escape import printable

        print(f"note: the picture is {printable(args.plot)}", file=sys.stderr)


def print_report(args: Arguments, form: str, facts: Mapping[str, Any], text: str, notes: Iterable[str] = ()) -> None:
    """Print a report as strict JSON, or as text with notes on stderr, or nothing if quiet."""
    if args.json:
        from cfagg.display.as_json import form_json

        print(form_json(form, facts))
    elif not args.quiet:
        from cfagg.display.escape import printable

        for note in notes:
            print(f"note: {printable(note)}", file=sys.stderr)
        for line in text.splitlines():
            print(printable(line))


def list_losses(losses: Iterable[Any], stream: TextIO | None = None) -> None:
    """Print what is lost, each reason once: on stderr what was accepted, even if quiet."""
    from cfagg.cli.messages import as_options
    from cfagg.display.escape import printable

    for line in loss_lines(losses):
        print(as_options(f"lost: {printable(line)}"), file=stream or sys.stderr)


def refused(args: Arguments, form: str, error: LossError) -> int:
    """Print everything that would be lost but must not be; return the exit status."""
    from cfagg.cli.messages import as_options
    from cfagg.display.escape import printable

    if args.json:
        from cfagg.display.as_json import form_json

        print(form_json(form, {"target": None, "losses": [loss._asdict() for loss in error.losses]}))
    else:
        list_losses(error.losses, sys.stdout)
    sys.stdout.flush()
    print(as_options(f"error: {printable(error.message)}"), file=sys.stderr)
    return 1


def write_netcdf(result: Any, path: str | os.PathLike[str]) -> None:
    """Write an xarray array or dataset to a new file."""
    import netCDF4
    from xarray.backends import NetCDF4DataStore

    from cfagg.runtime.netcdf_files import closing_written, created

    dataset = _as_dataset(result.compute())
    with closing_written(created(lambda: netCDF4.Dataset(path, "w"), path), path) as file:
        dataset.dump_to_store(NetCDF4DataStore(file))  # type: ignore[no-untyped-call]


def _as_dataset(result: Any) -> Any:
    """Return an array as the dataset that `to_netcdf` would make of it."""
    from xarray import Dataset
    from xarray.backends.api import DATAARRAY_NAME, DATAARRAY_VARIABLE

    if isinstance(result, Dataset):
        return result
    if result.name is not None and result.name not in result.coords and result.name not in result.dims:
        return result.to_dataset()
    dataset = result.to_dataset(name=DATAARRAY_VARIABLE)
    if result.name is not None:
        dataset.attrs[DATAARRAY_NAME] = result.name
    return dataset


def _place(target: str) -> str:
    """Return a URL that is written with the credentials of the environment, or a path unchanged."""
    return a_place(target, expected="name a file") if is_url(target) else target


def _exists(target: str) -> TargetExistsError:
    return TargetExistsError(f"{target} exists; pass --overwrite to replace it, or give another name")


def _is_device(path: Path) -> bool:
    """Return whether a path is a pipe or device, which is written to and never replaced."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)  # noqa: PTH110, PTH112, PTH113

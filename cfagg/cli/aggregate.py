"""``cfagg aggregate``: join many files into one dataset, by the aggregation rules of CF."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from cfagg.cli import output
from cfagg.cli.bars import step_bar
from cfagg.cli.options import (
    FILES_FROM,
    Arguments,
    Option,
    allow,
    flag,
    group,
    option,
    repeated,
    storage_option,
    workers,
)

if TYPE_CHECKING:
    from cfagg.aggregation.report import Report

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "RULES", "run"]

DESCRIPTION = "Join many files into one dataset by the aggregation rules of CF, or show how they would be joined."

EPILOG = """\
examples:
  cfagg aggregate 'tas_*.nc'                              which files would form one array, and why others would not
  cfagg aggregate data/ -o tas.nc
  cfagg aggregate data/new/ -o tas.nc --append
  cfagg aggregate data/ --explain --html report.html
  cfagg aggregate data/ --why tas_1999.nc tas_2000.nc
  find data -name '*.pp' | cfagg aggregate --files-from - -o all.nc --dask tcp://host:8786

FILES are netCDF, PP and fields files, Zarr stores, aggregation files, patterns, directories and URLs; those of a
directory are found at any depth. A file named twice counts once. Only metadata and coordinates are read.
Without -o nothing is written, and the explanation is printed.

exit status: 0 success, 1 refused what OUT cannot express, 2 wrong usage or a file that cannot be read, 130 interrupted
"""

#: Rules for joining variables, as options: the fields of `cfagg.cf.joining.Options`, repeated here so that the help
#: needs no import; a test compares them.  Kinds: a flag; one with an option for "no"; a number; a name; names; choices.
RULES: tuple[tuple[str, str, str], ...] = (
    ("relaxed_identities", "flag", "identify variables without a standard name by long name, else by name"),
    ("field_identity", "name", "identify data variables by this attribute instead of the standard name"),
    ("variable_identities", "flag", "identify everything by its name in the file"),
    ("allow_no_identity", "flag", "also join variables that have no identity"),
    ("relaxed_units", "flag", "also join variables without units"),
    ("rtol", "number", "relative tolerance for coordinates (default: a few units in the last place)"),
    ("atol", "number", "absolute tolerance for coordinates (default: 0)"),
    ("equal_all", "flag", "all attributes must be equal"),
    ("exist_all", "flag", "each attribute must be present in both or in neither"),
    ("equal", "names", "this attribute must be equal"),
    ("exist", "names", "this attribute must be present in both or in neither"),
    ("ignore", "names", "exempt this attribute from the four options above"),
    ("respect_valid", "flag", "valid ranges must be equal"),
    ("concatenate", "no", "join the values of attributes that differ, or leave these attributes out"),
    ("overlap", "no", "whether neighbouring cells may overlap"),
    ("contiguous", "flag", "do not allow gaps between neighbouring cells"),
    ("cells", "cells", "separate cells of different sizes: 'common' separates hourly, daily, monthly and yearly data"),
    ("axes", "names", "join along this axis only, by its standard name"),
    ("dimension", "names", "make this attribute the coordinate of a new axis"),
    ("field_ancillaries", "names", "make this attribute an ancillary variable"),
    ("interleave", "flag", "coordinates of one file may be between those of another"),
    (
        "on_overlap", "apart error equal first last",
        "if files have the same coordinates: keep them apart, fail, use one if equal, or one always (default: apart)",
    ),
)  # fmt: skip


def _cells(text: str) -> Any:
    """Return a value of ``--cells``: `True`, or an axis and its condition."""
    if text == "common":
        return True
    axis, colon, conditions = text.partition(":")
    pairs = [item.partition("=") for item in conditions.split(",")]
    if not colon or not axis.strip() or any(name.strip() not in ("cellsize", "spacing") for name, *_ in pairs):
        raise argparse.ArgumentTypeError(f"{text!r} is not 'common', and no condition such as T:cellsize=1 day")
    return axis.strip(), {name.strip(): value.strip() for name, _, value in pairs}


def _rule(name: str, kind: str, line: str) -> Option:
    """Return the option of a rule."""
    named = f"--{name.replace('_', '-')}"
    if kind in ("flag", "no"):
        action = "store_true" if kind == "flag" else argparse.BooleanOptionalAction
        return Option((named,), {"action": action, "default": None, "help": line})
    if kind == "names":
        return repeated(named, "NAME", line)
    if kind == "cells":
        return repeated(named, "COND", f"{line}; or AXIS:cellsize=1 day,spacing=1 day", type=_cells)
    if kind == "number":
        return option(named, "X", line, type=float)
    return option(named, "NAME" if kind == "name" else tuple(kind.split()), line)


OPTIONS = (
    option("files", "FILES", "files, stores, patterns, directories or URLs", nargs="*"),
    group(
        "what to read and write",
        FILES_FROM,
        option("--output", "OUT", "the aggregation file to write, or its URL"),
        option(
            "--to", "KIND",
            "its dialect: CF-1.13, CFA-0.6.2, CFA-0.4, NCA-0.1 (default: by the suffix of OUT; CF-1.13 for .nc)",
        ),
        flag("--append", "add FILES to those in OUT, which are not read again"),
        flag("--update", "with --append: also update files that changed or are gone"),
        option("--relative-to", "DIR", "directory to which references are relative (default: that of OUT)"),
        option(
            "--on-loss", ("error", "materialise", "drop"), "how to handle what OUT cannot express: refuse and list it, "
            "write such values beside OUT, or leave it out (default: error)", default="error",
        ),
        Option(
            ("--no-index",),
            {"dest": "index", "action": "store_false", "help": "write no index of byte ranges beside OUT"},
        ),
        flag("--skip-errors", "continue without files that cannot be read"),
        flag("--overwrite", "replace OUT, or the page of --html"),
        allow("also read files at or below PATH that aggregation files among FILES refer to"),
        storage_option(where="FILES"),
    ),
    group("when variables form one array", *(_rule(*rule) for rule in RULES)),
    group(
        "report and how to run",
        flag("--explain", "print how files were joined, and why others were not (without -o, the default)"),
        option("--why", "FILE", "explain why these two of FILES form one array or not", nargs=2),
        option("--html", "PAGE", "write the explanation as a self-contained page"),
        flag("--json", "print the explanation as strict JSON"),
        workers("processes", "one per processor for many files"),
        option("--dask", "ADDRESS", "a Dask scheduler whose workers read the headers"),
        flag("--quiet", "no progress bar, notes or summary"),
    ),
)  # fmt: skip


def run(args: Arguments) -> int:
    """Aggregate files; what was written, or the explanation, goes to stdout, notes to stderr."""
    from cfagg.arrays.index import SUFFIX
    from cfagg.cli.messages import as_options
    from cfagg.errors import LossError, OptionError

    if args.output is None:
        for option in ("append", "update", "to", "relative_to"):
            if getattr(args, option):
                raise OptionError(f"--{option.replace('_', '-')} concerns a written file: name it with -o")
    if args.html is not None:
        output.check(args.html, overwrite=args.overwrite)
        own = () if args.output is None else (args.output, f"{args.output}{SUFFIX}")
        if os.path.realpath(args.html) in map(os.path.realpath, own):
            raise OptionError(f"--html {args.html} would replace what -o {args.output} writes: give it another name")
    files = args.named(args.files)
    if not files and not args.update:
        raise OptionError("no files were given: cfagg aggregate FILES…, or --files-from LIST")
    try:
        with step_bar("scan", not args.quiet and sys.stderr.isatty()) as progress:
            report = _report(args, files, progress)
    except LossError as error:
        return output.refused(args, "aggregate", error)
    report.wording = as_options
    if args.html is not None:
        with output.opened(args.html, overwrite=args.overwrite) as stream:
            stream.write(report.to_html())
    _print(args, report)
    return 0


def _report(args: Arguments, files: list[str], progress: Any) -> Report:
    """Return the report on the files, after writing the output if requested."""
    from cfagg.aggregation.scanning import Scanner
    from cfagg.cf.joining import Options
    from cfagg.errors.arguments import paths

    rules = {name: value for name, *_ in RULES if (value := getattr(args, name)) is not None}
    if "cells" in rules:
        rules["cells"] = _all_cells(rules["cells"])
    scanner = Scanner(
        Options(**rules), args.options(), paths(args.allow), args.skip_errors, args.dask, args.workers, progress
    )
    if args.output is None:
        from cfagg.aggregation.report import explain

        return explain(files, scanner)
    from cfagg.aggregation.aggregating import output_of, put_together

    given = args.some("append", "update", "index", "to", "on_loss", "overwrite", "relative_to")
    return put_together(files, scanner, output_of(args.output, scanner, **given)).report


def _print(args: Arguments, report: Report) -> None:
    """Print the report, or only what was written."""
    from cfagg.display.escape import printable

    why = None if args.why is None else report.why(*args.why)
    output.list_losses(report.losses)
    if args.json:
        from cfagg.display.as_json import form_json

        facts = report.as_dict() if why is None else why.as_dict()
        print(form_json("aggregate", {"target": args.output, **facts}))
        return
    if not args.quiet:
        for note in report.notes:
            print(printable(report.wording(f"note: {note}")), file=sys.stderr)
    if args.output is not None and not args.quiet:
        print(printable(f"{args.output}: {report.summary}"))
        for file in report.unread:
            print(printable(f"not read: {file.problem}"), file=sys.stderr)
    if why is not None:
        print(why)
    elif args.explain or (args.output is None and args.html is None):
        print(report)


def _all_cells(given: list[Any]) -> Any:
    """Return all values of ``--cells`` in the form of `Options`."""
    if True in given:
        return True
    found: dict[str, list[Any]] = {}
    for axis, condition in given:
        found.setdefault(axis, []).append(condition)
    return found

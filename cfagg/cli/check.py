"""``cfagg check``: report violations of the CF conventions in datasets."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from cfagg.cli import output
from cfagg.cli.options import (
    SUBSTITUTE,
    WORD_SIZE,
    Arguments,
    Option,
    allow,
    either,
    flag,
    group,
    option,
    storage_option,
)

if TYPE_CHECKING:
    from cfagg.checking.config import Settings
    from cfagg.checking.parallel import Job
    from cfagg.checking.report import SourceReport

__all__ = ["DESCRIPTION", "EPILOG", "OPTIONS", "run"]

DESCRIPTION = "Check datasets against the version of the CF conventions that each claims."

EPILOG = """\
examples:
  cfagg check temperature.nc
  cfagg check *.nc --ignore DOC,NAM001
  cfagg check store.zarr --data --cf-version 1.8
  cfagg check aggregation.nc --references --allow /archive
  cfagg check model/ --format html -o report.html
  cfagg check old.nc --fix -o new.nc
  ncdump -h model.nc | cfagg check -
  cfagg explain UNI001

Sources are netCDF files, Zarr stores, aggregations, CDL text (.cdl) and URLs; any other
directory means all of these below it. Settings are read from the nearest cfagg.toml ([check]) or pyproject.toml
([tool.cfagg.check]).

exit status: 0 no errors (there may be warnings), 1 errors, 2 wrong usage, or something could not be checked
"""

#: Formats, repeated here so that the help needs no import; a test compares them.
FORMATS = ("text", "json", "sarif", "junit", "github", "html")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


OPTIONS = (
    option(
        "sources", "FILE", "a file, store, directory or URL; - reads one dataset from standard input", nargs="+"
    ),
    group(
        "what to check",
        option("--cf-version", "VERSION", "check against this version of CF, such as 1.8"),
        flag("--data", "also check values"),
        flag("--references", "open the files that aggregations refer to"),
        allow("also follow references to files at or below PATH"),
        storage_option(),
        SUBSTITUTE,
        WORD_SIZE,
        option(
            "--timeout", "SECONDS",
            "time limit of one request to a server; ten times as long for a dataset (default: 30)", type=_seconds,
        ),
        option(
            "--select", "CODES", "only rules whose codes start with one of these prefixes, such as UNI,TIM",
            action="append",
        ),
        option(
            "--ignore", "CODES", "skip rules whose codes start with one of these prefixes, such as DOC,NAM001",
            action="append",
        ),
        option(
            "--standard-names", "TABLE",
            "a table of standard names instead of the one in the package (also --area-types, --regions)",
        ),
        option("--area-types", "TABLE", argparse.SUPPRESS),
        option("--regions", "TABLE", argparse.SUPPRESS),
        either(
            option("--config", "FILE", "read settings and suppressions from this file"),
            flag("--no-config", "ignore all settings files"),
        ),
    ),
    group(
        "report",
        option("--format", FORMATS, "format of the report (default: text)", default="text"),
        Option(
            ("--json",),
            {"dest": "format", "action": "store_const", "const": "json", "help": "the same as --format json"},
        ),
        option("--output", "FILE", "write the report, or with --fix the dataset, to this file"),
        flag("--overwrite", "let --output replace an existing file"),
        flag("--statistics", "count the findings of each rule"),
        flag("--show-skipped", "list the rules that were not run, and why"),
        flag("--strict", "exit with 1 for warnings too"),
        flag("--quiet", "print nothing; the result is the exit status and --output"),
        option("--color", ("auto", "always", "never"), "colours (default: auto)", default="auto"),
    ),
    group(
        "fixing",
        flag("--fix", "print what would be changed; with --output, write the changed dataset"),
        flag("--unsafe-fixes", "also make changes that may alter the meaning"),
        flag("--in-place", "change the dataset itself"),
    ),
    Option(
        ("--workers", "--jobs"),
        {
            "dest": "jobs", "metavar": "N", "type": _jobs,
            "help": "processes (default: one per processor for many files)",
        },
    ),
)  # fmt: skip


def run(args: Arguments) -> int:
    """Check; the report goes to stdout or the output.  Exit status: 0 no errors, 1 errors, 2 not checked."""
    wrong = _wrong(args)
    if wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 2
    if args.fix:
        from cfagg.cli.check_fix import fix_sources

        return fix_sources(args, Chosen(args))
    if args.output is not None:
        output.check(args.output, overwrite=args.overwrite)
    if "numpy" not in sys.modules:
        # No rule does linear algebra; starting threads for it would take as long as the check of a small file.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        _load()
    return _check(args)


def _load() -> None:
    """Load the rules, without garbage collection now or later, as none of them becomes garbage."""
    gc.disable()
    try:
        from cfagg.checking.registry import registered

        registered()
    finally:
        gc.freeze()
        gc.enable()


def _wrong(args: Arguments) -> str | None:
    """Return what is wrong with the combination of options, or `None`."""
    if (args.in_place or args.unsafe_fixes) and not args.fix:
        return f"{'--in-place' if args.in_place else '--unsafe-fixes'} needs --fix"
    if args.fix and args.in_place and args.output is not None:
        return "--in-place and --output exclude each other"
    if args.sources.count("-") > 1:
        return "standard input (-) can be read only once"
    if args.fix and "-" in args.sources:
        return "--fix needs a file; standard input (-) can only be checked"
    if args.fix and args.output is not None and len(args.sources) > 1:
        return "--fix with --output takes one source; use --in-place for several"
    if args.fix and args.output == "-":
        return "--fix writes a dataset, which cannot go to standard output; name a file"
    if args.fix and args.format != "text":
        return "--fix prints changes as text; check again for a report in another format"
    if args.storage_options and not any("://" in source for source in args.sources):
        return "--storage-option is for URLs, and no source is one"
    if args.statistics and args.format not in ("text", "json"):
        return f"--statistics has the formats text and json, not {args.format}"
    return None


def _check(args: Arguments) -> int:
    from cfagg.checking.formats import Style, render
    from cfagg.checking.listing import expanded
    from cfagg.checking.parallel import check_many, processes
    from cfagg.runtime.progress import bars, task

    sources = list(expanded(args.sources))
    settings = Chosen(args)
    tally = Tally(settings)
    shown = not args.quiet and sys.stderr.isatty()
    # If results are printed on the terminal one by one, they show the progress themselves.
    counted = len(sources) > 1 and (args.quiet or args.output is not None or not sys.stdout.isatty())
    # Connections to servers cannot be shared with forked processes.
    local = not any("://" in source for source in sources)
    # Options that may be secret are not sent to other processes.
    jobs = 1 if args.storage_options and args.jobs is None else args.jobs
    patient = args.jobs is None
    with bars(shown=shown), task("sources", len(sources)) if counted else nullcontext(_nothing) as step:
        results = check_many(
            settings.jobs(sources), jobs=processes(jobs), fork=local, count=len(sources), patient=patient
        )
        reported = render(args.format, tally.counting(results, step), _style(args, Style))
        if args.quiet and args.output is None:
            for _ in reported:
                pass
        else:
            with output.opened(args.output, overwrite=args.overwrite) as stream:
                for part in reported:
                    stream.write(part)
    if not args.quiet:
        for line in tally.unused():
            print(f"note: {line}", file=sys.stderr)
    return tally.status


class Chosen:
    """The options for each source: those of the command line, and the settings nearest to it."""

    def __init__(self, args: Arguments) -> None:
        from cfagg.checking.config import Finder, Settings, load

        self._args = args
        self._none = Settings()
        self._fixed: Settings | None = load(args.config) if args.config else self._none if args.no_config else None
        self._finder = Finder()
        self._known: dict[int, Any] = {}
        self.strict: bool = args.strict
        #: The settings of the sources whose results are pending, in order.
        self.under_way: deque[Settings] = deque()

    def of(self, source: str) -> Settings:
        """Return the settings for one source."""
        return self._fixed if self._fixed is not None else self._finder.settings(source)

    def options(self, settings: Settings) -> Any:
        """Return the options for sources with these settings."""
        from cfagg.checking.checking import options_of, storage_of
        from cfagg.checking.options import codes

        if id(settings) not in self._known:
            args = self._args
            given: dict[str, Any] = {
                "cf_version": args.cf_version,
                "data": args.data,
                "references": args.references,
                "allow": tuple(args.allow),
                "select": codes(args.select or ()),
                "ignore": codes(args.ignore or ()),
                "timeout": args.timeout,
                "tables": _tables(args),
                "storage": storage_of(args.options()),
                "word_size": args.word_size,
                "substitutions": dict(args.substitutions),
            }
            # The settings are kept alive, so that their identity remains unique.
            self._known[id(settings)] = (settings, options_of(settings, **given))
        return self._known[id(settings)][1]

    def jobs(self, sources: Iterable[str]) -> Iterator[Job]:
        """Yield the sources to check, with their options."""
        from cfagg.checking.parallel import Job
        from cfagg.formats.metadata.standard_input import STANDARD_INPUT

        for source in sources:
            settings = self.of(source)
            self.under_way.append(settings)
            yield Job(
                STANDARD_INPUT if source == "-" else source,
                self.options(settings),
                settings.suppressions,
                self._args.format == "html",
            )


class Tally:
    """Counts results as they pass, for the exit status and for suppressions that hid nothing."""

    def __init__(self, settings: Chosen) -> None:
        self._settings = settings
        self._reached: dict[Any, bool] = {}
        self.status = 0

    def counting(self, results: Iterable[SourceReport], step: Any) -> Iterator[SourceReport]:
        """Pass results on."""
        for result in results:
            settings = self._settings.under_way.popleft()
            strict = settings.strict or self._settings.strict
            if result.failed:
                self.status = 2
            elif not result.ok or (strict and any(f.severity == "warning" for f in result.findings)):
                self.status = max(self.status, 1)
            for n in result.reached:
                key = (settings.path, settings.suppressions[n])
                self._reached[key] = self._reached.get(key, False) or n in result.suppressed
            step()
            yield result if result.failure is None else _in_words_of_the_command(result)

    def unused(self) -> Iterator[str]:
        """Yield a note for each unused suppression."""
        for (path, suppression), hit in self._reached.items():
            if not hit:
                yield f"{path}: the suppression {suppression} is unused and can be removed"


def _in_words_of_the_command(result: SourceReport) -> SourceReport:
    """Return the report of a source that could not be checked, with command options instead of Python keywords."""
    from dataclasses import replace

    from cfagg.cli.messages import as_options

    findings = tuple(replace(f, message=as_options(f.message)) for f in result.findings)
    return replace(result, failure=as_options(result.failure or ""), findings=findings)


def _nothing() -> None:
    """Do nothing, as progress is not shown."""


def _tables(args: Arguments) -> dict[str, Any]:
    from pathlib import Path

    given = {name: getattr(args, name) for name in ("standard_names", "area_types", "regions")}
    return {name: Path(path) for name, path in given.items() if path is not None}


def _style(args: Arguments, style: Any) -> Any:
    width = None
    terminal = args.output in (None, "-") and sys.stdout.isatty()
    colour = args.color == "always" or (args.color == "auto" and terminal and output.in_colour())
    if terminal:
        from shutil import get_terminal_size  # slow to load

        width = max(40, get_terminal_size().columns)
    return style(colour=colour, width=width, skipped=args.show_skipped, statistics=args.statistics, strict=args.strict)

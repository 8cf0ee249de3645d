"""`cfagg.check`: open what is to be checked, run the rules, report."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cfagg.arguments import a_path, names, paths
from cfagg.checking.engine import Result, run, version_of
from cfagg.checking.findings import Finding, NotApplicable
from cfagg.checking.lookup import table_versions
from cfagg.checking.opening import open_dataset
from cfagg.checking.options import Options
from cfagg.checking.partitions import partition_matrices
from cfagg.checking.report import Checked, Report, by_gravity
from cfagg.checking.rule import registered
from cfagg.checking.sources.standard_input import StandardInput
from cfagg.checking.suppressions import Suppression, suppressed
from cfagg.errors import CfaggError, OptionError, SourceError

__all__ = ["check", "check_cdl", "check_one", "check_or_tell", "could_not", "named", "options_of", "unused"]


def check(
    source: Any,
    *,
    cf_version: str | None = None,
    data: bool = False,
    references: bool = False,
    allow: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    select: str | Iterable[str] = (),
    ignore: str | Iterable[str] = (),
    timeout: float | None = None,
    tables: Mapping[str, str | os.PathLike[str]] | None = None,
    config: str | os.PathLike[str] | None = None,
    jobs: int = 1,
) -> Report:
    """Check datasets against the CF conventions.

    Parameters
    ----------
    source : path, URL, xarray.Dataset or other open dataset, or a list or tuple of them
        A netCDF file, a Zarr store, an aggregation, CDL text in a file ending in ``.cdl``, or an object in memory.
    cf_version : str, optional
        The version to check against, such as ``"1.8"`` or ``"1.14-draft"``; by default the newest that the dataset
        claims.
    data : bool
        Read values too, where a rule is about values.
    references : bool
        Open the files that aggregations refer to.
    allow : path or list of path
        Places that references may lead to, beside the dataset's own directory.
    select, ignore : str or list of str
        Codes of rules or their beginnings: run only these, or not these.  The longer beginning counts.
    timeout : float, optional
        Seconds that a server may take for one request (30), and ten times as many for all of a dataset.
    tables : mapping, optional
        Files that replace the packed tables: ``standard_names``, ``area_types``, ``regions``.
    config : path, optional
        A ``cfagg.toml`` or ``pyproject.toml`` with settings and suppressions; none is looked for.
    jobs : int
        Processes for a list of files.  With more than one, a script needs its ``if __name__ == "__main__"`` guard.

    Returns
    -------
    Report
        What was found, for each source.

    Raises
    ------
    SourceError
        If the only source cannot be opened; one of a list is reported instead.
    OptionError
        If an option is not understood.

    Examples
    --------
    >>> import cfagg
    >>> from cfagg.demo import sample
    >>> report = cfagg.check(sample("test1.nc"))
    >>> report.ok
    True
    """
    from cfagg.checking.config import Settings, load
    from cfagg.checking.parallel import check_many

    several = isinstance(source, list | tuple)
    sources = list(source) if several else [source]
    settings = (
        load(a_path(config, "config", expected="name a file with settings")) if config is not None else Settings()
    )
    options = options_of(
        settings,
        cf_version=cf_version,
        data=data,
        references=references,
        allow=paths(allow),
        select=names(select, "select"),
        ignore=names(ignore, "ignore"),
        timeout=timeout,
        tables={name: Path(path) for name, path in (tables or {}).items()},
    )
    if not several:
        return _report([check_one(source, options, settings.suppressions, drawn=True)], settings.suppressions)
    jobs_given = ((s, options, settings.suppressions, True) for s in sources)
    return _report(check_many(jobs_given, jobs=jobs, fork=False), settings.suppressions)


def options_of(settings: Any, **given: Any) -> Options:
    """Return the options of a check: those given, else those of the configuration.

    Raises
    ------
    OptionError
        If the version of CF is not known or no rule has a code that begins so.
    SourceError
        If a table cannot be read.
    """
    options = Options(**{**settings.options, **{name: value for name, value in given.items() if value}})
    if options.cf_version is not None:
        from cfagg.checking.versions import parse

        if not isinstance(options.cf_version, str):
            raise OptionError(f"cf_version={options.cf_version!r} is not text; write it in quotes, such as '1.8'")
        if parse(options.cf_version) is None:
            raise OptionError(f"{options.cf_version!r} is not a version of CF; known are 1.0 to 1.13 and 1.14-draft")
    if options.tables:
        try:
            table_versions(options.tables)
        except NotApplicable as error:
            raise SourceError(str(error)) from error
    for code in (*options.select, *options.ignore):
        if not any(known.startswith(code) for known in registered()):
            raise OptionError(f"no rule has a code that begins with {code!r}; `cfagg explain` lists them")
    return options


def check_one(
    source: Any, options: Options, suppressions: Sequence[Suppression] = (), *, drawn: bool = False
) -> Checked:
    """Check one source.

    Parameters
    ----------
    source : object
        As for `check`.
    options : Options
        What is asked for.
    suppressions : sequence of Suppression
        What is not to be reported.
    drawn : bool
        Draw the partition matrices of aggregations as well.

    Raises
    ------
    SourceError
        If it cannot be opened.
    """
    with open_dataset(source, options=options) as dataset:
        version = version_of(dataset, options)
        result = run(dataset, options)
        pictures = tuple(partition_matrices(dataset)) if drawn else ()
    ran = tuple(
        code
        for code, rule in registered().items()
        if rule.function and rule.holds_in(version) and options.chooses(code) and code not in result.skipped
    )
    kept, hidden, reached = suppressed(result.source, result.findings, ran, suppressions)
    return Checked(
        source=result.source,
        cf_version=str(version).removeprefix("CF-"),
        findings=tuple(by_gravity(kept)),
        skipped=result.skipped,
        ran=ran,
        dropped=dict(result.dropped),
        suppressed=hidden,
        reached=reached,
        pictures=pictures,
        tables=table_versions(options.tables),
    )


def check_or_tell(
    source: Any, options: Options, suppressions: Sequence[Suppression] = (), *, drawn: bool = False
) -> Checked:
    """Check one source; what cannot be opened or breaks the check becomes a finding ``INT003``."""
    try:
        return check_one(source, options, suppressions, drawn=drawn)
    except CfaggError as error:
        return could_not(source, error.message)
    except OSError as error:
        return could_not(source, error.strerror or str(error))
    except MemoryError:
        return could_not(source, "there is not enough memory for this check")
    except Exception as error:  # noqa: BLE001 - one damaged file of thousands must not end the check of the others
        return could_not(source, f"the check failed: {type(error).__name__}: {error}")


def could_not(source: Any, why: str) -> Checked:
    """Return the result for a source that could not be checked."""
    finding = Finding("INT003", "error", None, None, f"not checked: {why}")
    return Checked(named(source), None, (finding,), failure=why)


def named(source: Any) -> str:
    """Return what a source is called."""
    if isinstance(source, str | os.PathLike):
        return os.fsdecode(source)
    if isinstance(source, StandardInput):
        return str(source)
    return f"{type(source).__name__} object"


def check_cdl(text: str, **options: Any) -> Result:
    """Check a text in CDL."""
    from cfagg.checking.sources.cdl import parse_cdl

    with parse_cdl(text) as dataset:
        return run(dataset, Options(**options))


def _report(checked: Iterable[Checked], suppressions: Sequence[Suppression]) -> Report:
    sources = tuple(checked)
    return Report(sources, tuple(str(s) for s in unused(sources, suppressions)))


def unused(sources: Iterable[Checked], suppressions: Sequence[Suppression]) -> list[Suppression]:
    """Return the suppressions that were meant for a source and rule that were checked, and hid nothing."""
    reached: set[int] = set()
    hit: set[int] = set()
    for source in sources:
        reached.update(source.reached)
        hit.update(source.suppressed)
    return [suppressions[n] for n in sorted(reached - hit)]

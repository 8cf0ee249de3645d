"""`cfagg.check`: open the sources, run the rules and report the findings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfagg.checking.lookup import table_versions
from cfagg.checking.options import Options, codes
from cfagg.checking.parallel import check_many
from cfagg.checking.registry import registered
from cfagg.checking.report import Report, SourceReport
from cfagg.checking.single import check_one
from cfagg.checking.suppressions import Suppression
from cfagg.errors import OptionError, SourceError
from cfagg.errors.arguments import a_mapping, a_path, flags, names, paths, shared, shown, texts
from cfagg.findings.finding import NotApplicable
from cfagg.formats.values.locks import LIBRARY

if TYPE_CHECKING:
    from cfagg.storage.urls import Options as StorageOptions

__all__ = ["check", "options_of", "storage_of", "unused"]


@LIBRARY.keeping_files()
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
    storage_options: Mapping[str, Any] | None = None,
    word_size: int | None = None,
    substitutions: Mapping[str, str] | None = None,
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
        Also read values, for rules about values.
    references : bool
        Open the files that aggregations refer to.
    allow : path or list of path
        Places that references may lead to, in addition to the dataset's own directory.
    select, ignore : str or list of str
        Codes of rules or prefixes of codes, in a list or a text such as ``"UNI,TIM"``: run only these, or not these.
        The longest matching prefix decides.
    timeout : float, optional
        Seconds that a server may take for one request (default 30); a whole dataset may take ten times as long.
    tables : mapping, optional
        Files that replace the bundled tables: ``standard_names``, ``area_types``, ``regions``.
    config : path, optional
        A ``cfagg.toml`` or ``pyproject.toml`` with settings and suppressions; no other is searched for.
    jobs : int
        Processes for a list of files.  With more than one, a script needs its ``if __name__ == "__main__"`` guard.
    storage_options : mapping, optional
        Options of a URL, as for `cfagg.read`.
    word_size : {1, 4, 8}, optional
        Bytes per word in addresses of PP files, with `references`; by default detected in each file.
    substitutions : mapping of str to str, optional
        Replacements for ``${base}`` in file names, as for `cfagg.read`.

    Returns
    -------
    Report
        The findings of each source.

    Raises
    ------
    SourceError
        If the only source cannot be opened; for one of several sources, the failure is reported instead.
    OptionError
        If an option is invalid.

    Examples
    --------
    >>> import cfagg
    >>> from cfagg.demo import sample
    >>> report = cfagg.check(sample("test1.nc"))
    >>> report.ok
    True
    """
    from cfagg.checking.config import Settings, load

    flags(data=data, references=references)
    shared(
        timeout=timeout, jobs=jobs, storage_options=storage_options, word_size=word_size, substitutions=substitutions
    )
    _check_version(cf_version)
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
        select=codes(names(select, "select")),
        ignore=codes(names(ignore, "ignore")),
        timeout=timeout,
        tables={k: Path(a_path(path, "tables")) for k, path in a_mapping(tables, "tables", "paths by name").items()},
        storage=storage_of(storage_options),
        word_size=word_size,
        substitutions=texts(substitutions, "substitutions", "a mapping such as {'base': '/archive/'}"),
    )
    if not several:
        return _report([check_one(source, options, settings.suppressions, drawn=True)], settings.suppressions)
    jobs_given = ((s, options, settings.suppressions, True) for s in sources)
    return _report(check_many(jobs_given, jobs=jobs, fork=False), settings.suppressions)


def storage_of(given: Mapping[str, Any] | None) -> StorageOptions | None:
    """Return the options of URLs, or `None` if none are given."""
    if given is None:
        return None
    from cfagg.storage.urls import Options as StorageOptions  # the parser of URLs takes long to load

    return StorageOptions(given)


def _check_version(value: Any) -> None:
    """Refuse what is no version of CF."""
    from cfagg.findings.versions import parse

    if value is not None and not isinstance(value, str):
        raise OptionError(f"cf_version={shown(value)} is not text; write it in quotes, such as '1.8'")
    if value is not None and parse(value) is None:
        raise OptionError(f"{shown(value)} is not a version of CF; known are 1.0 to 1.13 and 1.14-draft")


def options_of(settings: Any, **given: Any) -> Options:
    """Return the options of a check, given ones before those of the configuration; `OptionError` if one is unknown."""
    options = Options(**{**settings.options, **{name: value for name, value in given.items() if value}})
    _check_version(options.cf_version)
    if options.word_size not in (None, 1, 4, 8):
        raise OptionError(f"word_size={options.word_size!r} is not known; choose 1, 4 or 8")
    if options.tables:
        try:
            table_versions(options.tables)
        except NotApplicable as error:
            raise SourceError(str(error)) from error
    hidden = [code for s in settings.suppressions for code in s.codes]
    for code in (*options.select, *options.ignore, *hidden):
        if not any(known.startswith(code) for known in registered()):
            where = "" if code in (*given.get("select", ()), *given.get("ignore", ())) else f"{settings.path}: "
            raise OptionError(f"{where}no rule has a code that begins with {code!r}; `cfagg explain` lists them")
    return options


def _report(checked: Iterable[SourceReport], suppressions: Sequence[Suppression]) -> Report:
    sources = tuple(checked)
    return Report(sources, tuple(str(s) for s in unused(sources, suppressions)))


def unused(sources: Iterable[SourceReport], suppressions: Sequence[Suppression]) -> list[Suppression]:
    """Return the suppressions that hid nothing although a source and rule that they apply to were checked."""
    reached: set[int] = set()
    hit: set[int] = set()
    for source in sources:
        reached.update(source.reached)
        hit.update(source.suppressed)
    return [suppressions[n] for n in sorted(reached - hit)]

"""File names, declared conventions, types and external variables: CF sections 2.1, 2.2 and 2.6."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfagg.cf.attribute_types import holds, said
from cfagg.checking.context import Context, variables
from cfagg.findings.finding import Edit, Hit, NotApplicable
from cfagg.findings.rule import rule
from cfagg.findings.versions import DRAFT, Version, claimed, parse
from cfagg.model.dataset import Variable

_DESCRIPTIONS = ("title", "history", "institution", "source", "references", "comment")


@rule("DOC001")
def file_name_ends_in_nc(c: Context) -> Iterator[Hit]:
    """The name of a netCDF file ends in ``.nc``."""
    if c.dataset.format != "netcdf" or c.dataset.path is None:
        raise NotApplicable("only netCDF files have a file name to be checked")
    if c.dataset.path.startswith(("/dev/", "/proc/")):
        raise NotApplicable("data from a pipe or another process have no file name")
    name = c.dataset.path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    if name.endswith(".nca") and any(v.dialect in ("NCA", "CFA") for v in c.dataset.variables):
        return  # as NCA and CFA want it
    if not name.endswith(".nc"):
        yield Hit(None, None, f"the file is named {name!r}; expected a name that ends in '.nc': rename it")


def _example(c: Context) -> str:
    return f'for example Conventions = "{c.version}"'


@rule("DOC010")
def conventions_names_cf(c: Context) -> Iterator[Hit]:
    """``Conventions`` is one string that lists conventions, including CF with its version."""
    yield from _conventions(c)


@rule("DOC011")
def conventions_names_the_version(c: Context) -> Iterator[Hit]:
    """The version of CF in ``Conventions`` is known, and is the one that is checked against."""
    if c.version < Version(1, 7):
        yield from _conventions(c)
    words = claimed(c.dataset.root.text("Conventions") or "")
    unknown = [w for w in words if parse(w) is None]
    for word in unknown:
        message = f"{word} is not a known version of CF (1.0 to 1.13, 1.14-draft); the rules of {c.version} were used"
        yield Hit(None, "Conventions", message)
    for word in words:
        if parse(word) == DRAFT and not word.endswith("-draft"):
            told = f"{word} is not published yet; the rules of a draft of it were used, which may change"
            yield Hit(None, "Conventions", told, "warning")
    known = list(dict.fromkeys(w for w in words if parse(w) is not None))
    if len(known) > 1:
        told = f"{', '.join(known)} are named, which leaves open which one applies: name one"
        yield Hit(None, "Conventions", f"{told}; the rules of {c.version} were used", "warning")
    elif known and not unknown and parse(known[0]) != c.version:
        yield Hit(None, "Conventions", f"{known[0]} is named; checked against {c.version} as requested", "info")


def _conventions(c: Context) -> Iterator[Hit]:
    """Yield the errors in a ``Conventions`` that names no version of CF."""
    attributes = c.dataset.root.attributes
    if "Conventions" not in attributes:
        other = next((n for n in attributes if n.lower() == "conventions"), None)
        if other is None:
            yield Hit(None, "Conventions", f"there is no attribute Conventions; add it, {_example(c)}")
        else:
            fix = (Edit(None, other, rename="Conventions"),)
            yield Hit(None, other, f"the attribute is named {other!r}; expected 'Conventions'", None, fix)
        return
    value = attributes["Conventions"]
    if not isinstance(value, str):
        if holds(value) not in ("bytes", "texts") or c.version < Version(1, 12):
            yield Hit(None, "Conventions", f"it is {said(value)}; expected one text, {_example(c)}")
        return
    if not claimed(value):
        short = value if len(value) <= 60 else f"{value[:57]}..."
        message = (
            f"{short!r} names no version of CF; expected a list separated by blanks or commas that has a word such "
            f"as '{c.version}'"
        )
        yield Hit(None, "Conventions", message)


@rule("DOC012")
def descriptions_are_text(c: Context) -> Iterator[Hit]:
    """``title``, ``history``, ``institution``, ``source``, ``references`` and ``comment`` are text."""
    allowed = {"text", "bytes"} if c.version < Version(1, 12) else {"text", "bytes", "texts"}
    for group in c.dataset.groups:
        for name in _DESCRIPTIONS:
            if name in group.attributes and holds(group.attributes[name]) not in allowed:
                yield Hit(group, name, f"it holds {said(group.attributes[name])}; expected text")
    # CF does not define title and history for variables.
    for v in c.dataset.variables:
        for name in _DESCRIPTIONS[2:]:
            if name in v.attributes and holds(v.attributes[name]) not in allowed:
                yield Hit(v, name, f"it holds {said(v.attributes[name])}; expected text")


@rule("DOC013", each=variables)
def title_and_history_are_of_the_dataset(_: Context, v: Variable) -> Iterator[Hit]:
    """``title`` and ``history`` describe datasets and groups, not variables."""
    for name in ("title", "history"):
        if name in v.attributes:
            told = "CF defines it for datasets and groups only; on a variable it is allowed and has no meaning in CF"
            yield Hit(v, name, told, "info")


@rule("DOC014")
def external_variables_lists_names(c: Context) -> Iterator[Hit]:
    """``external_variables`` is a blank-separated list of names."""
    attributes = c.dataset.root.attributes
    if "external_variables" not in attributes:
        return
    value = attributes["external_variables"]
    if not isinstance(value, str):
        if holds(value) not in ("bytes", "texts") or c.version < Version(1, 12):
            told = f"it holds {said(value)}; expected a text with names of variables"
            yield Hit(None, "external_variables", told)
        return
    bad = next((w for w in value.split() if re.search(r"[,;:/\"']", w)), None)
    if bad is not None:
        told = f"{bad!r} is not the name of a variable; expected names separated by blanks"
        yield Hit(None, "external_variables", told)


@rule("DOC015")
def external_variables_are_elsewhere(c: Context) -> Iterator[Hit]:
    """No variable that ``external_variables`` names is in the dataset."""
    if not c.external:
        return
    for v in c.dataset.variables:
        if v.name in c.external:
            told = f"variable {v.path!r} is named, but it is in this dataset: take its name out of the list"
            yield Hit(None, "external_variables", told)


@rule("TYP001", each=variables)
def types_are_known_to_cf(c: Context, v: Variable) -> Iterator[Hit]:
    """Variables have types that the version of CF allows."""
    if v.kind == "other":
        told = "the variable is of a type that CF does not name among those it accepts, such as compound or enum"
        # Section 2.2 is about data variables and the types of netCDF; other stores have other types.
        serious = v in c.roles.data and c.version >= Version(1, 9) and c.dataset.format in ("netcdf", "cdl", "xarray")
        yield Hit(v, None, f"{told}; expected text, integers or real numbers", None if serious else "warning")
    elif not _acceptable(v, c.version):
        name = "string" if v.kind == "string" else v.dtype.name
        since = "1.8" if v.kind == "string" else "1.9"
        told = f"the variable is of type {name}, which {c.version} does not name among those it accepts"
        yield Hit(v, None, f"{told}: follow CF-{since} or later, or change the type", "warning")


def _acceptable(v: Variable, version: Version) -> bool:
    if v.kind == "string":
        return version >= Version(1, 8)
    return version >= Version(1, 9) or v.kind != "integer" or (v.dtype.kind == "i" and v.dtype.itemsize <= 4)

"""Long names, standard names and their modifiers: CF sections 3.2 and 3.3, Appendix C."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.checking.context import Context
from cfagg.checking.lookup import (
    aliases,
    area_types,
    modifiers,
    named_version,
    near,
    regions,
    standard_names,
    standard_names_version,
)
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import DRAFT, Version
from cfagg.model.dataset import Variable

#: Names in the draft of the conventions that are not yet in the table.
_COMING = frozenset({"reduced_gaussian_index"})

#: Modifiers that separate standard names have replaced.
_REPLACED = ("status_flag", "number_of_observations")

#: Attributes that mark a coordinate as an index or identifier, which needs no description.
_INDEX = frozenset({"compress", "sample_dimension", "instance_dimension", "cf_role"})


@rule("NAM001")
def variables_are_described(c: Context) -> Iterator[Hit]:
    """Data variables and coordinates have a long name or a standard name."""
    described = c.roles.data | c.roles.coordinates
    for v in c.dataset.variables:
        if v not in described or not _INDEX.isdisjoint(v.attributes):
            continue
        if not any(_given(v.attributes.get(a)) for a in ("long_name", "standard_name")):
            what = "data variable" if v in c.roles.data else "coordinate"
            yield Hit(v, None, f"{what} without long_name and standard_name; add one that says what it is")


def _given(value: object) -> bool:
    return bool(value.strip()) if isinstance(value, str | bytes) else value is not None


@rule("NAM002", each="standard_name")
def standard_name_is_a_name_and_a_modifier(c: Context, v: Variable) -> Iterator[Hit | str]:
    """``standard_name`` is text of one or two words."""
    value = v.attributes["standard_name"]
    if isinstance(value, str):
        words = value.split()
        if not words:
            yield Hit(v, "standard_name", "standard_name is empty; name the quantity, or leave it out").mended()
        elif len(words) > 2:
            joined = "_".join(words).lower()
            hint = f"; {joined!r} would be a standard name" if joined in standard_names(c) else ""
            message = f"standard_name {value[:60]!r} has {len(words)} words; expected a name, a modifier at most{hint}"
            hit = Hit(v, "standard_name", message)
            yield hit.mended(joined) if hint else hit
    elif not isinstance(value, tuple | bytes) or c.version < Version(1, 12):
        yield ("standard_name is not one text; expected a name from the standard name table")


@rule("NAM003", each="standard_name")
def standard_name_is_in_the_table(c: Context, v: Variable) -> Iterator[Hit]:
    """The standard name is in the table; for an alias the current name is given."""
    words = v.words("standard_name")
    if not 1 <= len(words) <= 2:
        return
    name, rest = words[0], "".join(f" {w}" for w in words[1:])
    if name in standard_names(c):
        meant = aliases(c).get(name, ())
        if meant:
            message = f"standard_name {name!r} is an alias of {' or '.join(map(repr, meant))}"
            hit = Hit(v, "standard_name", message, "info")
            yield hit.mended(meant[0] + rest, safe=True) if len(meant) == 1 else hit
        return
    if c.version < DRAFT or name not in _COMING:
        yield _unlisted(c, v, name, rest)


def _unlisted(c: Context, v: Variable, name: str, rest: str) -> Hit:
    """Return the message about a name that is not in the table."""
    names = standard_names(c)
    version = standard_names_version(c)
    if rest and rest.rsplit(maxsplit=1)[-1] not in modifiers and not _may_be_newer(c, v):
        name, rest = name + rest, ""  # a name with a blank, which `modifier_is_listed` does not report
        joined = "_".join(name.lower().split())
        if joined in names:
            message = f"standard_name {name!r} holds a blank; {joined!r} is listed"
            return Hit(v, "standard_name", message).mended(joined)
    shown = name if len(name) <= 120 else name[:117] + "..."
    lower = name.lower()
    if lower in names:
        message = f"standard_name {shown!r} has capital letters; {lower!r} is listed"
        return Hit(v, "standard_name", message).mended(lower + rest, safe=True)
    if _may_be_newer(c, v):
        message = (
            f"standard_name {shown!r} is not in version {version} of the standard name table; the dataset names "
            f"version {named_version(v.group)}, which may have it: use that table to be sure"
        )
        return Hit(v, "standard_name", message, severity="warning")
    close = near(c, name, names)
    hint = f"; did you mean {close!r}?" if close else ""
    hit = Hit(
        v, "standard_name", f"standard_name {shown!r} is not in version {version} of the standard name table{hint}"
    )
    return hit.mended(close + rest) if close else hit


def _may_be_newer(c: Context, v: Variable) -> bool:
    """Whether the dataset names a newer table of standard names than the one available."""
    version, named = standard_names_version(c), named_version(v.group)
    return named is not None and version.isdigit() and named > int(version)


@rule("NAM004", each="standard_name")
def modifier_is_listed(c: Context, v: Variable) -> Iterator[Hit]:
    """A word after a standard name is a modifier of Appendix C."""
    words = v.words("standard_name")
    if len(words) == 2 and words[1] not in modifiers:
        if words[0] not in standard_names(c) and words[0] not in _COMING and not _may_be_newer(c, v):
            return  # the name is wrong as a whole
        joined = "_".join(words)
        known = joined in standard_names(c)
        hint = f"; {joined!r} would be a standard name" if known else f"; expected one of {', '.join(modifiers)}"
        hit = Hit(v, "standard_name", f"{words[1][:80]!r} is not a standard name modifier{hint}")
        yield hit.mended(joined) if known else hit


@rule("NAM005", each=lambda c: c.with_standard_name("region", "area_type"))
def regions_and_area_types_are_listed(c: Context, v: Variable) -> Iterator[Hit]:
    """Variables with the standard name ``region`` or ``area_type`` hold listed names, or flags for them."""
    words = v.words("standard_name")
    if words not in (["region"], ["area_type"]):
        return
    listed = regions(c) if words[0] == "region" else area_types(c)
    if v.is_text:
        if c.options.data and v.dialect is None and v.read is not None:
            found = sorted({str(t) for t in v.texts().ravel()} - listed - {""})
            if found:
                yield Hit(v, None, _unlisted_values(c, words[0], found, listed))
    elif "flag_meanings" in v.attributes:
        found = sorted(set(v.words("flag_meanings")) - listed)
        if found:
            yield Hit(v, "flag_meanings", _unlisted_values(c, words[0], found, listed))
    elif v.is_numeric:
        message = f"{words[0]} with numbers; expected names from the list, or flags whose flag_meanings are such names"
        yield Hit(v, None, message)


def _unlisted_values(c: Context, kind: str, found: list[str], listed: frozenset[str]) -> str:
    close = near(c, found[0], listed)
    hint = f"; did you mean {close!r}?" if close else ""
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{found[0][:80]!r}{more} is not in the list of {kind.replace('_', ' ')}s{hint}"


@rule("NAM006", each="standard_name")
def replaced_modifiers_are_not_used(_: Context, v: Variable) -> Iterator[Hit]:
    """The modifiers ``status_flag`` and ``number_of_observations`` have been replaced by standard names."""
    words = v.words("standard_name")
    if len(words) == 2 and words[1] in _REPLACED:
        message = f"the modifier {words[1]!r} is deprecated; use the standard name {words[1]!r} alone"
        yield Hit(v, "standard_name", message).mended(words[1])

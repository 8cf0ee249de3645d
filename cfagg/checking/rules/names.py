"""Names of variables, dimensions and attributes: CF sections 2.3, 2.4 and 2.5."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

from cfagg.checking.context import Context, groups, variables
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Group, Variable

#: What begins like this belongs to a library or a service, not to the writer of the dataset.
_SYSTEM = (
    "_FillValue", "_Unsigned", "_Encoding", "_Coordinate", "_Quantize", "_ChunkSize", "_Chunk", "_Storage", "_Deflate",
    "_Shuffle", "_Fletcher32", "_Endianness", "_NoFill", "_Filter", "_Codecs", "_Format", "_IsNetcdf4", "_NC",
    "_Netcdf4", "_ARRAY_DIMENSIONS", "_nczarr", "_NCZARR", "_SuperblockVersion", "_nc3_strict", "_edu_ucar", "DODS",
)  # fmt: skip

_GOOD = "expected a letter, followed by letters, digits and underscores"


def _is_good(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None


@lru_cache(maxsize=1024)
def _is_bad(name: str) -> bool:
    return not _is_good(name) and not name.startswith(_SYSTEM)


def _bad(names: Iterable[str]) -> Iterator[str]:
    return filter(_is_bad, names)


@rule("DOC004", each=groups)
def names_are_simple(c: Context, group: Group) -> Iterator[Hit]:
    """Names begin with a letter and consist of letters, digits and underscores."""
    last = group.path.rpartition("/")[2]
    if last and c.version >= Version(1, 8) and not _is_good(last):
        yield Hit(group, None, f"the group is named {last!r}; {_GOOD}")
    for name in _bad(group.dimensions):
        yield Hit(group, None, f"a dimension is named {name!r}; {_GOOD}")
    for name in _bad(group.attributes):
        yield Hit(group, name, f"the attribute is named {name!r}; {_GOOD}")
    for v in group.variables.values():
        if not _is_good(v.name):
            yield Hit(v, None, f"the variable is named {v.name!r}; {_GOOD}")
        for name in _bad(v.attributes):
            yield Hit(v, name, f"the attribute is named {name!r}; {_GOOD}")


@rule("DOC005", each=groups)
def variables_differ_by_more_than_case(_: Context, group: Group) -> Iterator[Hit]:
    """No two variables of a group have names that differ only by letter case."""
    seen: dict[str, str] = {}
    for v in group.variables.values():
        first = seen.setdefault(v.name.casefold(), v.name)
        if first != v.name:
            yield Hit(v, None, f"its name and that of {first!r} differ only in letter case: rename one")


@rule("DOC006", each=variables)
def dimensions_are_distinct(_: Context, v: Variable) -> Iterator[Hit]:
    """A variable does not repeat a dimension."""
    if len(set(v.dims)) == len(v.dims):
        return
    twice = min(d for d, count in Counter(v.dims).items() if count > 1)
    yield Hit(v, None, f"dimension {twice!r} occurs more than once in ({', '.join(v.dims)})")


@rule("DOC009", each=variables)
def text_is_not_named_like_its_dimension(_: Context, v: Variable) -> Iterator[Hit]:
    """A one-dimensional variable of text is not named like its dimension."""
    if not v.is_text or not v.dims or v.dims[0] != v.name:
        return
    told = "text cannot be a coordinate variable: rename the variable or the dimension"
    if len(v.dims) == 1:
        yield Hit(v, None, f"the {v.kind} variable has the name of its dimension; {told}")
    elif len(v.dims) == 2 and v.kind == "char":
        # By section 2.2 it is a one-dimensional array of strings, by its shape a variable of two dimensions.
        note = "it is one-dimensional if the length of the strings is not counted"
        yield Hit(v, None, f"the strings have the name of their dimension ({note}); {told}", "warning")

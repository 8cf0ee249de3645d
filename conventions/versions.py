"""The versions of the JSON that describes an aggregation: NCA 0.1 to 0.2.2, CFA 0.3 and 0.4.

All of them carry the same information under different keys; those of NCA 0.1 represent all versions here.  The examples
in the specifications mix the keys of several versions, so a later one also accepts the keys of the earlier ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal

__all__ = ["CFA_0_3", "CFA_0_4", "NCA_0_1", "VERSIONS", "Version"]

Names = dict[str, tuple[str, ...]]

_PLACE = re.compile(r"(Partitions\[[0-9]+\])(?:\.(\w+))?(?:\.(\w+))?(.*)", re.DOTALL).fullmatch


@dataclass(frozen=True)
class Version:
    """How the JSON of one version is interpreted.

    Parameters
    ----------
    name : str
        The dialect, such as ``"CFA-0.4"``.
    prefix : str
        Prefix of the attribute names.
    head, partition, data : mapping of str to tuple of str
        Keys of the top level, of a partition and of its sub-array: by their name in NCA 0.1, first the version's own
        name, then those of other versions that it accepts.
    inclusive : bool
        The end of a range in ``location`` is inclusive.
    brackets : str
        The brackets of a range in ``part``; square ones include its end.
    defaults : bool
        Shape and dimensions of the matrix, index and location may be left out if there is one partition.
    reverses : bool
        Partitions list the reversed dimensions, and no direction is known.
    """

    name: str
    prefix: Literal["nca", "cfa"]
    head: Names
    partition: Names
    data: Names
    inclusive: bool = True
    brackets: Literal["python", "round", "square"] = "round"
    defaults: bool = True
    reverses: bool = False
    aside: frozenset[str] = field(default_factory=frozenset)  # keys of sub-arrays that add no information

    @property
    def title(self) -> str:
        """The version's name in a sentence."""
        return self.name.replace("-", " ")

    def place(self, where: str) -> str:
        """Return a key path with the keys of the version.

        >>> CFA_0_4.place("Partitions[3].data.shape"), CFA_0_4.place("pshape")
        ('Partitions[3].subarray.shape', 'pmshape')
        """
        found = _PLACE(where)
        if found is None:
            return self.head.get(where, (where,))[0]
        index, first, second, rest = found.groups()
        path = index + (f".{self.partition.get(first, (first,))[0]}" if first else "")
        return (
            path + (f".{self.data.get(second, (second,))[0] if first == 'data' else second}" if second else "") + rest
        )

    def exclusive(self) -> Version:
        """Return the version as in the examples of its specification, whose locations have exclusive ends."""
        return replace(self, inclusive=False)


def _own(*keys: str) -> dict[str, tuple[str, ...]]:
    return {key: (key,) for key in keys}


NCA_0_1 = Version(
    "NCA-0.1",
    "nca",
    head=_own("directions", "pdimensions", "pshape"),
    partition=_own("index", "location", "dimensions", "format", "directions", "units", "calendar", "part", "data"),
    data=_own("shape", "file", "dtype", "ncvar", "file_offset", "lbpack", "scale_factor", "add_offset"),
    inclusive=False,
    brackets="python",
    defaults=False,
)

_NCA_0_2 = Version(
    "NCA-0.2",
    "nca",
    head=_own("directions", "base") | {"pdimensions": ("pmdimensions",), "pshape": ("pmshape",)},
    partition=_own("index", "location", "format", "part")
    | {
        "dimensions": ("pdimensions", "dimensions"),
        "directions": ("pdirections", "directions"),
        "units": ("units", "punits"),
        "calendar": ("calendar", "pcalendar"),
        "data": ("data", "sub_array", "subarray"),
    },
    data=NCA_0_1.data | {"shape": ("pshape", "shape"), "dtype": ("pdtype", "dtype")},
)
_NCA_0_2_1 = replace(
    _NCA_0_2, name="NCA-0.2.1", partition=_NCA_0_2.partition | {"data": ("sub_array", "subarray", "data")}
)
_NCA_0_2_2 = replace(
    _NCA_0_2, name="NCA-0.2.2", partition=_NCA_0_2.partition | {"data": ("subarray", "sub_array", "data")}
)
CFA_0_3 = replace(
    _NCA_0_2_2,
    name="CFA-0.3",
    prefix="cfa",
    partition=_NCA_0_2_2.partition | {"units": ("punits", "units"), "calendar": ("pcalendar", "calendar")},
    data=NCA_0_1.data
    | _own("format", "varid", "endian", "_FillValue")
    | {"shape": ("shape", "pshape"), "dtype": ("dtype", "pdtype")},
)
#: With the keys by which cf-python 3.0 to 3.13 refers to fields of UM files.
CFA_0_4 = replace(
    CFA_0_3,
    name="CFA-0.4",
    head={key: names for key, names in CFA_0_3.head.items() if key != "directions"},
    partition=CFA_0_3.partition | {"directions": ("reverse", "flip")},
    data=CFA_0_3.data | {"file": ("file", "filename"), "file_offset": ("file_offset", "header_offset")},
    brackets="square",
    reverses=True,
    aside=frozenset({"data_offset", "disk_length"}),
)

#: All versions, oldest first.
VERSIONS = {v.name: v for v in (NCA_0_1, _NCA_0_2, _NCA_0_2_1, _NCA_0_2_2, CFA_0_3, CFA_0_4)}

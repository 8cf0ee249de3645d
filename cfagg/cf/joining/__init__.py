"""Which variables or fields are parts of one array: the CF aggregation rules over columns, without files."""

from cfagg.cf.joining.boxes import Boxes, join
from cfagg.cf.joining.described import Companion, Coordinate, Described, Stated
from cfagg.cf.joining.members import Axis, Members, Part, codes
from cfagg.cf.joining.options import Options
from cfagg.cf.joining.reasons import Reason, why
from cfagg.cf.joining.variables import describe, describe_all, members_of

__all__ = [
    "Axis",
    "Boxes",
    "Companion",
    "Coordinate",
    "Described",
    "Members",
    "Options",
    "Part",
    "Reason",
    "Stated",
    "codes",
    "describe",
    "describe_all",
    "join",
    "members_of",
    "why",
]

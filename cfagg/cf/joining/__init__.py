"""Deciding which variables or fields are parts of one array: the CF aggregation rules on columns, without files."""

from cfagg.cf.joining.boxes import Boxes, join
from cfagg.cf.joining.cells import check_units
from cfagg.cf.joining.comparing import members_of
from cfagg.cf.joining.described import Companion, Coordinate, Described, Stated
from cfagg.cf.joining.describing import describe, describe_all, interned
from cfagg.cf.joining.members import Axis, Members, Part, Points, codes
from cfagg.cf.joining.options import Options
from cfagg.cf.joining.reasons import Reason, why
from cfagg.cf.joining.reform import in_one_calendar
from cfagg.cf.joining.samples import is_missing, with_samples, without_features
from cfagg.cf.joining.turning import places_of, turned
from cfagg.cf.joining.tying import tied
from cfagg.cf.joining.values import mean_the_same, with_units, with_units_of

__all__ = [
    "Axis",
    "Boxes",
    "Companion",
    "Coordinate",
    "Described",
    "Members",
    "Options",
    "Part",
    "Points",
    "Reason",
    "Stated",
    "check_units",
    "codes",
    "describe",
    "describe_all",
    "in_one_calendar",
    "interned",
    "is_missing",
    "join",
    "mean_the_same",
    "members_of",
    "places_of",
    "tied",
    "turned",
    "why",
    "with_samples",
    "with_units",
    "with_units_of",
    "without_features",
]

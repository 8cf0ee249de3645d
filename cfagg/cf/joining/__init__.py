"""Which variables or fields are parts of one array: the CF aggregation rules over columns, without files."""

from cfagg.cf.joining.boxes import Boxes, join
from cfagg.cf.joining.members import Axis, Members, codes
from cfagg.cf.joining.reasons import Reason, why

__all__ = ["Axis", "Boxes", "Members", "Reason", "codes", "join", "why"]

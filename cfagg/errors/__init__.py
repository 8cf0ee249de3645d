"""Every exception and warning that cfagg raises on purpose.

    CfaggError
    ├── ConventionError        (ValueError)           attributes or JSON that break their convention
    │   └── UnreadableAggregationError (ValueError)   an aggregation that cannot be read
    ├── ModelError             (ValueError)           a grid, layout or aggregation that cannot exist
    ├── OptionError            (ValueError)           an option that is not understood
    ├── LimitError             (ValueError)           a size, depth or count above a cap
    ├── SelectionError         (IndexError)           a selection that the array does not have
    ├── AlignmentError         (AttributeError)       places or dates of an array whose rows have changed
    ├── AccessError            (PermissionError)      a reference outside the allowed places
    ├── FragmentNotFoundError  (FileNotFoundError)    a partition's file or variable does not exist
    ├── FragmentReadError      (OSError)              a partition's file is damaged or not readable
    ├── FragmentMismatchError  (ValueError)           a sub-array of another shape, type or dimensions
    ├── ConformError           (ValueError)           values that the master array cannot represent
    │   ├── UnitsError                                units that do not convert
    │   └── CalendarError                             dates that do not exist in a calendar
    ├── LossError              (ValueError)           something a convention cannot express, if no loss is allowed
    ├── NotAccumulatedError    (LookupError)          an array without the requested accumulation
    ├── StaleError             (RuntimeError)         an accumulation of data that have changed since
    ├── SourceError            (OSError)              an input file that cannot be opened as requested
    │   └── SourceNotFoundError (FileNotFoundError)   an input that does not exist
    ├── TargetExistsError      (FileExistsError)      an output that would be replaced
    ├── TargetError            (OSError)              an output that cannot be written
    └── UnsupportedError       (NotImplementedError)  legal input that this version cannot honour
        └── MissingExtraError  (ModuleNotFoundError)  an optional library that is not installed

    CfaggWarning               (UserWarning)
    ├── LeftoverWarning                               a finished job whose work directory could not be removed
    ├── RepairWarning                                 text that was read after a repair
    ├── StaleAccumulationWarning                      an existing accumulation that could not be used
    ├── StaleIndexWarning                             an existing index that could not be used
    └── UnknownConventionWarning                      a variable left out, an aggregation not understood

The builtin class that each also derives from is in parentheses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cfagg.errors.losses import loss_lines
from cfagg.errors.redacting import redacted

__all__ = [
    "AccessError",
    "AlignmentError",
    "CalendarError",
    "CfaggError",
    "CfaggWarning",
    "ConformError",
    "ConventionError",
    "FragmentMismatchError",
    "FragmentNotFoundError",
    "FragmentReadError",
    "LeftoverWarning",
    "LimitError",
    "LossError",
    "MissingExtraError",
    "ModelError",
    "NotAccumulatedError",
    "OptionError",
    "Problem",
    "RepairWarning",
    "SelectionError",
    "SourceError",
    "SourceNotFoundError",
    "StaleAccumulationWarning",
    "StaleError",
    "StaleIndexWarning",
    "TargetError",
    "TargetExistsError",
    "UnitsError",
    "UnknownConventionWarning",
    "UnreadableAggregationError",
    "UnsupportedError",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem, and its location.

    Parameters
    ----------
    where : str
        The location: a key path such as ``Partitions[3].location[0]``.
    message : str
        What was found and what was expected.
    """

    where: str
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", redacted(self.message))

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class CfaggError(Exception):
    """Base of all errors of cfagg.

    Parameters
    ----------
    message : str
        One clear sentence: file, variable, partition, found, expected, remedy.  Users, passwords and queries, which may
        be secret, are removed from URLs in it.
    problems : iterable of Problem, optional
        Every single problem, if a validation found several.
    """

    #: Maximum number of problems that are printed; all of them are in ``problems``.
    shown = 20

    def __init__(self, message: str, problems: Iterable[Problem] = ()) -> None:
        self.message = redacted(message)
        self.problems = tuple(problems)
        super().__init__(self.message, self.problems)

    def __str__(self) -> str:
        lines = [self.message, *(f"  - {p}" for p in self.problems[: self.shown])]
        if len(self.problems) > self.shown:
            lines.append(f"  - and {len(self.problems) - self.shown} more")
        return "\n".join(lines)


class ConventionError(CfaggError, ValueError):
    """Attributes or JSON that violate their convention."""


class UnreadableAggregationError(ConventionError):
    """A variable that is an aggregation, or looks like one, but cannot be read.

    Parameters
    ----------
    message, problems
        As `CfaggError`.
    variables : iterable of str
        Paths of the variables.
    """

    def __init__(self, message: str, problems: Iterable[Problem] = (), variables: Iterable[str] = ()) -> None:
        super().__init__(message, problems)
        self.variables = tuple(variables)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.message, self.problems, self.variables)


class ModelError(CfaggError, ValueError):
    """A grid, layout, partition table or aggregation that cannot exist."""


class OptionError(CfaggError, ValueError):
    """An option with an invalid value."""


class LimitError(CfaggError, ValueError):
    """Input above a cap on size, depth or count."""


class SelectionError(CfaggError, IndexError):
    """A selection that is outside the array or is not understood."""


class AlignmentError(CfaggError, AttributeError):
    """Places, dates or names of an array whose rows or columns are no longer those of a sample."""


class AccessError(CfaggError, PermissionError):
    """A reference that leads outside the places that may be read."""


class FragmentNotFoundError(CfaggError, FileNotFoundError):
    """The file or the variable of a partition does not exist."""


class FragmentReadError(CfaggError, OSError):
    """The file of a partition is damaged or unreadable."""


class FragmentMismatchError(CfaggError, ValueError):
    """A sub-array whose shape, type or dimensions differ from those described."""


class ConformError(CfaggError, ValueError):
    """Values that cannot be represented in the master array."""


class UnitsError(ConformError):
    """Units that cannot be converted into each other."""


class CalendarError(ConformError):
    """A date that does not exist in a calendar, or an unknown calendar."""


class LossError(CfaggError, ValueError):
    """Something that the convention of a target cannot express, if no loss is allowed.

    Parameters
    ----------
    message : str
        As `CfaggError`.
    losses : iterable
        What would be lost, each with ``variable``, ``partition``, ``what``, ``found`` and ``why``.
    """

    def __init__(self, message: str, losses: Iterable[Any] = ()) -> None:
        self.losses = tuple(losses)
        super().__init__(message, [Problem("", line) for line in loss_lines(self.losses)])

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.message, self.losses)


class NotAccumulatedError(CfaggError, LookupError):
    """An array without an accumulation, or without the requested one."""


class StaleError(CfaggError, RuntimeError):
    """An accumulation whose source has changed since it was built."""


class SourceError(CfaggError, OSError):
    """An input that does not exist, or is not in a format that cfagg reads."""


class SourceNotFoundError(SourceError, FileNotFoundError):
    """An input file or directory that does not exist."""


class TargetExistsError(CfaggError, FileExistsError):
    """An output that exists and must not be replaced."""


class TargetError(CfaggError, OSError):
    """An output that cannot be written."""


class UnsupportedError(CfaggError, NotImplementedError):
    """Legal input that this version of cfagg cannot honour."""


class MissingExtraError(UnsupportedError, ModuleNotFoundError):
    """A library that belongs to an extra of cfagg but is not installed.

    Parameters
    ----------
    message, problems
        As `CfaggError`.
    name : str, optional
        Import name of the library.
    """

    def __init__(self, message: str, problems: Iterable[Problem] = (), name: str | None = None) -> None:
        super().__init__(message, problems)
        self.name = name

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.message, self.problems, self.name)


class CfaggWarning(UserWarning):
    """Base of all warnings of cfagg."""


class LeftoverWarning(CfaggWarning):
    """A job is done and its result complete, but one of its temporary files could not be removed."""


class RepairWarning(CfaggWarning):
    """Text that was invalid as written and was read after a repair."""


class StaleAccumulationWarning(CfaggWarning):
    """An existing accumulation that does not match the present data and was not used."""


class StaleIndexWarning(CfaggWarning):
    """An existing index that does not match the present state of its file and was not used."""


class UnknownConventionWarning(CfaggWarning):
    """A variable that looks like an aggregation of an unknown convention, and is left out."""

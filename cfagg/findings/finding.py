"""The results of a check.

*finding*: one violation of a rule, with the variable and the attribute that it is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cfagg.model.hook import html_of

if TYPE_CHECKING:
    from cfagg.model.dataset import Group, Variable

__all__ = ["Edit", "Finding", "Hit", "NotApplicable", "Severity"]

#: An error violates a requirement, a warning a recommendation; info is worth knowing.
Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one attribute that would fix a finding.

    Parameters
    ----------
    variable : str or None
        Path of the variable, or of a group with a slash at its end; `None` for the root group.
    attribute : str
        The attribute to change.
    value : object
        Its new value, or `None` to delete it.
    rename : str, optional
        A new name for the attribute, instead of a new value.
    safe : bool
        Whether the meaning of the dataset stays exactly the same.
    """

    variable: str | None
    attribute: str
    value: Any = None
    rename: str | None = None
    safe: bool = True


class Hit(NamedTuple):
    """The result that a rule yields for each violation; the engine converts it to a `Finding`.

    Parameters
    ----------
    where : Variable, Group or None
        The subject of the violation; `None` for the dataset.
    attribute : str or None
        The attribute that violates the rule.
    message : str
        What was found and what was expected, in one plain sentence.
    severity : str, optional
        The severity if it differs from that of the rule, for example if two readings of the text are possible.
    fix : tuple of Edit
        Changes that would fix it.
    """

    where: Variable | Group | None
    attribute: str | None
    message: str
    severity: Severity | None = None
    fix: tuple[Edit, ...] = ()

    def mended(self, value: Any = None, *, safe: bool = False) -> Hit:
        """Return the hit with a fix: a new value of its attribute, or `None` to delete the attribute."""
        path = None if self.where is None else self.where.path
        return self._replace(fix=(Edit(path, self.attribute or "", value, safe=safe),))


class NotApplicable(Exception):  # noqa: N818 - not an error: the rule says that it has nothing to look at
    """Raised by a rule that does not apply to this dataset, with the reason."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation of a rule.

    Parameters
    ----------
    code : str
        The rule.
    severity : {"error", "warning", "info"}
        How severe it is.
    variable : str or None
        Path of the variable or group, `None` for the dataset.
    attribute : str or None
        The attribute.
    message : str
        What was found and what was expected.
    fix : tuple of Edit
        Changes that would fix it.
    rows : tuple of int
        The first affected rows in a table of observations.
    count : int
        Number of affected rows; 0 if it is not about rows.

    Examples
    --------
    >>> print(Finding("FLG007", "error", "qc", "flag_masks", "flag_masks holds 0"))
    FLG007 error: qc:flag_masks: flag_masks holds 0
    """

    code: str
    severity: Severity
    variable: str | None
    attribute: str | None
    message: str
    #: Not compared, because it may contain arrays.
    fix: tuple[Edit, ...] = field(default=(), compare=False)
    rows: tuple[int, ...] = ()
    count: int = 0

    def as_dict(self) -> Mapping[str, str | None]:
        """Return the finding in JSON types."""
        return {
            "code": self.code,
            "severity": self.severity,
            "variable": self.variable,
            "attribute": self.attribute,
            "message": self.message,
        }

    @property
    def where(self) -> str:
        """Variable and attribute in one word, as in CDL; empty for the dataset as a whole."""
        if self.attribute is None:
            return self.variable or ""
        return f"{self.variable or ''}:{self.attribute}"

    @property
    def text(self) -> str:
        """The message with the affected rows.

        >>> Finding("OBS016", "error", "data", None, "longitude 360.0", rows=(7, 9), count=3).text
        'longitude 360.0 (3 rows: 7, 9, …)'
        """
        if not self.count:
            return self.message
        named = ", ".join(f"{r:,}" for r in self.rows) + (", …" if self.count > len(self.rows) else "")
        return f"{self.message} ({self.count:,} row{'s' if self.count > 1 else ''}: {named})"

    @property
    def is_failure(self) -> bool:
        """Whether it reports that the check itself failed, at least in part."""
        return self.severity == "error" and self.code.startswith("INT")

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{self.code} {self.severity}: {place}{self.text}"

    def __repr__(self) -> str:
        return f"<Finding {self}>"

    def _repr_html_(self) -> str | None:
        return html_of(self)

"""The rules of stores of observations by their codes, and what is found by them."""

from __future__ import annotations

from cfagg.findings.finding import Finding, Severity

__all__ = ["CODES", "finding_of"]

#: Rules by their codes: how severe a breach is, and what they ask for.
CODES: dict[str, tuple[Severity, str]] = {
    "OBS001": ("error", "the store can be opened"),
    "OBS002": ("error", "no chunk is absent or damaged"),
    "OBS011": ("error", "rows are in the order of all their columns"),
    "OBS012": ("error", "no row is there twice"),
    "OBS013": ("error", "dates are whole days since 1970"),
    "OBS014": ("error", "times are whole seconds of a day"),
    "OBS015": ("error", "latitudes are from -90 to 90"),
    "OBS016": ("error", "longitudes are at least 0 and below 360"),
    "OBS021": ("error", "indexes can be read and keep their own rules"),
    "OBS022": ("error", "indexes are those of the rows"),
    "OBS023": ("warning", "the index beside the store is of the rows as they are"),
    "OBS031": ("error", "statistics are those of the rows"),
    "OBS032": ("warning", "statistics are there"),
    "OBS041": ("warning", "attributes agree with the data"),
}


def finding_of(code: str, where: str, message: str, rows: tuple[int, ...] = (), count: int = 0) -> Finding:
    """Return a finding about an array or attribute of a store, such as ``data`` or ``statistics.mean``."""
    return Finding(code, CODES[code][0], where, None, message, rows=rows, count=count)

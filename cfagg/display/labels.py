"""Labels of coordinates as text."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["is_date", "label_text"]


def is_date(value: Any) -> bool:
    """Return whether a label is a date, of NumPy, the standard library or cftime.

    >>> is_date(np.datetime64("2000-01-01")), is_date(3.0)
    (True, False)
    """
    return isinstance(value, np.datetime64) or hasattr(value, "isoformat")


def label_text(value: Any) -> str:
    """Return a label as text: dates without the time of day at midnight, reals without trailing zeros.

    >>> label_text(np.datetime64("2000-01-01T00:00:00.000")), label_text(52.50)
    ('2000-01-01', '52.5')
    """
    if isinstance(value, float | np.floating):
        return f"{value:.7g}"
    if not is_date(value):
        return str(value)
    text = str(np.datetime_as_string(value, unit="s")) if isinstance(value, np.datetime64) else str(value.isoformat())
    return text.removesuffix("T00:00:00")

"""What tests of sources share."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pandas as pd

EVER = (datetime(1, 1, 1), datetime(9999, 12, 31))


def rows(source: Any, start: datetime = EVER[0], end: datetime = EVER[1]) -> pd.DataFrame:
    """Return what a source gives for a range of dates, as one frame in the order of its labels."""
    frames = list(source.read(start, end))
    assert frames, "a source gives at least one frame"
    return pd.concat(frames).sort_index(kind="stable")

"""Files with pictures: their kinds, and matplotlib figures that do not depend on the settings of the user."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cfagg.errors import UnsupportedError
from cfagg.errors.extras import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FORMATS", "PER_INCH", "check_library", "figure", "kind"]

#: Kinds of picture, by the suffix of the file.
FORMATS = ("png", "svg", "pdf")

#: Pixels of a drawing per inch; raster images have twice as many.
PER_INCH = 96


def kind(path: str | Path) -> str:
    """Return the kind of picture for the suffix of a file; raise `UnsupportedError` for other suffixes."""
    found = Path(path).suffix.lower().removeprefix(".")
    if found not in FORMATS:
        endings = f".{FORMATS[0]}, .{FORMATS[1]} or .{FORMATS[2]}"
        raise UnsupportedError(f"the picture {Path(path).name} cannot be drawn: its name must end in {endings}")
    return found


def check_library() -> None:
    """Raise `MissingExtraError` if matplotlib is not installed, without importing it."""
    require("pictures", "matplotlib")


@contextmanager
def figure(path: str | Path, width: float, height: float) -> Iterator[Figure]:
    """Yield an empty figure that is written when the block succeeds."""
    form = kind(path)
    check_library()
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Fixed settings, so that a user's style file or a notebook's state does not change the picture.
    with mpl.rc_context({**mpl.rcParamsDefault, "svg.hashsalt": "cfagg", "backend": mpl.rcParams["backend"]}):
        drawn = Figure(figsize=(width, height), facecolor="white")
        FigureCanvasAgg(drawn)
        yield drawn
        with warnings.catch_warnings():
            # A character that the font lacks shows as a box in the picture; a warning for each one is unnecessary.
            warnings.filterwarnings("ignore", message=r"Glyph \d+", category=UserWarning)
            drawn.savefig(str(path), format=form, dpi=2 * PER_INCH)

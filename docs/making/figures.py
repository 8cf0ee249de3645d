"""What the pictures of these pages share: a figure without a window, and its bytes."""

from __future__ import annotations

import io
from typing import Any

INK, MUTED = "#1f2328", "#656d76"


def figure(width: float, height: float) -> Any:
    """Return an empty figure of a size in inches, on a white ground in light and dark themes alike."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(canvas)
    return canvas


def svg(canvas: Any) -> bytes:
    """Return a figure as SVG; the same figure gives the same bytes."""
    import matplotlib as mpl

    out = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "cfagg"}):
        canvas.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def png(canvas: Any) -> bytes:
    """Return a figure as PNG."""
    out = io.BytesIO()
    canvas.savefig(out, format="png", dpi=130, metadata={"Software": None})
    return out.getvalue()

"""The pictures of the samples: values of each, where its partitions end, and the file that each partition is in."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

import cfagg
from cfagg.demo import sample
from making.figures import INK, MUTED, figure, png

#: Sample -> the variable, and the two dimensions that are drawn; of others the first index is taken.
AGGREGATIONS = {
    "temperature.nca": ("tas", "time", "lat"),
    "temperature-NCA-0.2.nc": ("tas", "time", "lat"),
    "temperature-NCA-0.2.1.nc": ("tas", "time", "lat"),
    "temperature-NCA-0.2.2.nc": ("tas", "time", "lat"),
    "temperature-CFA-0.3.nc": ("tas", "time", "lat"),
    "temperature-CFA-0.4.nc": ("tas", "time", "lat"),
    "temperature-CFA-0.5.nc": ("tas", "time", "lat"),
    "temperature-CFA-0.6.2.nc": ("tas", "time", "lat"),
    "temperature-CF-1.13.nc": ("tas", "time", "lat"),
    "figure1.nca": ("p", "y", "x"),
    "packed.nca": ("tas", "time", "lon"),
    "sst.nca": ("surface_temperature", "time", "longitude"),
}
FIELDS = {
    "pp/umfile.pp": ("surface_air_pressure", "latitude", "longitude"),
    "pp/air_temp.pp": ("air_temperature", "latitude", "longitude"),
    "pp/wgdos_73x96_le.pp": ("surface_temperature", "latitude", "longitude"),
    "pp/wind_speed_lake_victoria.pp": ("eastward_wind", "latitude", "longitude"),
    "pp/extra_data.pp": ("air_temperature", "time", "site"),
}

#: Behind the names of fragments.
_GROUND = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.2}


def name_of(path: str) -> str:
    """Return the name of the picture of a sample.

    >>> name_of("pp/umfile.pp")
    'sample-umfile.pp.png'
    """
    return f"sample-{Path(path).name}.png"


def draw(path: str) -> bytes:
    """Return the picture of a sample as PNG."""
    variable, down, across = (AGGREGATIONS | FIELDS)[path]
    canvas = figure(5.2, 2.6)
    axes = canvas.subplots()
    with warnings.catch_warnings(action="ignore"), cfagg.read(sample(path), decode_times=False) as ds:
        found = ds[variable].isel({d: 0 for d in ds[variable].dims if d not in (down, across)})
        values = found.transpose(down, across).values
        units = found.attrs.get("units", "1")
        # Partitions are of indices, maps of coordinates.
        edges = [np.arange(n + 1.0) for n in values.shape]
        if path in FIELDS and across != "site":
            edges = [_edges(found[d].values) for d in (down, across)]
    axes.set_facecolor("#d0d7de")
    image = axes.pcolormesh(edges[1], edges[0], values, cmap="viridis", rasterized=True)
    if path in AGGREGATIONS:
        title = _partitions(axes, path, variable, (down, across))
    else:
        title = f"{Path(path).name}: {found.attrs.get('um_stash_source')}"
    axes.set_title(title, fontsize=9, color=INK, loc="left")
    axes.set_xlabel(across, fontsize=8, color=MUTED)
    axes.set_ylabel(down, fontsize=8, color=MUTED)
    axes.tick_params(labelsize=8, colors=MUTED)
    axes.set_ylim(values.shape[0], 0) if path in AGGREGATIONS or across == "site" else None
    bar = canvas.colorbar(image, ax=axes)
    bar.ax.tick_params(labelsize=8, colors=MUTED)
    bar.set_label(f"{variable} [{units}]", fontsize=8, color=MUTED)
    return png(canvas)


def _partitions(axes: Any, path: str, variable: str, dims: tuple[str, str]) -> str:
    """Draw where partitions end, with the numbers of their files; return the title."""
    found = cfagg.open_aggregation(sample(path), variable)
    at = [found.dims.index(d) for d in dims]
    rows, columns = (found.grid.edges[k] for k in at)
    width = 0.8 if rows.size < 20 else 0.2
    axes.hlines(rows, columns[0], columns[-1], color="white", lw=width)
    axes.vlines(columns, rows[0], rows[-1], color="white", lw=width)
    numbers = np.arange(found.grid.size).reshape(found.grid.matrix_shape)
    first = numbers[tuple(slice(None) if k in at else 0 for k in range(len(found.dims)))]
    parts = found.partitions
    for (j, i), number in np.ndenumerate(first) if first.size <= 24 else ():
        x, y = (columns[i] + columns[i + 1]) / 2, (rows[j] + rows[j + 1]) / 2
        # Of several fragments in one file their names tell more.
        text = parts.address_name(number) if len(parts.files) == 1 else Path(parts.file_name(number)).name
        axes.text(x, y, text, ha="center", va="center", fontsize=8, color=INK, bbox=_GROUND)
    matrix = " × ".join(map(str, found.grid.matrix_shape))
    return f"{path}: {found.dialect}, partition matrix {matrix}"


def _edges(points: Any) -> Any:
    """Return the limits of cells around points.

    >>> _edges(np.array([1.0, 2.0, 4.0])).tolist()
    [0.5, 1.5, 3.0, 5.0]
    """
    middle = (points[1:] + points[:-1]) / 2
    return np.concatenate([[2 * points[0] - middle[0]], middle, [2 * points[-1] - middle[-1]]])


def pictures() -> dict[str, bytes]:
    """Return all pictures of samples by name."""
    return {name_of(path): draw(path) for path in (*AGGREGATIONS, *FIELDS)}

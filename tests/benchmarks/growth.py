"""The curve of time against length: maps of series that get ten times as long, printed and drawn."""

from __future__ import annotations

import pathlib

from tests.benchmarks import series
from tests.benchmarks.table import Row, clock

#: Name of a curve -> points of steps and CPU seconds.
Curves = dict[str, list[tuple[int, float]]]


def rows(case: series.Case, small: bool) -> list[Row]:
    """Return the times of maps against the length of the series, and draw them."""
    curves: Curves = {}
    table = []
    for codec, unaligned in (("none", 150.0), ("zstd", 30.0)):
        for times in case.growth:
            _add_point(curves, case, codec, times, small)
        label, times = ("uncompressed" if codec == "none" else codec), case.growth[-1]
        steps, peer = curves[f"xarray + dask, {label}"][-1]
        for name, bar in (("aligned", 500.0), ("unaligned", unaligned)):
            (short, first), *_, (_, last) = curves[f"cfagg, {label}, {name}"]
            job = f"map of {steps:,} steps, {name}, {label}: CPU"
            table += [
                Row(job, last, peer, "xarray + dask", peer / last, None if small else bar * times),
                Row(job, last, first, f"{short:,} steps", first / last, None),
            ]
    print(_table(curves))
    _draw(curves, series.HERE / ("growth-small.png" if small else "growth.png"))
    return table


def _add_point(curves: Curves, case: series.Case, codec: str, times: int, small: bool) -> None:
    """Measure a series of one length."""
    import cfagg

    store, label = case.series(codec, times), "uncompressed" if codec == "none" else codec
    steps = case.shape[0] * times
    _renewed(store)
    acc, data = cfagg.open_accumulated(store, series.VARIABLE), series.opened(store)
    for name, aligned in (("aligned", True), ("unaligned", False)):
        where = case.pick(aligned, False, times)
        (ours,) = clock(lambda where=where: acc.mean(("time",), isel=where), runs=2 if small else 9)
        curves.setdefault(f"cfagg, {label}, {name}", []).append((steps, ours))
    # The peer reads all but the same for both ranges; the longer a scan, the less it varies.
    runs = 1 if small or times > 2 else 3
    (peer,) = clock(lambda: data.isel(where).mean("time").compute(), runs=runs, warm=0)
    curves.setdefault(f"xarray + dask, {label}", []).append((steps, peer))


def _renewed(store: pathlib.Path) -> None:
    """Build the accumulation of a longer series where it is not there or the files were made anew."""
    import cfagg
    from cfagg.errors import CfaggError

    try:
        cfagg.open_accumulated(store, series.VARIABLE).mean(("time",), isel={"time": slice(0, 1)})
    except CfaggError:
        cfagg.accumulate(store, series.VARIABLE, series.COMBINATIONS, overwrite=True)


def _table(curves: Curves) -> str:
    """Return the curves as text, in CPU milliseconds."""
    lengths = sorted({steps for curve in curves.values() for steps, _ in curve})
    lines = [f"{'map mean, CPU ms, by steps':34}" + "".join(f"{steps:>12,}" for steps in lengths)]
    for name, curve in curves.items():
        seen = dict(curve)
        lines.append(f"{name:34}" + "".join(f"{seen[s] * 1e3:12.4g}" if s in seen else f"{'':12}" for s in lengths))
    return "\n".join(lines)


def _draw(curves: Curves, path: pathlib.Path) -> None:
    """Draw the curves into a picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for name, curve in curves.items():
        colour = "#117733" if "uncompressed" in name else "#6699cc"
        style = {"color": colour, "marker": "s" if "xarray" in name else "o", "label": name}
        style["linestyle"] = ":" if "xarray" in name else "--" if "unaligned" in name else "-"
        axes.loglog([steps for steps, _ in curve], [seconds * 1e3 for _, seconds in curve], **style)
    lengths = sorted({steps for curve in curves.values() for steps, _ in curve})
    axes.set_xticks(lengths, [f"{steps:,}" for steps in lengths])
    axes.minorticks_off()
    axes.set(xlabel="time steps", ylabel="CPU time [ms]", title="Mean over nearly all of the time, per grid point")
    axes.grid(visible=True, color="#dddddd")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)

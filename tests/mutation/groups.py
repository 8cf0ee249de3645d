"""The modules of each group, and the tests among which those are found that run a mutant's lines."""

from __future__ import annotations

from typing import NamedTuple


class Group(NamedTuple):
    """Modules that are mutated together."""

    modules: list[str]
    tests: list[str]
    #: Kernels run as plain Python: compiling each mutant takes longer than running it.
    plain: bool = False


def _in(folder: str, names: str) -> list[str]:
    return [f"cfagg/{folder}/{name}.py" for name in names.split()]


GROUPS: dict[str, Group] = {
    "kernels": Group(
        _in("kernels", "projection hyperslab odometer ranges rows unpacking"),
        [f"tests/kernels/test_{name}.py" for name in ("projection", "hyperslab", "odometer", "ranges", "rows")]
        + ["tests/formats/values/test_filters.py"],
        plain=True,
    ),
    # Tests that go through every day of millennia run too long for a plain kernel, and are left out.
    "calendars": Group(
        _in("kernels", "calendars"), ["tests/kernels/test_calendars.py", "tests/cf/test_dates.py"], plain=True
    ),
    "sums": Group(
        _in("kernels/cumulative", "sums plain mask layout") + _in("kernels", "exact_sums statistics"),
        [f"tests/kernels/test_{name}.py" for name in ("cumulative", "cumulative_numerics", "cumulative_running")]
        + ["tests/kernels/test_exact_sums.py", "tests/kernels/test_statistics.py"],
        plain=True,
    ),
    "gather": Group(
        [*_in("kernels", "gather loops"), *_in("cf", "conform gather gather_numpy gather_rule recipe")],
        [
            "tests/kernels/test_gather.py",
            "tests/kernels/test_loops.py",
            "tests/cf/test_gather.py",
            "tests/cf/test_conform.py",
        ],
        plain=True,
    ),
    "lookup": Group(
        _in("kernels", "lookup") + _in("observations/indexes", "bisect btree pages registry table"),
        ["tests/kernels/test_lookup.py", "tests/observations/indexes"],
    ),
    "cf": Group(
        _in("cf", "conform dates datetimes missing packing roles unpackable valid values units calendars axes"),
        ["tests/cf"],
    ),
    "links": Group(
        _in("formats/hdf5", "library links proof") + _in("formats/values", "kinds pool"),
        ["tests/formats/hdf5", "tests/formats/values/test_kinds.py", "tests/formats/values/test_pool.py"],
    ),
    "readers": Group(
        _in("formats/hdf5", "chunks library_variables plain proof_values variables")
        + _in("formats/values", "contiguous filters find netcdf storage"),
        ["tests/formats/hdf5", "tests/formats/values", "tests/storage", "tests/formats", "tests/api/test_reading.py"],
    ),
    "codecs": Group(_in("formats", "codecs"), ["tests/formats/test_codecs.py"]),
    "formats": Group(
        _in("formats/classic", "header variables")
        + _in(
            "formats/hdf5",
            "bytes head headers heaps indexes lookup3 messages objects old slots small sound space trees",
        ),
        ["tests/formats", "tests/formats/values", "tests/storage", "tests/formats/metadata"],
    ),
    "storage": Group(
        _in("storage", "files gate handles tree"),
        [f"tests/storage/test_{name}.py" for name in ("files", "gate", "handles", "tree")],
    ),
    "access": Group(
        ["cfagg/storage/access.py", "cfagg/arrays/fragments.py", "cfagg/arrays/fragment_files.py"],
        ["tests/storage/test_access.py", "tests/arrays/test_fragments.py", "tests/api/test_reading.py"],
    ),
    "zarrs": Group(
        [
            "cfagg/arrays/zarr_source.py",
            "cfagg/labelled/zarr.py",
            *_in("formats/zarr", "checked_store checksums chunks codecs documents fallback fields"),
            *_in("formats/zarr", "metadata numeric shards stamps zipped"),
        ],
        ["tests/formats/zarr", "tests/conversion/test_convert_zarr.py"],
    ),
    "accumulation": Group(
        _in("accumulation", "accumulating description freshness integrity outliers build_plan proof ranges source"),
        ["tests/accumulation"],
    ),
    "foreign": Group(
        _in("accumulation", "foreign foreign_check layout freshness"),
        [
            f"tests/accumulation/test_{name}.py"
            for name in ("foreign", "foreign_weights", "interoperation", "freshness", "group")
        ],
    ),
    "runtime": Group(
        _in("runtime", "files netcdf_files publishing staging targets"),
        ["tests/runtime", "tests/durability", "tests/conversion"],
    ),
    "layouts": Group(
        _in("observations", "layouts"), ["tests/observations/test_layouts.py", "tests/observations/test_encoding.py"]
    ),
}

"""The attribute examples of "Zarr-based Chunk-level Accumulation in Reduced Dimensions" 1.0, and makers of others."""

import itertools

from hypothesis import strategies as st

from cfagg.conventions.accumulation import Names
from cfagg.conventions.accumulation_model import Table
from cfagg.conventions.accumulation_record import (
    Checks,
    Excluded,
    Extra,
    LevelNames,
    MaskRecord,
    Packing,
    Related,
    Source,
    WeightsRecord,
    run_lengths,
)

#: Dimensions of the data in the text's example.
DIMS = ("latitude", "longitude", "time")

#: The group attribute: four combinations of three dimensions.
GROUP = {
    "_ACCUMULATION_GROUP": {
        "latitude": {
            "_DATA_WEIGHTED": "acc_lat",
            "_WEIGHTS": "acc_wt_lat",
            "longitude": {"_DATA_WEIGHTED": "acc_lat_lon", "_WEIGHTS": "acc_wt_lat_lon", "time": {}},
            "time": {},
        },
        "longitude": {"_DATA_WEIGHTED": "acc_lon", "_WEIGHTS": "acc_wt_lon", "time": {}},
        "time": {"_DATA_WEIGHTED": "acc_time", "_WEIGHTS": "acc_wt_time"},
    }
}

#: Array attributes: along time at every other chunk; along latitude at each and along longitude at every third.
TIME = {"_ARRAY_DIMENSIONS": ["latitude", "longitude", "time"], "_ACCUMULATION_STRIDE": [0, 0, 2]}
AREA = {"_ARRAY_DIMENSIONS": ["latitude", "longitude", "time"], "_ACCUMULATION_STRIDE": [1, 3, 0]}

NAMES = ("time", "lat", "lon", "a b", "Höhe", "x_y", "x", "y_z", "level")
TEXTS = st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3)
NUMBERS = st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats())


@st.composite
def groups(draw):
    """Dimensions and names of arrays for some of their combinations."""
    dims = tuple(draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4)))
    every = [key for n in range(1, len(dims) + 1) for key in itertools.combinations(dims, n)]
    used = draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    out = {}
    for i, key in enumerate(used):
        kinds = draw(st.lists(st.sampled_from(["unweighted", "weighted", "weights"]), min_size=1, unique=True))
        out[key] = Names(**{kind: f"{kind}_{i}" for kind in kinds})
    return dims, out


@st.composite
def extras(draw):
    """Attributes ``cfagg`` that may stand alone."""
    dims = tuple(draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4)))
    chunks, shape = [], []
    for _ in dims:
        lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
        chunks.append(draw(st.sampled_from([lengths[0], run_lengths(lengths)])))
        shape.append(sum(lengths) - draw(st.integers(0, lengths[-1] - 1)))
    dtype = draw(st.sampled_from(["int16", "uint8", "float32", "float64"]))
    some = (
        st.lists(st.sampled_from(dims), unique=True).map(lambda s: tuple(sorted(s, key=dims.index))) if dims else None
    )
    accumulated = draw(some) if dims else ()
    weights = draw(st.sampled_from([None, "area", "variable", "array"]))
    sums = draw(st.sampled_from(["float64", "double-double", *(["int64"] if "int" in dtype and not weights else [])]))
    number = itertools.count()
    levels = draw(st.lists(some.filter(len), unique=True, max_size=3)) if dims else []
    return Extra(
        source=Source("tas", dims, tuple(shape), tuple(chunks), dtype, Table(draw(TEXTS)), draw(st.integers(0, 2**40))),
        packing=draw(st.none() | st.builds(Packing, *[st.floats(allow_nan=False, allow_infinity=False)] * 2)),
        mask=MaskRecord(
            tuple(draw(st.lists(NUMBERS, max_size=3))), draw(st.none() | NUMBERS), None, draw(st.booleans())
        ),
        weights=weights and WeightsRecord(weights, draw(st.none() | st.text()), "weights", dims[:1]),
        sums=sums,
        stride=Table({d: draw(st.integers(1, 2**62)) for d in accumulated}),
        excluded=Excluded(draw(st.integers(0, 2**62)), draw(st.integers(0, 9))),
        low=Table({"acc": "acc_low"} if sums == "double-double" else {}),
        counts=Table({accumulated: "cnt"} if weights and accumulated else {}),
        statistics=tuple(
            LevelNames(key, level, Table({kind: f"{kind}_{next(number)}" for kind in ("count", "min")}))
            for key in levels
            for level in range(draw(st.integers(1, 3)))
        ),
        stamps="chunk_stamps",
        checks=Checks(
            draw(st.from_regex("[0-9a-f]{32}", fullmatch=True)),
            "checksums",
            Table(draw(st.dictionaries(st.text(), st.tuples(*[st.integers(0, 2**32)] * 3), max_size=3))),
            Table(draw(st.dictionaries(st.text(), st.lists(st.integers(0, 2**32)).map(tuple), max_size=2))),
        ),
        related=tuple(
            draw(
                st.lists(
                    st.builds(
                        Related,
                        st.text(),
                        st.sampled_from(["coordinate", "weights"]),
                        TEXTS.map(Table),
                        st.integers(0, 9),
                    ),
                    max_size=2,
                )
            )
        ),
        boundaries=Table({d: f"boundary_{d}" for d in accumulated}),
        created_by=draw(st.text()),
    )


def example() -> Extra:
    """Return a small record."""
    arrays = Table({kind: f"{kind}_time_lat" for kind in ("count", "min", "max")})
    return Extra(
        source=Source("tas", ("time", "lat"), (12, 7), (5, ((3, 2), (1, 1))), "int16", Table({"fill_value": "0"}), 9),
        packing=Packing(0.01, 273.15),
        mask=MaskRecord(fills=(-32767,)),
        sums="int64",
        stride=Table({"time": 2}),
        statistics=(LevelNames(("time", "lat"), 0, arrays),),
        stamps="chunk_stamps",
        checks=Checks(
            "0123456789abcdef" * 2,
            "checksums",
            Table({"acc_time": (0, 2, 2**32 - 1)}),
            Table({"checksums": (1, 2), "chunk_stamps": (3, 4)}),
        ),
        boundaries=Table({"time": "boundary_time"}),
        related=(Related("time", "coordinate", Table({"units": '"days since 2001-01-01"'}), 1),),
    )

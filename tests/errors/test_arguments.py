"""Arguments of the wrong type are refused by name, in one sentence, by every public function."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray
import zarr

import cfagg
from cfagg.accumulation.accumulated import Accumulated
from cfagg.errors import OptionError
from cfagg.errors.arguments import _SHARED, a_number, closest, some
from cfagg.observations.checking import check_store
from cfagg.observations.exchange import import_netcdf, import_parquet
from cfagg.observations.exchange.netcdf_read import place_of

FILE, STORE = cfagg.demo.sample("test1.nc"), "a.zarr"
RECIPE: dict[str, Any] = {
    "dates": {"start": 2020, "end": 2020, "frequency": "1d"},
    "input": {"csv": {"path": "a.csv"}},
    "output": {"layout": "tabular"},
}


@pytest.fixture(scope="module")
def acc(tmp_path_factory: pytest.TempPathFactory) -> Accumulated:
    """Return the accumulation of a small array; its store is the only one in the working directory."""
    folder = tmp_path_factory.mktemp("arguments")
    group = zarr.open_group(folder / STORE, mode="w", zarr_format=3)
    group.create_array("tas", data=np.ones((4, 3), "f4"), chunks=(2, 3), dimension_names=("time", "lat"))
    cfagg.accumulate(folder / STORE, "tas", dims=["time"])
    return cfagg.open_accumulated(folder / STORE, "tas")


@pytest.fixture(autouse=True)
def _there(acc: Accumulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(acc.group.store).parent)


#: What the message begins with, and the call.
CALLS: dict[str, tuple[str, Callable[[Any, Any], object]]] = {
    "read path": ("path", lambda x, _: cfagg.read(x)),
    "read variables": ("variables", lambda x, _: cfagg.read(FILE, variables=x)),
    "read group": ("group", lambda x, _: cfagg.read(FILE, group=x)),
    "read chunks": ("chunks", lambda x, _: cfagg.read(FILE, chunks=x)),
    "read allow": ("allow", lambda x, _: cfagg.read(cfagg.demo.sample("figure1.nca"), allow=x)),
    "open_aggregation path": ("path", lambda x, _: cfagg.open_aggregation(x, "p")),
    "open_aggregation variable": ("variable", lambda x, _: cfagg.open_aggregation(FILE, x)),
    "convert source": ("source", lambda x, _: cfagg.convert(x, "b.zarr")),
    "convert target": ("target", lambda x, _: cfagg.convert(FILE, x)),
    "convert variables": ("variables", lambda x, _: cfagg.convert(FILE, "b.zarr", variables=x)),
    "convert level": ("level", lambda x, _: cfagg.convert(FILE, "b.zarr", level=x)),
    "convert memory": ("memory", lambda x, _: cfagg.convert(FILE, "b.zarr", memory=x)),
    "convert workers": ("workers", lambda x, _: cfagg.convert(FILE, "b.zarr", workers=x)),
    "show path": ("path", lambda x, _: cfagg.show(x)),
    "show variables": ("variables", lambda x, _: cfagg.show(FILE, variables=x)),
    "check config": ("config", lambda x, _: cfagg.check(FILE, config=x)),
    "check select": ("select", lambda x, _: cfagg.check(FILE, select=x)),
    "check ignore": ("ignore", lambda x, _: cfagg.check(FILE, ignore=x)),
    "check allow": ("allow", lambda x, _: cfagg.check(FILE, allow=x)),
    "accumulate store": ("store", lambda x, _: cfagg.accumulate(x, "tas")),
    "accumulate variable": ("variable", lambda x, _: cfagg.accumulate(STORE, x)),
    "accumulate statistics": ("statistics", lambda x, _: cfagg.accumulate(STORE, "tas", statistics=x, overwrite=True)),
    "accumulate allow": ("allow", lambda x, _: cfagg.accumulate(STORE, "tas", allow=x)),
    "open_accumulated store": ("store", lambda x, _: cfagg.open_accumulated(x, "tas")),
    "open_accumulated variable": ("variable", lambda x, _: cfagg.open_accumulated(STORE, x)),
    "mean dim": ("dim", lambda x, acc: acc.mean(x)),
    "mean isel": ("isel", lambda x, acc: acc.mean("time", isel=x)),
    "mean sel": ("sel", lambda x, acc: acc.mean("time", sel=x)),
    "std ddof": ("ddof", lambda x, acc: acc.std("time", ddof=x)),
    "groupby key": ("'tas'", lambda x, acc: acc.groupby(x)),
    "open_observations path": ("path", lambda x, _: cfagg.open_observations(x)),
    "open_observations options": ("options", lambda x, _: cfagg.open_observations("o.zarr", options=x)),
    "create_observations recipe": ("recipe", lambda x, _: cfagg.create_observations(x, "o.zarr")),
    "create_observations path": ("path", lambda x, _: cfagg.create_observations(RECIPE, x)),
    "import_netcdf path": ("path", lambda x, _: import_netcdf(x, "o.zarr")),
    "import_parquet path": ("path", lambda x, _: import_parquet(x, "o.zarr")),
    "sample name": ("name", lambda x, _: cfagg.demo.sample(x)),
    "read workers": ("workers", lambda x, _: cfagg.read(FILE, workers=x)),
    "open_rows workers": ("workers", lambda x, _: cfagg.open_rows("rows.zarr", workers=x)),
    "write_rows target": ("target", lambda x, _: cfagg.write_rows(([1.0], [0, 1]), x)),
    "show rows": ("rows", lambda x, _: cfagg.show(FILE, rows=x)),
    "check tables": ("tables", lambda x, _: cfagg.check(FILE, tables=x)),
    "check tables of a path": ("tables", lambda x, _: cfagg.check(FILE, tables={"standard-names": x})),
    "climatology statistic": ("statistic", lambda x, acc: acc.climatology(statistic=x)),
    "convert progress": ("progress", lambda x, _: cfagg.convert(FILE, "b.zarr", progress=x)),
    "accumulate progress": ("progress", lambda x, _: cfagg.accumulate(STORE, "tas", overwrite=True, progress=x)),
    "aggregate progress": ("progress", lambda x, _: cfagg.aggregate(FILE, progress=x)),
    "index progress": ("progress", lambda x, _: cfagg.index(FILE, output="b.index", progress=x)),
    "create_observations progress": ("progress", lambda x, _: cfagg.create_observations(RECIPE, "o.zarr", progress=x)),
    "check_store path": ("path", lambda x, _: check_store(x)),
    "check_store progress": ("progress", lambda x, _: check_store("o.zarr", progress=x)),
    "read chunks of a dimension": ("chunks", lambda x, _: cfagg.read(FILE, chunks={"x": x})),
    "to_html path": ("path", lambda x, _: cfagg.check(FILE).to_html(x)),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_argument_of_the_wrong_type_is_named_with_its_type(call: str, acc: Accumulated) -> None:
    before = sorted(Path().iterdir())
    name, function = CALLS[call]
    with pytest.raises(cfagg.CfaggError, match=rf"^{name}: .*an object of type object"):
        function(object(), acc)
    assert sorted(Path().iterdir()) == before


def test_a_path_may_be_bytes_everywhere(acc: Accumulated) -> None:
    assert cfagg.open_accumulated(STORE.encode(), "tas").shape == (4, 3)
    assert str(cfagg.show(os.fsencode(FILE))) == str(cfagg.show(FILE))
    assert cfagg.read(FILE, allow=b"/nowhere").sizes == cfagg.read(FILE).sizes


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("allow", lambda: cfagg.open_rows("a.zarr", allow="a\0b")),
        ("allow", lambda: cfagg.read(FILE, allow=["a\0b"])),
        ("target", lambda: cfagg.convert(FILE, "a\0b")),
        ("path", lambda: cfagg.write(xarray.Dataset(), "a\0b")),
        ("path", lambda: cfagg.create_observations(RECIPE, "a\0b")),
        ("target", lambda: cfagg.write_rows(([1.0], [0, 1]), "a\0b")),
        ("old", lambda: cfagg.rebase(cfagg.demo.sample("sst.nca"), "a\0b", "c", output="d.nca")),
        ("relative_to", lambda: cfagg.aggregate(FILE, output="b.nc", relative_to="a\0b")),
    ],
)
def test_a_path_with_a_null_character_is_refused_by_name(name: str, function: Callable[[], object]) -> None:
    with pytest.raises(cfagg.errors.OptionError, match=rf"^{name}: 'a\\x00b' contains a null character"):
        function()


@pytest.mark.parametrize("url", ["s3://", "s3:///key", "http://"])
@pytest.mark.parametrize(
    "function",
    [
        cfagg.read,
        cfagg.check,
        lambda url: cfagg.open_accumulated(url, "tas"),
        lambda url: cfagg.rebase(url, "a", "b"),
        lambda url: cfagg.write_rows(([1.0], [0, 1]), url, overwrite=True),
    ],
    ids=["read", "check", "open_accumulated", "rebase", "write_rows"],
)
def test_a_url_without_server_or_bucket_is_named(function: Callable[[str], object], url: str) -> None:
    with pytest.raises(cfagg.errors.SourceError, match=f"^{url} names neither a server nor a bucket; expected a URL"):
        function(url)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, _: cfagg.read(FILE, variables=x),
        lambda x, _: cfagg.read(FILE, allow=x),
        lambda x, _: cfagg.accumulate(STORE, "tas", statistics=x, overwrite=True),
        lambda x, acc: acc.mean(x),
    ],
)
def test_an_array_without_dimensions_is_no_list_of_names(
    function: Callable[[Any, Any], object], acc: Accumulated
) -> None:
    with pytest.raises(cfagg.CfaggError, match="found an object of type ndarray; expected"):
        function(np.array(1), acc)


@pytest.mark.parametrize("chunks", [2**70, {"x": 1.5}, {"x": "many"}, {"x": slice(2)}, {"x": (2, 2.5)}])
def test_lengths_of_chunks_that_are_none_are_named(chunks: Any) -> None:
    with pytest.raises(cfagg.errors.OptionError, match=r"^chunks: found .* for '(x|all)'; expected a length"):
        cfagg.read(FILE, chunks=chunks)


@pytest.mark.parametrize("chunks", [0, 2**70, 1.5, float("nan"), "1e400", "many"])
def test_chunks_that_dask_cannot_make_are_named(chunks: Any) -> None:
    with pytest.raises(cfagg.errors.OptionError, match=r"^chunks=.* do not divide an array of shape \(4, 3\): "):
        cfagg.open_array(STORE, "tas").to_dask(chunks=chunks)


def test_a_format_of_reports_that_is_no_text_is_named() -> None:
    with pytest.raises(cfagg.errors.OptionError, match=r"^\[\] is not a format of reports"):
        cfagg.check(FILE).to_text([])


#: Every function of `import cfagg` with its flags.
FLAGS = [
    (function, name)
    for function in (getattr(cfagg, name) for name in cfagg.__all__)
    if inspect.isfunction(function)
    for name, given in inspect.signature(function).parameters.items()
    if given.annotation == "bool"
]


@pytest.mark.parametrize(("function", "flag"), FLAGS, ids=lambda one: getattr(one, "__name__", one))
def test_a_flag_that_is_neither_true_nor_false_is_named(function: Callable[..., object], flag: str) -> None:
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    given = {p.name: "time" for p in needed if p.kind is not p.VAR_KEYWORD}
    for value in (np.array([True, False]), [True], "no", None, 2):
        with pytest.raises(cfagg.errors.OptionError, match=f"^{flag}: found .*; expected True or False"):
            function(**given, **{flag: value})
    with pytest.raises(cfagg.errors.CfaggError, match=f"^(?!{flag}:)"):
        function(**given | {next(iter(given)): 3}, **{flag: np.True_})


@pytest.mark.parametrize(
    ("option", "call"),
    [
        ("missing", lambda x: cfagg.read(cfagg.demo.sample("temperature.nca"), missing=x)),
        ("to", lambda x: cfagg.convert(FILE, "b.zarr", to=x)),
        ("codec", lambda x: cfagg.convert(FILE, "b.zarr", codec=x)),
        ("on_loss", lambda x: cfagg.write(cfagg.read(FILE), "b.nca", on_loss=x)),
        ("on_loss", lambda x: cfagg.append(STORE, cfagg.read(FILE), "time", on_loss=x)),
        ("on_loss", lambda x: cfagg.index(FILE, to="kerchunk", output="b.json", on_loss=x)),
        ("precision", lambda x: cfagg.accumulate(STORE, "tas", dims="time", precision=x, overwrite=True)),
    ],
)
def test_an_array_is_none_of_the_choices_of_an_option(option: str, call: Callable[[Any], object]) -> None:
    with pytest.raises(cfagg.errors.CfaggError, match=f"^{option}=array"):
        call(np.array(["keep", "zstd"]))


def test_variables_to_convert_may_be_an_array_of_names(tmp_path: Path) -> None:
    (name, *_) = cfagg.read(FILE).data_vars
    assert name in cfagg.convert(FILE, tmp_path / "b.zarr", variables=np.array([name])).variables


@pytest.mark.parametrize("stride", [np.array([1, 2]), int])
def test_a_stride_that_is_no_integer_is_named(stride: Any) -> None:
    with pytest.raises(cfagg.errors.LimitError, match="is not an integer"):
        cfagg.accumulate(STORE, "tas", dims="time", stride=stride, overwrite=True)


def test_more_threads_than_any_machine_has_use_for_are_refused() -> None:
    with pytest.raises(cfagg.errors.LimitError, match=r"^workers=1180591620717411303424 is more than 4,096"):
        cfagg.convert(FILE, "b.zarr", workers=2**70)


@pytest.mark.parametrize("rows", [0, -1])
def test_at_least_one_line_is_shown(rows: int) -> None:
    with pytest.raises(cfagg.errors.OptionError, match=rf"^rows={rows} is less than 1"):
        cfagg.show(FILE, rows=rows)


def test_the_target_of_an_export_is_a_path(acc: Accumulated) -> None:
    refused = pytest.raises(
        cfagg.errors.OptionError, match=r"^path: an object of type int is not a path; name the file"
    )
    with refused:
        place_of(3, None)


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("air_temprature", ["time", "air_temperature"], "; did you mean air_temperature?"),
        ("TAS", ["lat", "tas"], "; did you mean tas?"),
        ("tas", ["Tas", "TAS"], "; did you mean Tas?"),
        ("température", ["temperature", "x"], "; did you mean temperature?"),
        ("pressure", ["time", "lat"], ""),
        ("", [], ""),
        ("x" * 10**6, ["x" * 10**6], ""),
    ],
)
def test_a_hint_names_what_is_spelled_most_like_a_name(word: str, known: list[str], hint: str) -> None:
    assert closest(word, known) == hint


def test_of_many_names_the_first_are_listed() -> None:
    assert some(["a", "b"]) == "a, b"
    assert some([]) == "none"
    assert some(str(k) for k in range(100)).endswith(", 18, 19 and 80 more")


@pytest.mark.parametrize(
    "ask",
    [
        lambda nc, _: cfagg.read(nc, variables="air_temprature"),
        lambda nc, _: cfagg.read([nc], variables=["air_temprature"]),
        lambda nc, _: cfagg.open_array(nc, "air_temprature"),
        lambda _, store: cfagg.open_array(store, "air_temprature"),
        lambda nc, _: cfagg.open_aggregation(nc, "air_temprature"),
        lambda nc, _: cfagg.convert(nc, nc.with_name("b.zarr"), variables=["air_temprature"]),
        lambda _, store: cfagg.accumulate(store, "air_temprature", dims="time", stride=2),
        lambda _, store: cfagg.open_accumulated(store, "air_temprature"),
    ],
    ids=["read", "read of files", "array", "Zarr array", "aggregation", "convert", "accumulate", "accumulated"],
)
def test_a_wrong_name_of_a_variable_is_refused_with_the_one_that_may_be_meant(
    tmp_path: Path, ask: Callable[[Path, Path], Any]
) -> None:
    names = [*(f"v{k:03}" for k in range(40)), "air_temperature"]
    xarray.Dataset({name: ("time", np.zeros(4)) for name in names}).to_netcdf(tmp_path / "a.nc")
    for name in names:
        zarr.create_array(tmp_path / "a.zarr", name=name, shape=4, dtype="f8", dimension_names=["time"])
    with pytest.raises(cfagg.CfaggError, match="'air_temprature'") as caught:
        ask(tmp_path / "a.nc", tmp_path / "a.zarr")
    assert str(caught.value).endswith("; did you mean air_temperature?")
    assert "and 21 more" in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_mapping_is_not_taken_for_its_keys(acc: Accumulated) -> None:
    with pytest.raises(cfagg.errors.SelectionError, match=r"^dim: found an object of type dict; expected a dimension"):
        acc.mean({"time": slice(0, 2)})
    with pytest.raises(cfagg.errors.OptionError, match=r"^variables: found an object of type dict; expected a name"):
        cfagg.read(FILE, variables={"tas": None})


def test_a_number_too_large_for_64_bits_is_refused_by_name() -> None:
    assert a_number(10**300, "memory", "a number") == 10**300
    with pytest.raises(OptionError, match="memory: found 1000"):
        a_number(10**400, "memory", "a number")


#: What is wrong for every option that is no text or number of its own.
NONSENSE = [
    np.array([1, 2]),
    np.array("x"),
    pd.DataFrame({"a": [1]}),
    pd.NA,
    xarray.DataArray([1, 2]),
    object(),
]

#: Options that several functions share, and calls that need no data to refuse them.
SHARED = [
    (function, name)
    for function in (getattr(cfagg, name) for name in cfagg.__all__)
    if inspect.isfunction(function)
    for name in inspect.signature(function).parameters
    if name in _SHARED and not (function.__name__ == "append" and name == "on_loss")
]


@pytest.mark.parametrize(("function", "option"), SHARED, ids=lambda one: getattr(one, "__name__", one))
def test_an_option_of_the_wrong_kind_is_named_also_where_it_is_not_used(function: Any, option: str) -> None:
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    texts = {"dim": "time", "variable": "tas"}
    given: dict[str, Any] = {p.name: texts.get(p.name, FILE) for p in needed if p.kind is not p.VAR_KEYWORD}
    if function.__name__ == "create_observations":
        given = {"recipe": RECIPE, "path": "o.zarr"}
    if function.__name__ == "open_rows" or function.__name__ == "open_observations":
        given = {"path": STORE}
    for value in NONSENSE:
        with pytest.raises(
            (OptionError, cfagg.errors.LimitError, cfagg.errors.UnsupportedError), match=f"^{option}\\b"
        ):
            function(**given, **{option: value})


@pytest.mark.parametrize(
    ("option", "call"),
    [
        ("start", lambda x: cfagg.open_observations("o.zarr", start=x)),
        ("frequency", lambda x: cfagg.open_observations("o.zarr", frequency=x)),
        ("window", lambda x: cfagg.open_observations("o.zarr", window=x)),
        ("datasets", cfagg.join_observations),
        ("dates", lambda x: cfagg.join_observations({}, dates=x)),
        ("to", lambda x: cfagg.aggregate(FILE, to=x)),
        ("to", lambda x: cfagg.index(FILE, to=x, output="b.json")),
        ("relative_to", lambda x: cfagg.aggregate(FILE, relative_to=x)),
        ("output", lambda x: cfagg.aggregate(FILE, output=x)),
        ("files", cfagg.aggregate),
        ("source", cfagg.check),
        ("cf_version", lambda x: cfagg.check(FILE, cf_version=x)),
        ("variables", lambda x: cfagg.convert(FILE, "b.nc", to="CF-1.13", variables=x)),
        ("allow", lambda x: cfagg.append(STORE, cfagg.read(FILE), "time", allow=x)),
        ("after", lambda x: cfagg.append(STORE, cfagg.read(FILE), "time", after=x)),
        ("allow", lambda x: cfagg.write(cfagg.read(FILE), "b.nc", allow=x)),
    ],
)
def test_what_is_no_value_of_an_option_is_refused_by_the_name_of_the_option(option: str, call: Any, acc: Any) -> None:
    if not Path("o.zarr").exists():
        Path("a.csv").write_text("date,latitude,longitude,t\n2020-01-01T00:00,1,2,3\n")
        cfagg.create_observations(RECIPE, "o.zarr")
    for value in (np.array("x"), np.array([1, 2]), pd.NA, object()):
        with pytest.raises(cfagg.CfaggError, match=f"^{option}\\b"):
            call(value)

"""NetCDF files become stores again, with every bit and every attribute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.demo import sample
from cfagg.errors import ConventionError, SourceError, TargetExistsError
from cfagg.observations.exchange import export_netcdf, import_netcdf
from cfagg.observations.exchange.netcdf_read import written_aside
from cfagg.observations.exchange.table import Table
from cfagg.observations.merging import sort_unique
from cfagg.observations.store import ObservationStore, open_store
from tests.effort import examples
from tests.observations.exchange.tables import ABOUT, ATTRIBUTES, WAYS, table


def there_and_back(wanted: Table, folder: Path, form: str = "point", **options: Any) -> ObservationStore:
    """Return the store of a table that went through a file."""
    store = import_netcdf(export_netcdf(wanted, folder / "a.nc", form, **options), folder / "a.zarr")
    return open_store(store)


def assert_same(store: ObservationStore, wanted: Table) -> None:
    """Assert that a store has the rows of a table, bit by bit."""
    np.testing.assert_array_equal(store.data.read(0, store.rows).view("u4"), wanted.read(0, wanted.rows).view("u4"))
    assert store.variables == wanted.variables


@pytest.mark.few(2)
@pytest.mark.parametrize(("form", "options"), WAYS, ids=lambda w: str(w))
def test_rows_variables_and_attributes_come_back(tmp_path: Path, form: str, options: dict[str, str]) -> None:
    wanted = table(move="feature" in options)
    store = there_and_back(wanted, tmp_path, form, **options)
    assert_same(store, wanted)
    assert store.attributes.variables_metadata == ATTRIBUTES
    assert {k: store.attributes.all[k] for k in ABOUT} == ABOUT


@settings(max_examples=examples(20))
@given(st.data())
def test_any_table_comes_back(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    wanted = table(
        data.draw(st.integers(0, 30)),
        stations=data.draw(st.integers(1, 5)),
        move=data.draw(st.booleans()),
        seed=data.draw(st.integers(0, 9)),
    )
    form, by = data.draw(st.sampled_from(["point", "indexed", "contiguous"])), data.draw(st.sampled_from([None, "id"]))
    folder = tmp_path_factory.mktemp("any")
    assert_same(there_and_back(wanted, folder, form, by=None if form == "point" else by), wanted)


@settings(max_examples=examples(20))
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=12),
        min_size=1,
        max_size=5,
        unique=True,
    )
)
def test_any_names_come_back(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    names = [n for n in names if not n.startswith("__") and n not in ("date", "latitude", "longitude")]
    rows = np.arange(4 + len(names), dtype="f4")[None] + np.float32(0.5) * np.array([0] * 4 + [1] * len(names), "f4")
    wanted = Table.of_rows("x", names, rows)
    assert_same(there_and_back(wanted, tmp_path_factory.mktemp("names")), wanted)


def test_profiles_come_back(tmp_path: Path) -> None:
    profiles = open_store(import_netcdf(sample("profiles.nc"), tmp_path / "profiles.zarr"))
    assert profiles.rows == 1887
    assert {"depth", "potential_temperature", "practical_salinity"} <= set(profiles.variables)
    file = tmp_path / "back.nc"
    export_netcdf(profiles, file, "contiguous", by="profile", feature="profile", vertical="depth")
    back = open_store(import_netcdf(file, tmp_path / "back.zarr"))
    np.testing.assert_array_equal(back.data.read(0, 1887).view("u4"), profiles.data.read(0, 1887).view("u4"))
    assert back.attributes.variables_metadata == profiles.attributes.variables_metadata
    with netCDF4.Dataset(file) as written, netCDF4.Dataset(sample("profiles.nc")) as original:
        assert len(written.dimensions["profile"]) == 48
        assert sorted(written["row_size"][:]) == sorted(original["row_size"][:])


def test_tracks_of_storms_come_back(tmp_path: Path) -> None:
    storms = open_store(import_netcdf(sample("storms.nc"), tmp_path / "storms.zarr"))
    assert storms.attributes.variables_metadata["wind"]["units"] == "knot"
    file = export_netcdf(storms, tmp_path / "back.nc", "contiguous", by="track")
    with netCDF4.Dataset(file) as written, netCDF4.Dataset(sample("storms.nc")) as original:
        assert written.featureType == "trajectory"
        assert sum(written["row_size"][:]) == storms.rows <= sum(original["row_size"][:])
    back = open_store(import_netcdf(file, tmp_path / "back.zarr", format="cfagg", date_indexing="btree"))
    np.testing.assert_array_equal(back.data.read(0, back.rows).view("u4"), storms.data.read(0, storms.rows).view("u4"))
    assert back.attributes.date_indexing == "btree"


def test_equal_rows_of_a_file_are_kept_once_and_any_order_is_sorted(tmp_path: Path) -> None:
    rows = table().read(0, 100)
    mixed = np.random.default_rng(0).permutation(np.concatenate([rows, rows[:9]]))
    store = there_and_back(Table.of_rows("x", table().variables, mixed), tmp_path)
    np.testing.assert_array_equal(store.data.read(0, store.rows), sort_unique(mixed.copy()))
    assert store.rows == 100


def test_a_changed_attribute_of_the_file_wins(tmp_path: Path) -> None:
    path = export_netcdf(table(9), tmp_path / "a.nc")
    with netCDF4.Dataset(path, "a") as file:
        file["t2m"].units = "kelvin"
        file["id"].standard_name = "platform_id"
    attributes = open_store(import_netcdf(path, tmp_path / "a.zarr")).attributes.variables_metadata
    assert attributes["t2m"]["units"] == "kelvin"
    assert attributes["id"] == {"standard_name": "platform_id"}


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ("nonsense", "is not JSON"),
        (json.dumps({"version": 1, "variables": ["t2m", "gone"]}), "gone: is not a variable of the file"),
        (json.dumps({"version": 1, "variables": ["t2m"], "added": {"t2m": 1}}), "added: expected lists by name"),
    ],
)
def test_what_a_file_says_of_a_store_is_checked(tmp_path: Path, kept: str, said: str) -> None:
    path = export_netcdf(table(9), tmp_path / "a.nc")
    with netCDF4.Dataset(path, "a") as file:
        file.cfagg = kept
    with pytest.raises(ConventionError, match=said):
        import_netcdf(path, tmp_path / "a.zarr")
    assert [p.name for p in tmp_path.iterdir()] == ["a.nc"]


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"b\.nc"):
        import_netcdf(tmp_path / "b.nc", tmp_path / "a.zarr")
    (tmp_path / "c.nc").write_bytes(b"nothing")
    with pytest.raises(SourceError, match=r"c\.nc"):
        import_netcdf(tmp_path / "c.nc", tmp_path / "a.zarr")


def test_a_store_is_replaced_only_on_request(tmp_path: Path) -> None:
    there_and_back(table(9), tmp_path)
    with pytest.raises(TargetExistsError):
        import_netcdf(tmp_path / "a.nc", tmp_path / "a.zarr")
    assert import_netcdf(tmp_path / "a.nc", tmp_path / "a.zarr", overwrite=True).name == "a.zarr"


def test_a_file_that_another_process_writes_meanwhile_is_not_replaced(tmp_path):
    target = tmp_path / "a.nc"

    def overtaken():
        with written_aside(target, overwrite=False) as made:
            made.write_bytes(b"ours")
            target.write_bytes(b"theirs")

    with pytest.raises(TargetExistsError, match=r"a\.nc exists"):
        overtaken()
    assert target.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [target]

"""How a store gets into its place."""

import pytest
import zarr

from cfagg.errors import TargetError, TargetExistsError
from cfagg.observations.writing import Place
from cfagg.runtime import publishing


def built(folder, name, **options):
    """Build a group with one attribute beside the target."""
    found = Place(folder / "a.zarr", **({"overwrite": True} | options))
    found.enter()
    found.start_anew()
    found.journal.write_text("{}")
    zarr.create_group(found.store, attributes={"name": name}, overwrite=True)
    return found


def name_of(folder):
    return zarr.open_group(folder / "a.zarr", mode="r").attrs["name"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_store_replaces_another_with_and_without_an_exchange(tmp_path, monkeypatch, exchanges):
    if not exchanges:
        monkeypatch.setattr(publishing, "exchange", lambda one, other: False)
    for name in ("one", "two"):
        built(tmp_path, name).publish("build")
        assert name_of(tmp_path) == name
        assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_where_directories_are_not_exchanged_a_kill_between_the_two_moves_is_undone(tmp_path, monkeypatch):
    built(tmp_path, "one").publish("build")
    place = built(tmp_path, "two")
    place.target.rename(place.root / "old")
    place.leave()
    Place(tmp_path / "a.zarr", overwrite=True).enter()
    assert name_of(tmp_path) == "one"


def test_a_store_is_finished_once_it_is_in_its_place(tmp_path, monkeypatch):
    place = built(tmp_path, "one")
    assert not place.finished
    monkeypatch.setattr(Place, "remove_after", Place.leave)
    place.publish("build")
    assert Place(tmp_path / "a.zarr", overwrite=False, resume=True).finished


def test_what_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / ".a.zarr.cfagg-partial").mkdir()
    (tmp_path / ".a.zarr.cfagg-partial" / "notes").touch()
    with pytest.raises(TargetError, match="not made by cfagg"):
        Place(tmp_path / "a.zarr", overwrite=True).enter()


def test_an_abandoned_build_leaves_nothing(tmp_path):
    built(tmp_path, "one").abandon()
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_appears_meanwhile_is_not_replaced(tmp_path):
    place = built(tmp_path, "two", overwrite=False)
    zarr.create_group(tmp_path / "a.zarr", attributes={"name": "one"})
    with pytest.raises(TargetExistsError):
        place.publish("build")
    assert name_of(tmp_path) == "one"


def test_another_process_that_builds_the_same_store_is_told_apart_by_the_name_of_the_store(tmp_path):
    first = built(tmp_path, "one")
    with pytest.raises(TargetError, match=f"^another process is building {tmp_path}/a.zarr; wait for it, or stop it$"):
        Place(tmp_path / "a.zarr", overwrite=True).enter()
    first.abandon()

"""Which index of a store is opened."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from cfagg.errors import SourceError, UnsupportedError
from cfagg.observations.indexes import index_kinds, open_index, registry, stored_kinds
from tests.observations.indexes.made import Store, even, write


class Everything:
    """An index of another package: every window has all rows."""

    kind = "everything"
    entries, first, last = 1, 0, 0

    def __init__(self, store) -> None:
        self.rows = store.rows

    def find(self, lo, hi):
        return 0, self.rows

    def find_many(self, lo, hi):
        raise NotImplementedError

    def entries_between(self, lo, hi):
        raise NotImplementedError

    def blocks(self):
        return iter(())

    def validate(self, full=False):
        return []


@pytest.fixture
def _others(monkeypatch):
    """Two more kinds, as an installed package would name them."""
    points = EntryPoints(
        EntryPoint(name, value, registry.GROUP)
        for name, value in (
            ("everything", f"{__name__}:Everything"),
            ("nothing", "builtins:str"),
            ("bisect", f"{__name__}:Everything"),
        )
    )
    monkeypatch.setattr(registry, "_others", lambda: points)


def test_pages_are_the_default(tmp_path):
    for kind in ("bisect", "btree", "pages"):
        store = write(tmp_path, kind, even(10))
        assert kind in (*stored_kinds(store), "pages")
    assert stored_kinds(store) == ("bisect", "btree")
    assert open_index(store).kind == "pages"
    assert [open_index(store, kind).kind for kind in ("bisect", "btree")] == ["bisect", "btree"]


@pytest.mark.parametrize("kind", ["bisect", "btree"])
def test_without_pages_it_is_what_the_store_has(tmp_path, kind):
    assert open_index(write(tmp_path, kind, even(10))).kind == kind


def test_a_store_without_an_index_says_how_to_make_one(tmp_path):
    with pytest.raises(SourceError, match="build_pages"):
        open_index(Store(tmp_path, 5))
    with pytest.raises(SourceError, match="has no array 'date_index_ranges'"):
        open_index(Store(tmp_path, 5), "bisect")


@pytest.mark.usefixtures("_others")
def test_another_package_adds_a_kind(tmp_path):
    assert index_kinds() == ("pages", "bisect", "btree", "everything", "nothing")
    assert open_index(Store(tmp_path, 5), "everything").find(3, 4) == (0, 5)


@pytest.mark.usefixtures("_others")
def test_own_kinds_are_not_replaced(tmp_path):
    assert open_index(write(tmp_path, "bisect", even(10)), "bisect").find(3, 4) == (3, 4)


@pytest.mark.usefixtures("_others")
def test_what_is_no_index_is_refused(tmp_path):
    with pytest.raises(SourceError, match="is not an Index but str"):
        open_index(Store(tmp_path, 5), "nothing")


def test_an_unknown_kind_names_the_known(tmp_path):
    with pytest.raises(UnsupportedError, match="'hashed'; there are pages, bisect, btree"):
        open_index(Store(tmp_path, 5), "hashed")

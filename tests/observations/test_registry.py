"""Sources and filters by name."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from cfagg.errors import ConventionError, UnsupportedError
from cfagg.observations import registry
from cfagg.observations.filters import Filter
from cfagg.observations.sources import Source


@pytest.mark.parametrize("name", ["arrow", "callable", "csv", "netcdf", "observations", "parquet"])
def test_every_source_of_cfagg_is_found_and_is_one(name: str) -> None:
    assert callable(registry.find("sources", name).read)  # type: ignore[union-attr]
    assert issubclass(registry.find("sources", name), Source)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [n for n in registry.known("filters") if n != "negate"])
def test_every_filter_of_cfagg_is_found_and_is_one(name: str) -> None:
    assert issubclass(registry.find("filters", name), Filter)  # type: ignore[arg-type]


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    points = {
        "cfagg.sources": [
            EntryPoint("my-archive", "collections:OrderedDict", "cfagg.sources"),
            EntryPoint("gone", "no_such_module:Source", "cfagg.sources"),
        ]
    }
    monkeypatch.setattr(registry, "entry_points", lambda group: points.get(group, []))
    return iter(())


def test_sources_of_other_packages_are_found_under_either_spelling(plugins: Any) -> None:
    from collections import OrderedDict

    assert registry.find("sources", "my_archive") is OrderedDict
    assert "my_archive" in registry.known("sources")


def test_a_package_that_does_not_load_is_named(plugins: Any) -> None:
    with pytest.raises(UnsupportedError, match="no_such_module:Source cannot be loaded"):
        registry.find("sources", "gone")


def test_a_class_without_the_method_is_refused() -> None:
    with pytest.raises(ConventionError, match="has no method read"):
        registry.register_source("nothing")(dict)


def test_a_name_that_nothing_has_gives_nothing_and_a_hint() -> None:
    assert registry.find("filters", "cilp") is None
    assert "did you mean clip?" in registry.not_known("filters", "cilp")

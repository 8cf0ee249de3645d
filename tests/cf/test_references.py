"""Names of variables in attributes."""

from __future__ import annotations

import pytest

from cfagg.cf.references import names_in


@pytest.mark.parametrize(
    ("attribute", "text", "names"),
    [
        ("coordinates", "lat lon", ["lat", "lon"]),
        ("cell_measures", "area: cell_area", ["cell_area"]),
        ("formula_terms", "a: one b: two", ["one", "two"]),
        ("grid_mapping", "crs", ["crs"]),
        ("grid_mapping", "crs: x y other: lat", ["crs", "x", "y", "other", "lat"]),
        ("coordinate_interpolation", "lat: lon: way", ["lat", "lon", "way"]),
        # What follows the index variable are dimensions.
        ("tie_point_mapping", "x: index tp_x sub_x y: jndex tp_y", ["index", "jndex"]),
        ("formula_terms", "no keys", []),
        ("long_name", "lat", []),
    ],
)
def test_names_of_variables_are_found_by_the_grammar_of_each_attribute(
    attribute: str, text: str, names: list[str]
) -> None:
    assert [name for _, _, name in names_in({attribute: text})] == names


def test_attributes_that_are_no_text_name_nothing() -> None:
    assert list(names_in({"bounds": 1, "coordinates": ("a", "b")})) == []

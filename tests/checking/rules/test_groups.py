"""Groups and references across them: section 2.7."""

from __future__ import annotations

from pathlib import Path

import pytest
import zarr

from cfagg.checking.opening import open_dataset
from tests.checking.rules.asking import codes, findings, told

TREE = """
netcdf tree {{
dimensions: x = 2 ;
variables:
  double x(x) ; x:long_name = "distance" ;
  float top(x) ; top:long_name = "top" ;
:Conventions = "CF-{version}" ;
group: a {{
  variables:
    float near(x) ;
    float t(x) ; t:coordinates = "{coordinates}" ;
  group: b {{ dimensions: y = 3 ; variables: double y(y) ; float deep(x) ; }}
  }}
group: c {{ dimensions: z = 2 ; variables: double z(z) ; float aside(x) ; }}
}}
"""


def tree(coordinates: str, version: str = "1.13") -> str:
    return TREE.format(coordinates=coordinates, version=version)


@pytest.mark.parametrize(
    "path",
    ["near", "top", "/top", "../top", "/a/near", "./near", "b/deep", "/c/aside", "../c/aside", "/a/../top", "near top"],
)
def test_references_that_lead_to_variables(path: str) -> None:
    assert codes(tree(path), "GRP") == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a/nothing", ["GRP004"]),
        ("../../top", ["GRP004"]),
        ("nothing", ["GRP004"]),
        ("/nowhere/near", ["GRP004"]),
        ("/c/aside/", ["GRP003"]),
        ("a\\\\near", ["GRP003"]),
        ("/a//nothing", ["GRP003"]),
        ("/c/as-ide", ["GRP003"]),
        ("aside", ["GRP007"]),
        ("deep", ["GRP007"]),
        ("z", ["GRP008"]),
        ("y", ["GRP008"]),
    ],
)
def test_references_that_do_not(path: str, expected: list[str]) -> None:
    assert codes(tree(path), "GRP") == expected


def test_a_path_with_other_characters_that_leads_somewhere_is_a_warning() -> None:
    assert [f.severity for f in findings(tree("/c//aside"), "GRP003")] == ["warning"]


def test_there_were_no_groups_before_cf_1_8() -> None:
    assert codes(tree("nothing", "1.7"), "GRP") == []


def test_a_dangling_name_in_a_flat_dataset_is_told_by_the_rule_of_its_attribute() -> None:
    text = 'netcdf n { dimensions: x = 2 ; variables: float t(x) ; t:coordinates = "no" ; }'
    assert codes(text, "GRP") == []
    assert "COO009" in codes(text)


def test_external_variables_need_not_be_there() -> None:
    text = tree("near").replace(":Conv", ':external_variables = "far" ; :Conv').replace('"near"', '"far"')
    assert codes(text, "GRP") == []


@pytest.mark.parametrize("name", ["Conventions", "external_variables"])
def test_attributes_of_the_root(name: str) -> None:
    text = f'netcdf n {{ :{name} = "CF-1.13" ; group: g {{ group: h {{ :{name} = "CF-1.13" ; }} }} }}'
    (found,) = findings(text, "GRP001")
    assert found.where == f"/g/h/:{name}"
    assert not found.fix[0].safe


SAME = """
netcdf same {{
dimensions: x = 2 ;
variables: float place(x) ;
group: g {{ {dimensions} variables: float t(x) ; t:coordinates = "/place" ; }}
}}
"""


def test_dimensions_of_one_name_are_one() -> None:
    assert codes(SAME.format(dimensions=""), "GRP002") == []
    assert codes(SAME.format(dimensions="dimensions: x = 2 ;"), "GRP002") == ["GRP002"]


@pytest.mark.parametrize(("size", "expected"), [(2, []), (3, ["GRP002"])])
def test_in_zarr_dimensions_of_one_name_and_length_are_one(size: int, expected: list[str], tmp_path: Path) -> None:
    root = zarr.create_group(tmp_path / "a.zarr", zarr_format=3)
    root.create_array("a/place", shape=(2,), dtype="f4", dimension_names=["x"])
    t = root.create_array("b/t", shape=(size,), dtype="f4", dimension_names=["x"])
    t.attrs["coordinates"] = "/a/place"
    with open_dataset(tmp_path / "a.zarr") as dataset:
        assert codes(dataset, "GRP002") == expected


def test_a_coordinate_is_sought_sideways_where_the_dimension_is_shared() -> None:
    text = """
    netcdf n {
    group: a { dimensions: z = 2 ; variables: double z(z) ; }
    group: b { dimensions: z = 2 ;
      group: c { variables: double z(z) ; }
      group: d { variables: float t(z) ; t:coordinates = "z" ; }
      }
    }
    """
    assert "'/b/c/z'" in told(text, "GRP008")[0]
    assert codes(text, "GRP002") == []


def test_dimensions_are_sought_too() -> None:
    text = 'netcdf n { group: g { variables: int d ; d:dimensions = "/no" ; d:long_name = "domain" ; } }'
    assert codes(text, "GRP004") == ["GRP004"]


def test_only_coordinates_are_sought_sideways() -> None:
    assert codes(
        tree("near").replace("t:coordinates", "t:ancillary_variables").replace('"near"', '"aside"'), "GRP"
    ) == ["GRP004"]


def test_words_that_a_version_of_cf_does_not_know_refer_to_nothing() -> None:
    text = """netcdf n { :Conventions = "CF-1.8" ; group: g { dimensions: x = 2 ; variables: float t(x) ;
      t:quantization = "rounded to 3 digits" ; t:dimensions = "lat lon" ; } }"""
    assert codes(text, "GRP") == []


_REFERENCES = [
    ("ancillary_variables", "{}", "ANC001"),
    ("bounds", "{}", "BND001"),
    ("cell_measures", "area: {}", "CEL001"),
    ("coordinates", "{}", "COO009"),
    ("grid_mapping", "{}", "GMP003"),
    ("grid_mapping", "crs: {}", "GMP004"),
]


def _referring(attribute: str, value: str, *, group: bool) -> str:
    q = f'float q(x) ; q:long_name = "q" ; q:units = "1" ; q:{attribute} = "{value}" ;'
    return f"""netcdf a {{ dimensions: x = 2 ;
    variables: int crs ; crs:grid_mapping_name = "latitude_longitude" ; {"" if group else q}
    :Conventions = "CF-1.13" ;
    group: forecast {{ variables: int i ; i:long_name = "i" ; {q if group else ""} }} }}"""


@pytest.mark.parametrize(("attribute", "text", "code"), _REFERENCES)
@pytest.mark.parametrize(
    ("name", "group", "expected"),
    [
        ("nothing", False, ""),
        ("nothing", True, "GRP004"),
        ("forecast/nothing", False, "GRP004"),
        ("/forecast/nothing/", False, "GRP003"),
    ],
)
def test_a_name_that_leads_nowhere_is_told_of_once(
    attribute: str, text: str, code: str, name: str, group: bool, expected: str
) -> None:
    found = findings(_referring(attribute, text.format(name), group=group), data=False)
    assert [f.code for f in found if f.severity == "error"] == [expected or code]


@pytest.mark.parametrize(
    ("names", "expected"),
    [("/x: mean /h: point", []), ("../x: mean ../h: point", []), ("x: mean h: point", []), ("/top: mean", ["CEL003"])],
)
def test_cell_methods_name_dimensions_and_scalar_coordinates_by_path(names: str, expected: list[str]) -> None:
    text = tree("/h").replace("float top(x)", 'double h ; h:standard_name = "height" ; float top(x)')
    text = text.replace("t:coordinates", f't:cell_methods = "{names}" ; t:coordinates')
    assert codes(text, "CEL003") == expected


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ('t:geometry = "no" ;', "GEO002"),
        ('g:geometry_type = "point" ; g:node_coordinates = "no" ;', "GEO007"),
        ('t:quantization = "no" ; t:quantization_nsd = 3 ;', "QNT004"),
        ('t:coordinate_interpolation = "t: no" ;', "SUB001"),
        ('t:bounds_tie_points = "no" ;', "SUB013"),
    ],
)
def test_a_name_in_a_group_that_the_rule_of_its_attribute_reports_is_reported_once(
    attributes: str, expected: str
) -> None:
    text = f"netcdf a {{ group: a {{ dimensions: x = 2 ; variables: float t(x) ; int g ; {attributes} }} }}"
    found = [f.code for f in findings(text) if "no" in f.message.split("'")[1::2]]
    assert found == [expected]

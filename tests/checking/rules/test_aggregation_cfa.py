"""Aggregations of CFA-0.6: the document's own examples, and defects."""

from __future__ import annotations

import pytest

from cfagg.checking.context import Context
from cfagg.checking.described import described
from cfagg.checking.engine import run
from cfagg.checking.options import Options
from cfagg.formats.cdl.parsing import parse_cdl
from tests.checking.rules.asking import findings

BASE = """netcdf temp {
dimensions:
  time = 12 ;
  latitude = 73 ;
  f_time = 2 ;
  f_latitude = 1 ;
  versions = 2 ;
  i = 2 ;
  j = 2 ;
variables:
  double temp ;
    temp:standard_name = "air_temperature" ;
    temp:units = "K" ;
    temp:aggregated_dimensions = "time latitude" ;
    temp:aggregated_data = "location: where
                            file: files
                            format: formats
                            address: names" ;
  int where(i, j) ;
  string files(f_time, f_latitude) ;
  string formats ;
  string names(f_time, f_latitude) ;
  double held(time, latitude) ;
    held:long_name = "air temperature" ;
    held:units = "K" ;
:Conventions = "CF-1.10 CFA-0.6.2" ;
data:
  where = 6, 6, 73, _ ;
  files = "January-June.nc", "July-December.nc" ;
  formats = "nc" ;
  names = "temp", "temp" ;
}
"""


def codes(text: str, severity: str = "error") -> list[str]:
    with parse_cdl(text) as dataset:
        return [f.code for f in run(dataset, Options(select=("CFA", "AGG"))).findings if f.severity == severity]


def test_two_relative_files_are_clean() -> None:
    assert codes(BASE) == codes(BASE, "warning") == []


def test_an_address_may_be_the_same_for_all() -> None:
    text = BASE.replace("string names(f_time, f_latitude)", "string names").replace('"temp", "temp"', '"temp"')
    assert codes(text) == []


def test_terms_of_ones_own_may_be_added_and_any_case_is_right() -> None:
    text = BASE.replace("location: where", "LOCATION: where tracking_id: formats")
    assert codes(text) == []


def test_a_fragment_may_have_several_versions() -> None:
    text = BASE.replace("string files(f_time, f_latitude)", "string files(f_time, f_latitude, versions)")
    text = text.replace("string names(f_time, f_latitude)", "string names(f_time, f_latitude, versions)")
    text = text.replace('"January-June.nc", "July-December.nc"', '"a.nc", "http://x.org/a.nc", "b.nc", _')
    text = text.replace('"temp", "temp"', '"temp", "temp", "temp", _')
    assert codes(text) == []


def test_a_fragment_may_be_missing_or_stand_in_the_dataset_itself() -> None:
    missing = BASE.replace('"January-June.nc", ', "_, ")
    assert codes(missing.replace('"temp", "temp"', '_, "temp"')) == []
    assert codes(missing.replace('"temp", "temp"', '"held", "temp"')) == []
    assert codes(missing) == []  # the variable itself
    assert codes(missing.replace('"temp", "temp"', '"nowhere", "temp"')) == ["CFA021"]


def test_missing_fragments_are_known_as_missing() -> None:
    text = BASE.replace('"January-June.nc", ', "_, ").replace('"temp", "temp"', '_, "temp"')
    with parse_cdl(text) as dataset:
        made = described(Context(dataset))[dataset.root.variables["temp"]].aggregation
    assert made is not None
    assert made.partitions.present.tolist() == [False, True]


def test_data_without_dimensions_have_a_location_of_one_element() -> None:
    text = BASE.replace('"time latitude"', '""').replace("where(i, j)", "where(f_latitude)")
    text = text.replace("6, 6, 73, _", "1").replace("(f_time, f_latitude) ;", " ;")
    text = text.replace('"January-June.nc", "July-December.nc"', '"a.nc"').replace('"temp", "temp"', '"temp"')
    assert codes(text) == []
    assert codes(text.replace("where = 1", "where = 2")) == ["CFA014"]


def test_relative_paths_may_have_blanks_but_uris_encode_them() -> None:
    assert codes(BASE.replace("January-June.nc", "first half.nc"), "warning") == []
    assert codes(BASE.replace("January-June.nc", "file:///first half.nc"), "warning") == ["CFA019"]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("location: where", "", "CFA013"),
        ("address: names", "address: nothing", "CFA013"),
        ("6, 6, 73, _", "6, 5, 73, _", "CFA015"),
        ("int where", "float where", "CFA014"),
        ("where(i, j)", "where(i, j, f_latitude)", "CFA014"),
        ("string files", "int files", "CFA016"),
        ("string formats", "string formats(f_time)", "CFA018"),
        ("January-June.nc", "/data/June.nc", "CFA019"),
        ("January-June.nc", "${base}June.nc", "CFA019"),
        ("time latitude", "time lat", "CFA011"),
        ("CFA-0.6.2", "ACDD-1.3", "CFA022"),
    ],
)
def test_one_defect_is_one_error(old: str, new: str, code: str) -> None:
    assert old in BASE
    text = BASE.replace(old, new)
    if "int files" in new:
        text = text.replace('files = "January-June.nc", "July-December.nc" ;', "files = 1, 2 ;")
    assert set(codes(text)) == {code}


def test_substitutions_have_a_form() -> None:
    with_base = BASE.replace("  string formats", '    files:substitutions = "base: x" ;\n  string formats')
    assert codes(with_base) == ["CFA019"]
    assert codes(with_base.replace("base: x", "${base}: x")) == []


@pytest.mark.parametrize("order", [("${a}: ${b}/c", "${b}: d"), ("${b}: d", "${a}: ${b}/c")])
def test_substitutions_are_not_substituted_again_in_whatever_order_they_are(order: tuple[str, str]) -> None:
    text = BASE.replace("January-June.nc", "${a}/June.nc")
    text = text.replace("  string formats", f'    files:substitutions = "{" ".join(order)}" ;\n  string formats')
    (found,) = findings(text, "CFA019", data=False)
    assert "becomes '${b}/c/June.nc', as what replaces a base is not replaced again: write '${b}' out" in found.message


def test_where_all_fragments_are_missing_none_is_opened() -> None:
    text = BASE.replace('"January-June.nc", "July-December.nc"', "_, _").replace('"temp", "temp"', "_, _")
    with parse_cdl(text) as dataset:
        found = run(dataset, Options(select=("CFA", "REF"), references=True)).findings
    assert found == []


def test_terms_of_another_draft_are_named_once() -> None:
    text = BASE.replace("location: where", "shape: where").replace("file: files", "location: files")
    assert codes(text.replace("format: formats", "")) == ["CFA013"]

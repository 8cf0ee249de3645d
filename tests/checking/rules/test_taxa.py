"""Names and identifiers of biological taxa: what is found, and what is let pass."""

from __future__ import annotations

import pytest

from tests.checking.rules.asking import codes


def plankton(lsid: str = "", *, coordinates: str = "names ids", kind: str = "string") -> str:
    return f"""netcdf a {{ dimensions: taxon = 1 ; letters = 60 ; variables:
      string names(taxon) ; names:standard_name = "biological_taxon_name" ;
      {kind} ids(taxon{", letters" if kind == "char" else ""}) ; ids:standard_name = "biological_taxon_lsid" ;
      float n(taxon) ; n:standard_name = "number_concentration_of_biological_taxon_in_sea_water" ;
      n:coordinates = "{coordinates}" ; :Conventions = "CF-1.13" ; data: names = "Calanus" ; ids = "{lsid}" ; }}"""


@pytest.mark.parametrize(
    "lsid",
    ["", "urn:lsid:marinespecies.org:taxname:104464", "urn:lsid:itis.gov:itis_tsn:180543", "URN:LSID:a.org:b:c:2"],
)
@pytest.mark.parametrize("kind", ["string", "char"])
def test_identifiers_pass(lsid: str, kind: str) -> None:
    assert codes(plankton(lsid, kind=kind), "TAX") == []


@pytest.mark.parametrize("lsid", ["104464", "urn:lsid:marinespecies.org", "urn:lsid:a b:c:d", "urn:lsid:a:b:c:d:e"])
def test_what_is_no_identifier_is_found(lsid: str) -> None:
    assert codes(plankton(lsid), "TAX") == ["TAX003"]


def test_names_are_needed_and_identifiers_are_not() -> None:
    assert codes(plankton(coordinates="names"), "TAX") == []
    assert codes(plankton(coordinates="ids"), "TAX") == ["TAX001"]


def test_taxa_are_no_matter_before_version_1_8() -> None:
    assert codes(plankton("x", coordinates="ids"), "TAX", cf_version="1.7") == []

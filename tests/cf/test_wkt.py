"""Well-known text of coordinate reference systems is told from other text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.cf.wkt import problems
from tests.effort import examples

ELLIPSOID = 'ELLIPSOID["WGS 84",6378137,298.257223563,LENGTHUNIT["metre",1]]'
ENSEMBLE = (
    'ENSEMBLE["World Geodetic System 1984 ensemble",MEMBER["Transit"],MEMBER["G730"],'
    f'{ELLIPSOID},ENSEMBLEACCURACY[2.0]],PRIMEM["Greenwich",0,ANGLEUNIT["degree",0.0174532925199433]]'
)
ELLIPSOIDAL = 'CS[ellipsoidal,2],AXIS["latitude",north],AXIS["longitude",east],ANGLEUNIT["degree",0.0174532925199433]'
GEOGCRS = f'GEOGCRS["WGS 84",{ENSEMBLE},{ELLIPSOIDAL},USAGE[SCOPE["?"],BBOX[-90,-180,90,180]],ID["EPSG",4326]]'
GEOGCS = (
    'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563,AUTHORITY["EPSG","7030"]]],'
    'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433],AXIS["Latitude",NORTH],AUTHORITY["EPSG","4326"]]'
)
PROJCS = (
    f'PROJCS["UTM 33N",{GEOGCS},PROJECTION["Transverse_Mercator"],PARAMETER["central_meridian",15],'
    'PARAMETER["false_easting",5e5],UNIT["metre",1],AXIS["Easting",EAST],EXTENSION["PROJ4","+proj=utm +zone=33"]]'
)
PROJCRS = (
    f'PROJCRS["UTM 33N",BASEGEOGCRS["WGS 84",{ENSEMBLE}],CONVERSION["UTM",METHOD["Transverse Mercator"],'
    'PARAMETER["Longitude of natural origin",15,ANGLEUNIT["degree",0.0174532925199433]]],'
    'CS[Cartesian,2],AXIS["(E)",east,ORDER[1]],AXIS["(N)",north,ORDER[2]],LENGTHUNIT["metre",1]]'
)
VERTCRS = 'VERTCRS["Newlyn",VDATUM["Ordnance Datum Newlyn"],CS[vertical,1],AXIS["height (H)",up],LENGTHUNIT["metre",1]]'

GOOD = {
    "a geographic system": GEOGCRS,
    "one of the older writing": GEOGCS,
    "a projected system": PROJCRS,
    "one of the older writing, projected": PROJCS,
    "a compound system": f'COMPOUNDCRS["both",{PROJCRS},{VERTCRS}]',
    "the older compound system": f'COMPD_CS["both",{PROJCS},VERT_CS["ODN",VERT_DATUM["ODN",2005],UNIT["metre",1]]]',
    "a bound system, which has no name": (
        f'BOUNDCRS[SOURCECRS[{GEOGCRS}],TARGETCRS[{GEOGCRS}],ABRIDGEDTRANSFORMATION["t",METHOD["m"],'
        'PARAMETER["X-axis translation",84.87,ID["EPSG",8605]]]]'
    ),
    "a rotated pole": (
        f'GEOGCRS["rotated",BASEGEOGCRS["WGS 84",{ENSEMBLE}],DERIVINGCONVERSION["r",METHOD["Pole rotation"],'
        f'PARAMETER["Grid north pole latitude",39.25]],{ELLIPSOIDAL}]'
    ),
    "a time": (
        'TIMECRS["days",TDATUM["epoch",TIMEORIGIN[1990-01-01T00:00:00.0Z]],CS[TemporalCount,1],'
        'AXIS["time",future,TIMEUNIT["day",86400]]]'
    ),
    "newlines and blanks": GEOGCS.replace(",", " ,\n  ").replace("[", " [ "),
    "round brackets": GEOGCS.replace("[", "(").replace("]", ")"),
    "small letters": GEOGCS.replace("GEOGCS", "geogcs").replace("DATUM", "Datum"),
    "quotes in quotes": GEOGCS.replace("WGS_1984", 'the ""84"" datum'),
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD.keys())
def test_what_other_software_writes_can_be_read(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("EPSG:4326", "':' where '['"),
        ("+proj=longlat +datum=WGS84", "'+' where a keyword"),
        ("GEOGCS", "no brackets"),
        ('{"type": "GeographicCRS"}', "'{' where a keyword"),
        ('SOMETHING["WGS 84"]', "not a kind of coordinate reference system"),
        ('DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298]]', "not a kind of coordinate reference system"),
        (GEOGCS[:-1], "before GEOGCS is closed"),
        (GEOGCS + "]", "after the end"),
        (GEOGCS + GEOGCS, "after the end"),
        (GEOGCS.replace('"WGS 84",DATUM', '"WGS 84,DATUM'), ""),
        (GEOGCS.replace("298.257223563", ""), "where a value is expected"),
        (GEOGCS.replace(",298.257223563", "", 1).replace(',AUTHORITY["EPSG","7030"]', ""), "SPHEROID has 2 members"),
        (GEOGCS.replace("6378137", '"6378137"'), "member 2 of SPHEROID is not a number"),
        (GEOGCS.replace("6378137", "6378137 m"), "'m' where"),
        (GEOGCS.replace("PRIMEM", "PRIMEN"), "GEOGCS has no PRIMEM"),
        (GEOGCS.replace('GEOGCS["WGS 84"', "GEOGCS[WGS"), "does not begin with a name in quotes"),
        (GEOGCS.replace("],PRIMEM", "),PRIMEM"), "')' where"),
        (PROJCRS.replace("BASEGEOGCRS", "GEOGBASECRS"), "PROJCRS has no BASEGEODCRS or BASEGEOGCRS"),
    ],
)
def test_what_is_wrong_is_told(text: str, found: str) -> None:
    (problem,) = problems(text)
    assert found in problem


@settings(max_examples=examples(100))
@given(st.sampled_from(sorted(GOOD.values())), st.data())
def test_no_text_is_whole_without_one_of_its_brackets(text: str, data: st.DataObject) -> None:
    outside = [i for i, ch in enumerate(text) if ch in "[]()" and text[:i].count('"') % 2 == 0]
    at = data.draw(st.sampled_from(outside))
    assert problems(text[:at] + text[at + 1 :])


@settings(max_examples=examples(100))
@given(st.text(alphabet='GEOGCSDATUM["],0.1e+- \n()', max_size=200))
def test_any_text_is_judged(text: str) -> None:
    assert len(problems(text)) <= 1


@pytest.mark.parametrize("text", ["GEOGCS[" * 100_000, '"' * 1_000_001, "1" * 500_000, 'A["' + '""' * 400_000])
def test_hostile_texts_are_judged_at_once(text: str) -> None:
    assert problems(text)

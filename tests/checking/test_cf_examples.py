"""Every example of the CF document has a dataset here with its feature, and none of them is told an error."""

from __future__ import annotations

import pytest

from cfagg.checking.engine import run
from cfagg.checking.options import Options
from cfagg.formats.cdl.parsing import parse_cdl
from tests.checking.corpus import CLEAN, DOCUMENT

#: Numbers of the examples of CF-1.13 that show metadata.  There are none numbered 5.4 and 5.5; 2.2 is a picture and
#: 9.1, B.1 and I.1 are not datasets or repeat another example.
NUMBERS = {
    *("2.1", "2.3"),
    *(f"3.{n}" for n in range(1, 9)),
    *(f"4.{n}" for n in range(1, 7)),
    *(f"5.{n}" for n in range(1, 22) if n not in (4, 5)),
    *("6.1", "6.1.2", "6.2"),
    *(f"7.{n}" for n in range(1, 24)),
    *(f"8.{n}" for n in range(1, 10)),
    *(f"H.{n}" for n in range(1, 23)),
    *(f"L.{n}" for n in range(1, 7)),
}


def test_every_example_of_the_document_is_here() -> None:
    assert not NUMBERS - {key.split()[0] for key in DOCUMENT}


@pytest.mark.few(1000)
@pytest.mark.parametrize("key", CLEAN)
def test_a_clean_dataset_has_no_error(key: str) -> None:
    with parse_cdl(CLEAN[key], key) as dataset:
        found = run(dataset, Options(data=True)).findings
    assert [str(f) for f in found if f.severity == "error"] == []


@pytest.mark.few(40)
@pytest.mark.parametrize("key", CLEAN)
def test_a_clean_dataset_has_no_error_where_values_are_not_read(key: str) -> None:
    with parse_cdl(CLEAN[key], key) as dataset:
        found = run(dataset, Options()).findings
    assert [str(f) for f in found if f.severity == "error"] == []

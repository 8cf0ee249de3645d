"""Files like others that were opened before are described as if they were the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.formats.pp import FORMAT, grids, grouping, times
from cfagg.formats.pp.grouping import boxes_of, joined
from cfagg.formats.pp.records import scan_records
from cfagg.formats.pp.times import times_of
from cfagg.model.dataset import Dataset
from cfagg.storage.files import Borrowed
from tests.effort import examples
from tests.formats.metadata.seen import seen
from tests.formats.pp.making import field

#: Words with values of which some make fields of one array, others of several.
WORDS: dict[str, tuple[float, ...]] = {
    "LBYR": (2001, 2002, 0), "LBMON": (1, 2, 13), "LBYRD": (2001, 2003), "LBMOND": (1, 3), "LBDAT": (1,),
    "LBDATD": (1, 2), "LBTIM": (2, 12, 22, 32, 11, 9), "LBFT": (0, 24), "LBPROC": (0, 64, 128), "LBREL": (2, 3),
    "LBLEV": (1, 2, 9999), "LBVC": (8, 65, 129), "BLEV": (0.0, 500.0), "BHLEV": (0.0, 0.5), "LBRSVD4": (0, 1),
    "LBUSER4": (0, 16203, 33), "LBUSER5": (0, 1), "LBUSER7": (1,), "LBFC": (0, 16), "LBCODE": (1, 2, 101, 10_1310),
    "BPLAT": (90.0, 37.5), "BDX": (120.0, 0.44), "BZY": (-90.0, 0.0), "BMDI": (-1e30, 0.44), "LBUSER1": (1, 2),
}  # fmt: skip

HEADERS = st.fixed_dictionaries({}, optional={word: st.sampled_from(found) for word, found in WORDS.items()})
#: Fields that are alike but for a few words.
FILES = st.lists(
    st.tuples(HEADERS, st.lists(HEADERS.map(lambda h: dict(list(h.items())[:2])), min_size=1, max_size=6)).map(
        lambda pair: b"".join(field(**{**pair[0], **own}) for own in pair[1])
    ),
    min_size=2,
    max_size=4,
)


def forget() -> None:
    for module in (grids, grouping, times):
        module._known.clear()


def opened(data: bytes) -> Dataset:
    return FORMAT.open(Borrowed("a.pp", data))


@settings(max_examples=examples(100), deadline=None)
@given(FILES)
def test_files_are_described_as_if_each_were_the_first(files: list[bytes]) -> None:
    cold = []
    for data in files:
        forget()
        cold.append(seen(opened(data)))
    forget()
    assert [seen(opened(data)) for data in files * 2] == cold * 2


@settings(max_examples=examples(100), deadline=None)
@given(FILES)
def test_fields_are_joined_as_if_no_others_had_been(files: list[bytes]) -> None:
    for data in files:
        fields = scan_records(Borrowed("a.pp", data))
        extra = np.zeros(len(fields), np.int64)
        found, expected = (of(fields, times_of(fields), extra) for of in (boxes_of, joined))
        assert [b.numbers.tolist() for b in found] == [b.numbers.tolist() for b in expected]


def test_files_of_other_times_are_joined_by_what_is_remembered() -> None:
    forget()
    for year in (2001, 2002):
        data = b"".join(field(LBYR=year, LBMON=month, LBTIM=2) for month in (1, 2, 3))
        assert [v.shape for v in opened(data).variables if v.chunks] == [(3, 2, 3)]
    assert len(grouping._known) == 1


def test_no_more_than_some_files_are_remembered(monkeypatch: Any) -> None:
    forget()
    for module in (grids, grouping, times):
        monkeypatch.setattr(module, "_MOST", 2)
    for i in range(5):
        opened(b"".join(field(LBYR=2001 + i, LBLEV=level, BDX=1.0 + i, BLEV=i) for level in (1, 2)))
        assert all(len(module._known) <= 2 for module in (grids, grouping, times))


def test_how_files_of_many_fields_are_joined_is_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    monkeypatch.setattr(grouping, "_BYTES", 8_000)
    for year in range(2001, 2011):
        opened(b"".join(field(LBYR=year, LBMON=1 + month, LBTIM=2, LBUSER5=year) for month in range(4)))
        assert 0 < sum(len(part) for key in grouping._known for part in key) <= 8_000

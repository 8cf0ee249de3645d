"""Fields as the chunks of one variable, read by the one reader of chunk tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cfagg.cf.header import Header
from cfagg.errors import FragmentReadError
from cfagg.formats.pp.addresses import scan_fields
from cfagg.formats.pp.tables import chunk_table, type_of
from cfagg.formats.values import tabled
from cfagg.storage.files import Borrowed, Context
from cfagg.storage.gate import admit
from tests.formats.pp.making import field

SIX = np.arange(6.0)
LAND = np.array([[True, False, True], [False, False, True]])
CONTEXT = Context("here")


def values(parts: list[bytes], shape: tuple[int, ...], cells: Any = None, land: Any = None) -> np.ndarray:
    """Return all values of a variable whose fields are a file."""
    handle = Borrowed("a.pp", b"".join(parts))
    fields = scan_fields(handle)
    cells = np.arange(len(fields)) if cells is None else np.asarray(cells)
    table = chunk_table(fields, shape, cells, "a.pp", lambda: land)
    out = np.full(shape, 77, table.encoding.dtype.newbyteorder("="))
    slices = [slice(0, n, 1) for n in shape]
    for place, block in tabled.scan(admit(handle, "v", ()), table, slices, CONTEXT):
        out[place] = block
    assert Header("a.pp", "v", ("x",) * len(shape), shape, out.dtype).dtype == type_of(fields)[0]
    return out


def test_fields_come_to_their_cells_in_any_order() -> None:
    parts = [field(SIX + n, LBYR=1900 + n) for n in (4, 2, 0, 1, 3, 5)]
    found = values(parts, (3, 2, 2, 3), [4, 2, 0, 1, 3, 5])
    assert found.reshape(6, 6).tolist() == [(SIX + n).tolist() for n in range(6)]


@pytest.mark.parametrize("packed", [False, True])
def test_a_cell_without_a_field_is_missing(packed: bool) -> None:
    more: dict[str, Any] = {"LBPACK": 2} if packed else {}
    found = values([field(SIX, **more), field(SIX + 9, **more)], (3, 2, 3), [2, 0])
    assert found[0].ravel().tolist() == (SIX + 9).tolist()
    assert (found[1] == np.float32(-1e30)).all()
    assert found[2].ravel().tolist() == SIX.tolist()


def test_fields_of_other_packings_missing_values_and_scales_become_one_variable() -> None:
    parts = [
        field(SIX),
        field([1, 2, -9, 4], LBPACK=4, BMDI=-9),
        field(np.arange(6).astype(">i4").tobytes(), LBUSER1=2),
        field([0, 0, 0, 0, 0, 8], BMKS=0.5, BDATUM=100),
        field([7, 8, 9], LBPACK=120, LBROW=0, LBNPT=0),
    ]
    found = values(parts, (5, 2, 3), land=LAND)
    assert found.dtype == np.float64
    fill = float(np.float32(-1e30))
    assert found[1].ravel().tolist() == [1, 2, fill, fill, fill, fill]
    assert found[2].ravel().tolist() == SIX.tolist()
    assert found[3].ravel().tolist() == [100, 100, 100, 100, 100, 104]
    assert found[4].tolist() == [[7, fill, 8], [fill, fill, 9]]


def test_plain_fields_are_read_in_part() -> None:
    handle = Borrowed("a.pp", field(SIX) + field(SIX + 6))
    table = chunk_table(scan_fields(handle), (2, 2, 3), np.arange(2), "a.pp")
    assert table.encoding.decode is None
    ((place, block),) = tabled.scan(
        admit(handle, "v", ()), table, [slice(1, 2, 1), slice(1, 2, 1), slice(0, 3, 2)], CONTEXT
    )
    assert block.ravel().tolist() == [9, 11]
    assert place == (slice(0, 1), slice(0, 1), slice(0, 2))


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([field(SIX), field(LBPACK=4, data=[1, 2, 3])], r"chunk \(1, 0, 0\) .* runs of missing values"),
        (
            [field(SIX), field([1, 2], LBROW=1, LBNPT=2)],
            r"chunk \(1, 0, 0\) .* shape \(1, 2\), and its variable \(2, 3\)",
        ),
        ([field(SIX), field(SIX[:4])], r"chunk \(1, 0, 0\) .* 16 bytes of data, expected 24"),
    ],
)
def test_a_field_that_does_not_decode_is_named_by_its_chunk(parts: list[bytes], text: str) -> None:
    with pytest.raises(FragmentReadError, match=rf"^here: .*{text}"):
        values(parts, (2, 2, 3))

"""PP files and fields files: records, tables, every packing, and the datasets that are made of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache

import numpy as np

from tests.formats.pp.making import field, fields_file, record
from tests.fuzzing.files import WAYS, stored
from tests.fuzzing.target import target

_WORDS = [8, 2**32 - 1, 3 << 16 | 2, 0x41100000, (224 | 4) << 16 | 2, 0x80FFFFFF, 0x12345678, 0x40100000, 0]
_MASK = np.array([[1, 0, 1], [0, 0, 1]])


@cache
def pp_seeds() -> list[bytes]:
    """Return files of fields in every packing, with extra data and points of a mask."""
    found = []
    for size, order, marker in ((4, ">", 4), (4, "<", 4), (8, ">", 8), (8, "<", 4)):

        def one(values: object, size: int = size, order: str = order, marker: int = marker, **words: float) -> bytes:
            raw = values if isinstance(values, bytes) else np.asarray(values).astype(f"{order}f{size}").tobytes()
            return field(raw, size, order, marker, **words)

        six = np.arange(6.0)
        mask = _MASK.astype(f"{order}i{size}").tobytes()
        wgdos = np.array([len(_WORDS), *_WORDS[1:]], ">u4").tobytes()
        wgdos += bytes(-len(wgdos) % size)
        if order == "<":
            wgdos = np.frombuffer(wgdos, f">u{size}").byteswap().tobytes()
        extra = np.array([3001, 0, 0, 0, 2002, 0, 0], f"{order}i{size}").tobytes()
        title = np.array([1011], f"{order}i{size}").tobytes() + b"Global".ljust(size)[:size]
        found += [
            one(six) + one(six + 1, LBDAT=2) + one(six, LBDAT=3, LBUSER4=24, LBUSER7=1, LBFC=16),
            one(mask, LBUSER1=3, LBUSER4=30)
            + one([7, 8, 9], LBPACK=120, LBROW=0, LBNPT=0)
            + one([1, 2, 3], LBPACK=220),
            one(wgdos, LBPACK=1),
            one(six.astype(f"{order}f4").tobytes() + bytes(24 % size), LBPACK=2, BMKS=2, BDATUM=1),
            one([-9, 2, 7, 8, -9, 2], LBPACK=4, BMDI=-9),
            one(six.astype(f"{order}f{size}").tobytes() + extra + title, LBEXT=7 + len(title) // size),
        ]
    return found


@cache
def table_seeds() -> list[bytes]:
    """Return fields files."""
    found = []
    for size, order in ((8, ">"), (8, "<"), (4, ">")):
        raw = [(np.arange(6.0) + n).astype(f"{order}f{size}").tobytes() for n in range(2)]
        found.append(fields_file([({"LBDAT": n + 1}, r) for n, r in enumerate(raw)], size, order))
        found.append(fields_file([({}, raw[0]), ({"LBPACK": 4}, raw[1])], size, order, placed=False))
    return found


def framed(data: bytes, _: Sequence[bytes]) -> bytes:
    """Return the first header, and all that follows as its data, between markers that agree."""
    from cfagg.formats.pp.records import form_of

    form = form_of(data)
    if form is None:
        return data
    size, marker, order = form.header_size, form.marker_size, form.byteorder
    rest = data[3 * marker + size : -marker]
    return record(data[marker : marker + size], order, marker) + record(rest, order, marker)


def _each(data: bytes) -> None:
    """Read every field, with and without a mask, and find fields by some addresses."""
    from cfagg.errors import CfaggError
    from cfagg.formats.pp.addresses import find_field, scan_fields
    from cfagg.formats.pp.values import attributes_of, read_extra, read_stored
    from cfagg.storage.files import Borrowed

    handle = Borrowed("input.pp", data)
    for address in (0, 4, 67, len(data) // 2, len(data)):
        try:
            find_field(handle, address)
        except CfaggError:
            continue
    fields = scan_fields(handle)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(min(len(fields), 20)):
            for call in (
                lambda i=i: attributes_of(fields, i),
                lambda i=i: read_stored(handle, fields, i, land=_MASK != 0),
                lambda i=i: read_extra(handle, fields, i),
            ):
                try:
                    call()
                except CfaggError:
                    continue


target("PP", seeds=pp_seeds, finish=framed, file=True)(_each)
target("fields files", seeds=table_seeds, file=True)(_each)


@target("PP as datasets", seeds=lambda: [*pp_seeds(), *table_seeds()], finish=framed, share=0.3)
def datasets(data: bytes) -> None:
    """Read files in every way."""
    from cfagg.errors import CfaggError

    path = stored(data, ".pp")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for way in ("values", "show", "read", "check"):
            try:
                WAYS[way][0](path)
            except CfaggError:
                continue

"""PP: unpacking WGDOS against umfive where that is installed, and scanning the headers of many files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cfagg.formats.pp.addresses import scan_fields
from cfagg.formats.pp.fields import Form
from cfagg.formats.pp.packing import wgdos
from cfagg.storage.files import open_regular
from tests.benchmarks.table import Row, clock
from tests.formats.pp.making import field

#: Files of the bar, and the seconds that their headers may take.
_FILES, _SECONDS = 120, 0.1


def _packed(rows: int, columns: int, flags: int, bits: int) -> bytes:
    """Return a field of random steps, with maps of every tenth point; no point is both missing and zero."""
    rng = np.random.default_rng(0)
    words: list[int] = [0, 2**32 - 10, columns << 16 | rows]
    for _ in range(rows):
        missing, least, zero = (rng.random(columns) < 0.1 for _ in range(3))
        of_flags = {32: missing, 64: least, 128: ~zero | missing}
        maps = "".join("".join("01"[bit] for bit in of_flags[f].tolist()) for f in of_flags if flags & f)
        maps += "0" * (-len(maps) % 32)
        steps = "".join(f"{n:0{bits}b}" for n in rng.integers(0, 2**bits, columns).tolist())
        text = maps + steps + "0" * (-len(steps) % 32)
        held = [int(text[i : i + 32], 2) for i in range(0, len(text), 32)]
        words += [0x42FF0000, (flags | bits) << 16 | len(held), *held]
    words[0] = len(words)
    return np.array(words, ">u4").tobytes()


def _plain(raw: bytes, shape: tuple[int, int]) -> Any:
    """Read so many values that are not packed."""
    return np.resize(np.frombuffer(raw, ">f4"), shape).astype("f4")


def _umfive() -> Callable[..., Any] | None:
    try:
        from umfive.wgdos import unpack_wgdos
    except ImportError:
        return None
    return unpack_wgdos  # type: ignore[no-any-return]


def _unpacking(job: str, raw: bytes, shape: tuple[int, int], repeat: int) -> Row:
    """Return the rates of one kind of rows."""
    peer, form = _umfive(), Form(4, ">", 4)
    values = wgdos(raw, form, shape, -1e30, "benchmark")

    def ours() -> None:
        for _ in range(repeat):
            wgdos(raw, form, shape, -1e30, "benchmark")

    def other() -> None:
        for _ in range(repeat):
            _plain(raw, shape) if peer is None else peer(raw, values.size, -1e30, 4)

    if peer is not None and not np.array_equal(peer(raw, values.size, -1e30, 4), values.ravel()):
        raise ValueError(f"{job}: umfive gives other values")
    mine, theirs = (values.size * repeat / seconds / 1e6 for seconds in clock(ours, other))
    against, bar = ("values that are not packed", None) if peer is None else ("umfive", 1.0)
    return Row(f"WGDOS, {job}", mine, theirs, against, mine / theirs, bar, "M/s")


def rows(small: bool) -> list[Row]:
    """Return rates in million values a second, and seconds."""
    shape, repeat = ((40, 96), 1) if small else ((600, 800), 5)
    out = [
        _unpacking(job, _packed(*shape, flags, bits), shape, repeat)
        for job, flags, bits in (("steps of 12 bits", 0, 12), ("maps of missing, least and zero", 224, 9))
    ]
    with tempfile.TemporaryDirectory() as folder:
        data = field(np.zeros(73 * 96), LBROW=73, LBNPT=96)
        paths = [str(Path(folder) / f"{n}.pp") for n in range(_FILES)]
        for path in paths:
            Path(path).write_bytes(data)

        def headers() -> None:
            for path in paths:
                with open_regular(path) as handle:
                    scan_fields(handle)

        (seconds,) = clock(headers)
    out.append(Row(f"headers of {_FILES} PP files", seconds, _SECONDS, "0.1 s", _SECONDS / seconds, 1.0))
    return out

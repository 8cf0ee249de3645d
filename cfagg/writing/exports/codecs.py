"""The filters of chunks as Zarr codecs: numcodecs in version 2, codecs in version 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cfagg.model.chunks import Codec

__all__ = ["canonical", "named", "unshuffled", "untold", "version_2", "version_3"]

#: Filters that numcodecs decodes as HDF5 does, by number, with the parameters needed for decoding.
_SHUFFLE, _SUM, _SUM_BYTES = 2, 3, 4
_NAMES = {1: "zlib", _SHUFFLE: "shuffle", _SUM: "fletcher32", 307: "bz2", 32001: "blosc", 32015: "zstd"}
_UNTOLD = {4: "szip", 5: "n-bit", 6: "scale and offset", 32000: "LZF", 32004: "LZ4", 32008: "bitshuffle"}

#: Levels, which matter only for encoding.
_LEVELS: dict[str, dict[str, Any]] = {
    "zlib": {"level": 1},
    "bz2": {"level": 1},
    "zstd": {"level": 1},
    "blosc": {"cname": "zstd", "clevel": 5, "shuffle": 1, "blocksize": 0},
}

#: Version 3 codec names defined by Zarr itself.
_OWN = ("blosc", "zstd")
_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")


def canonical(codecs: Sequence[Codec], itemsize: int) -> tuple[Codec, ...]:
    """Return filters with only what decoding needs, so that those of different compression levels are equal."""
    return tuple((n, ((*given, itemsize)[0],) if n == _SHUFFLE else ()) for n, given in codecs)


def untold(codecs: Sequence[Codec]) -> str | None:
    """Return the name of the first filter without a Zarr codec, or `None` if all have one."""
    return next((named(number) for number, _ in codecs if number not in _NAMES), None)


def unshuffled(codecs: Sequence[Codec]) -> str | None:
    """Return why Zarr readers cannot undo a shuffle (it was applied to partial elements), or `None` if they can.

    >>> unshuffled([(3, ()), (2, (4,))])
    >>> unshuffled([(3, ()), (2, (8,))])
    'its chunks were shuffled together with bytes added by fletcher32, for which Zarr has no codec'
    """
    for at, (number, given) in enumerate(codecs):
        before = [n for n, _ in codecs[:at] if n != _SHUFFLE]
        if number == _SHUFFLE and given[0] > 1 and (set(before) - {_SUM} or len(before) * _SUM_BYTES % given[0]):
            return (
                f"its chunks were shuffled together with bytes added by {named(before[-1])}, for which Zarr has no "
                "codec"
            )
    return None


def named(number: int) -> str:
    """Return the name of a filter."""
    return _NAMES.get(number) or _UNTOLD.get(number) or f"HDF5 filter {number}"


def version_2(codecs: Sequence[Codec]) -> list[dict[str, Any]]:
    """Return numcodecs codecs in the order in which they were applied.

    >>> version_2([(2, (4,)), (1, ())])
    [{'id': 'shuffle', 'elementsize': 4}, {'id': 'zlib', 'level': 1}]
    """
    return [{"id": name, **settings} for name, settings in _listed(codecs)]


def version_3(codecs: Sequence[Codec], itemsize: int) -> list[dict[str, Any]]:
    """Return the Zarr version 3 codecs that follow the array-to-bytes codec.

    >>> version_3([(32015, ())], 4)
    [{'name': 'zstd', 'configuration': {'level': 1, 'checksum': False}}]
    """
    found = []
    for name, settings in _listed(codecs):
        more: dict[str, Any] = {}
        if name == "zstd":
            more = {"checksum": False}
        elif name == "blosc":
            more = {"shuffle": _SHUFFLES[settings["shuffle"]], "typesize": itemsize}
        found.append({"name": name if name in _OWN else f"numcodecs.{name}", "configuration": settings | more})
    return found


def _listed(codecs: Sequence[Codec]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (_NAMES[n], {"elementsize": given[0]} if n == _SHUFFLE else dict(_LEVELS.get(_NAMES[n], {})))
        for n, given in codecs
    ]

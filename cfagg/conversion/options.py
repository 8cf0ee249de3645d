"""Options of a conversion, checked before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal

from cfagg.errors import LimitError, OptionError, UnsupportedError
from cfagg.errors.arguments import an_integer, is_one, names

__all__ = ["DEFAULT_MEMORY", "Options"]

#: Default size in bytes of values in memory; the libraries themselves need some 150 MB more.
DEFAULT_MEMORY = 128 << 20

CODECS = {"zstd": (-7, 22), "blosc": (0, 9), "gzip": (0, 9), "none": (0, 0)}


@dataclass(frozen=True)
class Options:
    """The options that determine what is written: a killed run may be resumed with other workers and memory."""

    variables: tuple[str, ...] | None  # names or paths; None means all
    zarr_format: Literal[2, 3]
    chunks: str | tuple[tuple[str, int], ...]  # "auto", "partitions", or a length per dimension
    packing: str
    codec: str
    level: int | None  # None means the default of the codec
    missing: str
    on_loss: str
    word_size: int | None = None  # of addresses in PP files
    substitutions: Mapping[str, str] = field(default_factory=dict)  # in names of files of aggregations
    shards: tuple[tuple[str, int], ...] | None = None  # a length per dimension; None means no shards

    @classmethod
    def build(
        cls,
        *,
        variables: Sequence[str] | None,
        zarr_format: int,
        chunks: str | Mapping[str, int],
        packing: str,
        codec: str | None,
        level: int | None,
        missing: str,
        on_loss: str = "error",
        word_size: int | None = None,
        substitutions: Mapping[str, str] | None = None,
        shards: Mapping[str, int] | None = None,
    ) -> Options:
        """Return checked options."""
        _one_of("zarr_format", zarr_format, (3, 2))
        _one_of("packing", packing, ("keep", "decode"))
        _one_of("missing", missing, ("error", "fill"))
        _one_of("on_loss", on_loss, ("error", "drop"))
        _one_of("word_size", word_size, (None, 1, 4, 8))
        codec = "none" if codec is None else "zstd" if is_one(codec, ("auto",)) else codec
        _one_of("codec", codec, tuple(CODECS))
        low, high = CODECS[codec]
        if level is not None and not low <= an_integer(level, "level") <= high:
            raise LimitError(f"level={level} is outside {low} to {high}, the levels of codec {codec!r}")
        if isinstance(variables, Sized) and not isinstance(variables, str) and not len(variables):
            raise OptionError("variables=() selects nothing; name at least one variable, or pass None for all")
        return cls(
            None if variables is None else names(variables, "variables"),
            3 if zarr_format == 3 else 2,
            _chunks(chunks),
            packing,
            codec,
            level,
            missing,
            on_loss,
            word_size,
            substitutions or {},
            _shards(shards, zarr_format, chunks),
        )

    def identity(self) -> dict[str, Any]:
        """Return the options as JSON values, for comparison when a run is resumed."""
        chunks = self.chunks if isinstance(self.chunks, str) else dict(self.chunks)
        variables = None if self.variables is None else list(self.variables)
        shards = {} if self.shards is None else {"shards": dict(self.shards)}
        kept = {k: v for k, v in self.__dict__.items() if k != "shards"}
        return {**kept, "chunks": chunks, "variables": variables, "substitutions": dict(self.substitutions), **shards}


def _one_of(name: str, value: object, known: tuple[object, ...]) -> None:
    """Raise an error for an unknown value."""
    if isinstance(value, bool) or not is_one(value, known):
        raise UnsupportedError(f"{name}={value!r} is not known; choose from {', '.join(map(repr, known))}")


def _chunks(chunks: str | Mapping[str, Any]) -> str | tuple[tuple[str, int], ...]:
    """Return checked chunks."""
    if isinstance(chunks, str):
        if chunks not in ("auto", "partitions"):
            known = "'auto', 'partitions' and mappings such as {'time': 12}"
            raise UnsupportedError(f"chunks={chunks!r} is not known; choose from {known}")
        return chunks
    if not isinstance(chunks, Mapping):
        raise OptionError(f"chunks={chunks!r} is neither 'auto', 'partitions' nor a mapping such as {{'time': 12}}")
    return _lengths(chunks, "chunks", "a chunk")


def _shards(
    shards: Mapping[str, Any] | None, zarr_format: int, chunks: str | Mapping[str, Any]
) -> tuple[tuple[str, int], ...] | None:
    """Return checked shards."""
    if shards is None:
        return None
    if not isinstance(shards, Mapping):
        raise OptionError(f"shards={shards!r} is not a mapping such as {{'time': 360}}")
    if zarr_format == 2:
        raise UnsupportedError("Zarr v2 has no shards; choose zarr_format=3, or leave out shards=")
    if isinstance(chunks, str) and chunks == "partitions":
        raise UnsupportedError(
            "chunks='partitions' are objects of their own; leave out shards=, or choose other chunks"
        )
    return _lengths(shards, "shards", "a shard")


def _lengths(given: Mapping[str, Any], what: str, one: str) -> tuple[tuple[str, int], ...]:
    """Return checked lengths by dimension."""
    for dim, length in given.items():
        if isinstance(length, bool) or not isinstance(length, Integral) or (length < 1 and length != -1):
            raise LimitError(f"{what} of {length!r} along {dim!r}: {one} length is at least 1, or -1 for the whole")
    return tuple((str(d), int(n)) for d, n in given.items())

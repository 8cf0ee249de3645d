"""The options of an accumulation, checked against the array before any of its data are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from cfagg.conventions.accumulation_record import Extra
from cfagg.errors import LimitError, Problem, SelectionError, UnsupportedError
from cfagg.errors.arguments import is_one, names

__all__ = ["CODECS", "Order", "Settings", "check_dims", "check_same", "check_statistics", "check_stride", "sums_kind"]

#: Codecs of the arrays of an accumulation.
CODECS = ("blosc", "zstd", "gzip", "none")

#: Statistics that `statistics` may name.
STATISTICS = ("chunks", "min", "max", "std")

Combination = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Order:
    """The arguments of `accumulate`."""

    store: str
    variable: str
    memory: int
    dims: Any = None
    stride: Any = 1
    weights: Any = None
    statistics: Any = ("chunks",)
    precision: str = "auto"
    codec: str | None = "blosc"
    append: bool = False
    refresh: bool = False
    overwrite: bool = False
    resume: bool = False
    allow: tuple[str, ...] = ()
    #: The dimension along which the group is to grow in place from now on, if it does not yet.
    grows: str | None = None


@dataclass(frozen=True)
class Settings:
    """Everything that determines the content of an accumulation apart from the data and the weights."""

    #: Combinations of dimensions, each in the order of the array.
    dims: tuple[Combination, ...]
    #: For each dimension of the array, the number of chunks between two sums; 1 if it is not accumulated.
    stride: tuple[int, ...]
    #: A subset of "chunks", "min", "max", "std".
    statistics: tuple[str, ...]
    sums: str
    codec: str

    @classmethod
    def build(
        cls, order: Order, where: str, known: Combination, default: Sequence[Combination], *, integer: bool
    ) -> Settings:
        """Return the checked settings of an order for an array with dimensions `known`."""
        if not known:
            raise UnsupportedError(f"{where} is a single value without dimensions to accumulate along")
        chosen = check_dims(default if order.dims is None else order.dims, known, where)
        codec = "none" if order.codec is None else order.codec
        if not is_one(codec, CODECS):
            raise UnsupportedError(f"codec={codec!r} is not known; choose from {', '.join(CODECS)}")
        return cls(
            chosen,
            check_stride(order.stride, chosen, known, where),
            check_statistics(order.statistics, chosen, known),
            sums_kind(order.precision, integer=integer),
            codec,
        )

    @classmethod
    def of(cls, extra: Extra, combinations: Iterable[Combination], codec: str) -> Settings:
        """Return the settings with which an existing accumulation was built."""
        dims = extra.source.dims
        stored = {kind for level in extra.statistics for kind in level.arrays if level.dims != dims}
        names = ["chunks"] if extra.statistics else []
        names += [n for n, key in (("min", "min"), ("max", "max"), ("std", "m2")) if key in stored]
        return cls(
            _ordered(combinations, dims), tuple(extra.stride.get(d, 1) for d in dims), tuple(names), extra.sums, codec
        )

    def identity(self) -> dict[str, Any]:
        """Return the settings as JSON types, for comparison when a run is resumed."""
        return {
            "dims": [list(c) for c in self.dims],
            "stride": list(self.stride),
            "statistics": list(self.statistics),
            "sums": self.sums,
            "codec": self.codec,
        }


def check_dims(dims: Any, known: Combination, where: str) -> tuple[Combination, ...]:
    """Return combinations of dimensions in the array's order, without repetition, short ones first."""
    try:
        entries = [dims] if isinstance(dims, str) else list(dims)
        combinations = [(c,) if isinstance(c, str) else tuple(c) for c in entries]
    except TypeError:
        raise SelectionError(
            f"{where}: dims={dims!r} is not a list of combinations of dimensions such as {[(d,) for d in known]!r}"
        ) from None
    problems = []
    for i, c in enumerate(combinations):
        at = f"dims[{i}]"
        if not c:
            problems.append(Problem(at, "an empty combination; name at least one dimension"))
        problems += [
            Problem(at, f"the array has no dimension {d!r}, only {', '.join(known)}")
            for d in c
            if not isinstance(d, str) or d not in known
        ]
        problems += [Problem(at, f"{d!r} occurs twice") for i, d in enumerate(c) if d in c[:i]]
    if not combinations:
        problems.append(
            Problem("dims", "no combination of dimensions; name at least one, or pass None for the default")
        )
    if problems:
        raise SelectionError(f"{where} cannot be accumulated along these dimensions", problems)
    return _ordered((tuple(d for d in known if d in c) for c in combinations), known)


def _ordered(combinations: Iterable[Combination], known: Combination) -> tuple[Combination, ...]:
    """Return combinations without repetition, short ones first, so that equal settings compare equal."""
    return tuple(sorted(set(combinations), key=lambda c: (len(c), [known.index(d) for d in c])))


def check_stride(stride: Any, chosen: Sequence[Combination], known: Combination, where: str) -> tuple[int, ...]:
    """Return the stride of every dimension of the array, 1 if it is not accumulated."""
    used = {d for c in chosen for d in c}
    given: Mapping[Any, Any] = stride if isinstance(stride, Mapping) else dict.fromkeys(sorted(used), stride)
    unknown = [d for d in given if d not in used]
    if unknown:
        raise SelectionError(
            f"{where}: strides are given for dimensions that are not accumulated",
            [Problem(f"stride[{d!r}]", f"accumulated are {', '.join(d for d in known if d in used)}") for d in unknown],
        )
    found: dict[str, int] = {}
    problems = []
    for d, value in given.items():
        if isinstance(value, bool) or not isinstance(value, Integral):
            problems.append(Problem(f"stride[{d!r}]", f"{value!r} is not an integer"))
            continue
        found[d] = int(value)
        if not 1 <= found[d] < 2**62:
            wrong = "not at least 1" if found[d] < 1 else "more than any array has chunks"
            problems.append(Problem(f"stride[{d!r}]", f"{value!r} is {wrong}"))
    if problems:
        raise LimitError(f"{where}: a stride is the number of chunks from one sum to the next, 1 or more", problems)
    return tuple(found.get(d, 1) for d in known)


def check_statistics(statistics: Any, chosen: Sequence[Combination] = (), known: Combination = ()) -> tuple[str, ...]:
    """Return the statistics to store in their usual order; those of chunks are all of them over all dimensions."""
    given = () if statistics is None else names(statistics, "statistics")
    unknown = [n for n in given if n not in (*STATISTICS, "none")]
    if unknown or ("none" in given and len(set(given)) > 1):
        raise UnsupportedError(
            f"statistics={statistics!r} is not known; choose from {', '.join(map(repr, STATISTICS))}, or 'none'"
        )
    if not given or "none" in given:
        return ()
    if chosen and all(len(c) == len(known) for c in chosen):
        return ("chunks",)
    return tuple(n for n in STATISTICS if n in given or n == "chunks")


def sums_kind(precision: str, *, integer: bool) -> str:
    """Return the kind of numbers to sum in; integers without weights are exact, unless ``"float64"`` is requested."""
    if not is_one(precision, ("auto", "float64", "double-double")):
        raise UnsupportedError(f"precision={precision!r} is not known; choose from 'auto', 'float64', 'double-double'")
    if integer and precision != "float64":
        return "int64"
    return "float64" if precision == "auto" else precision


def check_same(order: Order, settings: Settings, extra: Extra, where: str) -> None:
    """Refuse options that contradict those of the existing accumulation; omitted ones agree."""
    known = extra.weights
    given: dict[str, tuple[Any, Any]] = {}
    if order.dims is not None:
        given["dims"] = sorted(check_dims(order.dims, extra.source.dims, where)), sorted(settings.dims)
    if order.stride != 1:
        given["stride"] = check_stride(order.stride, settings.dims, extra.source.dims, where), settings.stride
    if (statistics := check_statistics(order.statistics, settings.dims, extra.source.dims)) != ("chunks",):
        given["statistics"] = statistics, settings.statistics
    if order.precision != "auto":
        given["precision"] = order.precision, settings.sums
    if order.weights is not None:
        has = None if known is None else known.kind if known.kind != "variable" else known.name
        given["weights"] = order.weights if isinstance(order.weights, str) else "array", has
    problems = [
        Problem(name, f"{value!r} was requested, but the accumulation has {existing!r}")
        for name, (value, existing) in given.items()
        if value != existing
    ]
    if problems:
        raise SelectionError(
            f"{where} keeps its settings when it is appended to or refreshed; leave these options out, or rebuild it "
            "with overwrite=True (--overwrite)",
            problems,
        )

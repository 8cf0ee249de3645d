"""The table of parsers that are fuzzed, and how one is registered.

A parser is a function of one input: bytes, text, or an object as JSON has them.  Its seeds are good inputs; each fuzzed
input is one of them with a few changes.  Register it in one of the modules named in `MODULES`::

    @target("cell methods", seeds=lambda: ["time: mean", "area: mean where land"], tokens=["mean", "(", ":"])
    def cell_methods(text: str) -> None:
        parse(text)

Only the exceptions in `allowed` may come out; by default those of cfagg.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from random import Random
from typing import Any

from cfagg.errors import CfaggError
from tests.fuzzing.changing import change, changed_byte

#: Modules that register parsers.
MODULES = ("files", "fields", "conventions", "texts", "stores", "documents", "indexes", "trial")

#: The share of inputs that are finished.
_FINISHED = 0.7

#: Registered parsers by name.
TABLE: dict[str, Target] = {}


@dataclass(frozen=True)
class Target:
    """A parser.

    Parameters
    ----------
    name : str
        Its name.
    call : callable
        Takes one input; what it returns does not matter.
    seeds : callable
        Returns good inputs.
    tokens : sequence
        Pieces that may be put in.
    allowed : tuple of type
        Exceptions that may come out.
    file : bool
        Whether an input is the bytes of a whole file, which every other parser of files has to survive too.
    every : bool
        Whether inputs are all that differ from a seed in one byte, or are cut off, in a mixed but fixed order.
    finish : callable, optional
        Puts right what would keep most changes from getting deeper, such as checksums; takes a changed input and a
        good one of each kind.  Seven of ten inputs go through it.
    share : float
        How many inputs it gets in the long runs, as a share of what others get: less than one for slow parsers
        of which another entry of the table runs the same code.
    pending : bool
        Whether it is known to fail, so that no test runs it.
    trial : bool
        Whether it is there to fail, for the tests of the fuzzers.
    """

    name: str
    call: Callable[[Any], Any]
    seeds: Callable[[], Sequence[Any]]
    tokens: Sequence[Any] = ()
    allowed: tuple[type[BaseException], ...] = (CfaggError,)
    file: bool = False
    every: bool = False
    finish: Callable[[Any, Sequence[Any]], Any] | None = None
    share: float = 1.0
    pending: bool = False
    trial: bool = False

    def input(self, seed: int, index: int, seeds: Sequence[Any] | None = None) -> Any:
        """Return a changed input, always the same for the same numbers."""
        good = self.seeds() if seeds is None else seeds
        if self.every:
            made = changed_byte(good, index)
            return made if self.finish is None else self.finish(made, good)
        random = Random(f"{self.name}:{seed}:{index}")
        made = change(good, random, self.tokens)
        return self.finish(made, good) if self.finish is not None and random.random() < _FINISHED else made


def target(name: str, **options: Any) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Register a function as a parser."""

    def register(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        if name in TABLE:
            raise ValueError(f"{name!r} is registered twice")
        TABLE[name] = Target(name, call, **options)
        return call

    return register


def table() -> dict[str, Target]:
    """Return all parsers."""
    for module in MODULES:
        import_module(f"tests.fuzzing.{module}")
    return TABLE


def find(name: str) -> Target:
    """Return one parser, importing as few modules as that takes."""
    for module in reversed(MODULES):
        if name not in TABLE:
            import_module(f"tests.fuzzing.{module}")
    return TABLE[name]


def load(raw: bytes, like: Any) -> Any:
    """Return a stored input as the parser takes it."""
    import json

    if isinstance(like, bytes):
        return raw
    return raw.decode("utf-8", "surrogatepass") if isinstance(like, str) else json.loads(raw)


def dump(value: Any) -> bytes:
    """Return an input as it is stored."""
    import json

    if isinstance(value, bytes):
        return value
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else json.dumps(value).encode()

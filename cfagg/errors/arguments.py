"""Validation of arguments of public functions: a wrong type is refused in one sentence that names the argument."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Container, Iterable, Mapping
from itertools import islice
from numbers import Integral, Real
from typing import Any

from cfagg.errors import CfaggError, LimitError, OptionError, SelectionError

__all__ = [
    "a_function",
    "a_mapping",
    "a_new_file",
    "a_number",
    "a_path",
    "a_text",
    "about",
    "an_integer",
    "closest",
    "dimensions",
    "flags",
    "functions",
    "is_one",
    "names",
    "paths",
    "shared",
    "shown",
    "some",
    "texts",
]

#: Maximum number of names that are listed, number that are compared for suggestions, and their maximum length.
_LISTED, _COMPARED, _LONGEST = 20, 5000, 200


def some(names: Iterable[object]) -> str:
    """Return the first of some names, and the number of the others.

    >>> some(f"v{k}" for k in range(22))[-15:]
    ' v19 and 2 more'
    """
    listed = list(map(str, names))
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return (", ".join(listed[:_LISTED]) or "none") + more


def closest(word: object, known: Iterable[object]) -> str:
    """Return a suggestion of the known name with the most similar spelling, or "" if there is none.

    >>> closest("Air_temprature", ["time", "air_temperature"])
    '; did you mean air_temperature?'
    >>> closest("x", ["time"])
    ''
    """
    from difflib import get_close_matches

    wrong = str(word)[: _LONGEST + 1]
    by_form: dict[str, str] = {}
    for name in islice(map(str, known), _COMPARED):
        if len(name) <= _LONGEST:
            by_form.setdefault(name.lower(), name)
    near = get_close_matches(wrong.lower(), by_form, 1) if len(wrong) <= _LONGEST else []
    return f"; did you mean {by_form[near[0]]}?" if near else ""


def a_path(value: Any, name: str = "path", *, expected: str = "name a file or a Zarr store") -> str:
    """Return a path, given as text, bytes or a path-like object, as text.

    >>> a_path(b"a.nc")
    'a.nc'
    >>> a_path(3, "store")
    Traceback (most recent call last):
    ...
    cfagg.errors.OptionError: store: an object of type int is not a path; name a file or a Zarr store
    """
    if not isinstance(value, str | bytes | os.PathLike):
        raise OptionError(f"{name}: an object of type {type(value).__name__} is not a path; {expected}")
    found = os.fsdecode(value)
    if "\0" in found:
        raise OptionError(f"{name}: {found!r} contains a null character, which no path does; {expected}")
    return found


def a_new_file(value: Any, name: str) -> str:
    """Return the path of a file to be written as text; an empty one is refused."""
    found = a_path(value, name, expected="name a file")
    if not found:
        raise OptionError(f"{name}: '' is not a file name; name the file to write")
    return found


def paths(value: Any) -> tuple[str, ...]:
    """Return one path to allow, or several, as text."""
    if isinstance(value, str | bytes | os.PathLike):
        return (a_path(value, "allow"),)
    _several(value, "allow", "a path or a list of paths")
    return tuple(a_path(v, "allow", expected="give a path or a list of paths") for v in value)


def names(value: Any, name: str) -> tuple[str, ...]:
    """Return one name, or several, as a tuple."""
    if isinstance(value, str):
        return (value,)
    _several(value, name, "a name or a list of names")
    return tuple(a_text(v, name, "a name or a list of names") for v in value)


def dimensions(value: Any, name: str = "dim") -> tuple[Any, ...]:
    """Return one dimension, or several, as a tuple; whether the array has them is not checked."""
    if isinstance(value, str):
        return (value,)
    _several(value, name, "a dimension or a list of dimensions", SelectionError)
    return tuple(value)


def a_function(value: Any, name: str) -> Any:
    """Return a function, or `None`, unchanged."""
    if value is not None and not callable(value):
        raise OptionError(f"{name}: found an object of type {type(value).__name__}; expected a function")
    return value


def functions(value: Any, name: str) -> tuple[Any, ...]:
    """Return several functions as a tuple."""
    _several(value, name, "a list of functions")
    found = tuple(value)
    if odd := [type(one).__name__ for one in found if not callable(one)]:
        raise OptionError(f"{name}: found an object of type {odd[0]}; expected a list of functions")
    return found


def a_text(value: Any, name: str, expected: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise OptionError(f"{name}: found an object of type {type(value).__name__}; expected {expected}")
    return value


def a_mapping(value: Any, name: str, expected: str, error: type[CfaggError] = OptionError) -> dict[Any, Any]:
    """Return a mapping as a dictionary, an empty one for None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise error(f"{name}: found an object of type {type(value).__name__}; expected {expected}")
    return dict(value)


def texts(value: Any, name: str, expected: str) -> dict[str, str]:
    """Return a mapping of texts to texts as a dictionary, an empty one for None."""
    found = a_mapping(value, name, expected)
    return {a_text(k, name, expected): a_text(v, name, expected) for k, v in found.items()}


def flags(**given: Any) -> None:
    """Refuse flags that are not `True` or `False`, also of NumPy: a text such as "no" would count as `True`."""
    for name, value in given.items():
        if not (isinstance(value, bool) or (str(getattr(value, "dtype", "")) == "bool" and value.shape == ())):
            raise OptionError(f"{name}: found {_shown(value)}; expected True or False")


def shared(**given: Any) -> None:
    """Refuse values of the wrong kind for options that many functions have, also where they are not used.

    >>> shared(word_size=3)
    Traceback (most recent call last):
    ...
    cfagg.errors.OptionError: word_size=3 is not known; choose 1, 4 or 8
    """
    for name, value in given.items():
        _SHARED[name](value, name)


def about[T](name: str, make: Callable[..., T], *given: Any) -> T:
    """Return what a function makes of an argument; its errors name the argument."""
    try:
        return make(*given)
    except OptionError as error:
        raise type(error)(f"{name}: {error.message}", error.problems) from None


def is_one(value: Any, known: Container[Any]) -> bool:
    """Return whether a value is a known one, which no array is: NumPy and pandas compare elements."""
    return isinstance(value, str | Integral | None) and value in known


def an_integer(value: Any, name: str) -> int:
    """Return an integer, including those of NumPy."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise OptionError(f"{name}: found {_shown(value)}; expected an integer")
    return int(value)


def a_number(value: Any, name: str, expected: str, error: type[CfaggError] = OptionError) -> Any:
    """Return a real number that 64 bits hold as a finite one, unchanged."""
    try:
        is_one = not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
    except OverflowError:
        is_one = False
    if not is_one:
        raise error(f"{name}: found {_shown(value)}; expected {expected}")
    return value


def _count(value: Any, name: str) -> None:
    if value is not None and an_integer(value, name) < 1:
        raise LimitError(f"{name}={value} is less than 1")


def _seconds(value: Any, name: str) -> None:
    if value is not None and a_number(value, name, "a number of seconds") <= 0:
        raise OptionError(f"{name}: found {value!r}; expected a number of seconds above 0")


def _storage(value: Any, name: str) -> None:
    a_mapping(value, name, "a mapping such as {'skip_signature': True}")


def _substitutions(value: Any, name: str) -> None:
    texts(value, name, "a mapping such as {'base': '/archive/'}")


def _word_size(value: Any, name: str) -> None:
    if isinstance(value, bool) or not is_one(value, (None, 1, 4, 8)):
        raise OptionError(f"{name}={shown(value)} is not known; choose 1, 4 or 8")


def _loss(value: Any, name: str) -> None:
    if not is_one(value, ("error", "materialise", "drop")):
        raise OptionError(f"{name}={shown(value)}: expected 'error', 'materialise' or 'drop'")


#: What options of many functions accept.
_SHARED: dict[str, Callable[[Any, str], object]] = {
    **dict.fromkeys(("storage_options", "target_options", "data_options"), _storage),
    **dict.fromkeys(("workers", "jobs"), _count),
    "substitutions": _substitutions,
    "progress": a_function,
    "timeout": _seconds,
    "word_size": _word_size,
    "on_loss": _loss,
}


def shown(value: Any) -> str:
    """Return the representation of a value on one line, cut if it is long."""
    found = " ".join(repr(value).split())
    return found if len(found) <= _LONGEST else f"{found[:_LONGEST]}…"


def _shown(value: Any) -> str:
    """Return the representation of a number, and only the type of anything else, which may be long."""
    return repr(value) if isinstance(value, Real) else f"an object of type {type(value).__name__}"


def _several(value: Any, name: str, expected: str, error: type[CfaggError] = OptionError) -> None:
    # Iterating a mapping would silently leave out its values, such as those of a selection.
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable) or getattr(value, "shape", None) == ():
        raise error(f"{name}: found an object of type {type(value).__name__}; expected {expected}")

"""Strict JSON of an aggregation, with the long list of partitions passed on in batches.

A million partitions as nested dictionaries would take gigabytes, so only a batch of them exists at any time.
"""

from __future__ import annotations

import gc
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from cfagg.conventions import limits
from cfagg.conventions.findings import shorten
from cfagg.errors import CfaggError, ConventionError, LimitError

__all__ = ["BATCH", "BrokenJSONError", "NotJSONError", "load"]

#: Elements passed on at a time: enough to vectorise over, few enough to stay in the processor's cache.
BATCH = 4096

#: Elements that are decoded one by one before their length is known, and the most characters that are decoded at once.
_FIRST, _SPAN = 16, 2**22
#: Number of spans that cannot be decoded at once after which this is no longer tried.
_FAILURES = 8

_space = re.compile(r"[ \t\n\r]*+").match
_comma = re.compile(r"[ \t\n\r]*+,[ \t\n\r]*+").match

Batch = Callable[[list[Any], int, dict[str, Any]], None]


class BrokenJSONError(ConventionError):
    """Text that is not a single object in strict JSON without duplicate keys."""


class NotJSONError(BrokenJSONError):
    """Text that is not strict JSON but can perhaps be repaired."""


class _DuplicateKeyError(Exception):
    """A key occurs twice in one object."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; a duplicate key would silently lose a value."""
    value = dict(pairs)
    if len(value) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise _DuplicateKeyError(next(key for key, count in counts.items() if count > 1))
    return value


_decode = json.JSONDecoder(object_pairs_hook=_object).raw_decode
#: Does not detect duplicate keys.
_decode_all = json.JSONDecoder().decode


def load(text: str, batch: Batch, key: str = "Partitions") -> dict[str, Any]:
    """Decode a JSON object; pass its list on in batches and replace it with the range of element indices."""
    if len(text) > limits.MAX_TEXT:
        raise LimitError(f"{len(text)} characters of JSON; at most {limits.MAX_TEXT} are read")
    try:
        return _object_with(text, batch, key)
    except json.JSONDecodeError as error:
        raise NotJSONError(f"line {error.lineno} column {error.colno}: {error.msg}") from None
    except _DuplicateKeyError as error:
        raise BrokenJSONError(f"the key {shorten(error.args[0])} occurs twice in one JSON object") from None
    except RecursionError:
        raise LimitError("lists and objects are nested too deeply") from None
    except CfaggError:
        raise
    except ValueError:  # Python's limit on the digits of an integer
        raise LimitError("an integer has thousands of digits") from None


def _object_with(text: str, batch: Batch, key: str) -> dict[str, Any]:
    """Return the object in the text, with one of its lists passed on."""
    head: dict[str, Any] = {}
    i = _skip(text, 0)
    if text[i : i + 1] != "{":
        value, end = _decode(text, i)
        _expect_end(text, end)
        raise BrokenJSONError(f"the JSON is not an object; found {shorten(value)}")
    i = _skip(text, i + 1)
    if text[i : i + 1] == "}":
        _expect_end(text, i + 1)
        return head
    while True:
        if text[i : i + 1] != '"':
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, i)
        name, i = _decode(text, i)
        i = _skip(text, i)
        if text[i : i + 1] != ":":
            raise json.JSONDecodeError("Expecting ':' delimiter", text, i)
        i = _skip(text, i + 1)
        if name in head:
            raise _DuplicateKeyError(name)
        if name == key and text[i : i + 1] == "[":
            with _uncollected():
                count, i = _elements(text, i + 1, batch, dict(head), key)
            head[name] = range(count)
        else:
            head[name], i = _decode(text, i)
        i = _skip(text, i)
        mark = text[i : i + 1]
        i = _skip(text, i + 1)
        if mark == "}":
            _expect_end(text, i)
            return head
        if mark != ",":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, i)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause the garbage collector: decoded JSON has no cycles, and searching it takes as long as decoding it."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _elements(text: str, i: int, batch: Batch, head: dict[str, Any], key: str) -> tuple[int, int]:
    """Pass on the elements of the list that starts before `i`; return their number and the position after the list."""
    i = _skip(text, i)
    if text[i : i + 1] == "]":
        return 0, i + 1
    count, failures = 0, 0
    held: list[Any] = []
    begin = i
    while True:
        seen = count + len(held)
        if seen >= _FIRST and failures < _FAILURES and len(held) <= BATCH - _FIRST:
            some, i = _several(text, i, min((i - begin) // seen * (BATCH - len(held)), _SPAN))
            failures += not some
            held += some
        try:
            value, i = _decode(text, i)
        except _DuplicateKeyError as error:
            raise BrokenJSONError(
                f"the key {shorten(error.args[0])} occurs twice in one JSON object (in {key}[{count + len(held)}])"
            ) from None
        held.append(value)
        whole = len(held) // BATCH * BATCH
        for start in range(0, whole, BATCH):
            batch(held[start : start + BATCH], count, head)
            count += BATCH
            if count >= limits.MAX_PARTITIONS:
                raise LimitError(f"more than {limits.MAX_PARTITIONS} elements in {key}")
        if whole:
            held = held[whole:]
        if (comma := _comma(text, i)) is not None:
            i = comma.end()
            continue
        i = _skip(text, i)
        if text[i : i + 1] == "]":
            break
        raise json.JSONDecodeError("Expecting ',' delimiter", text, i)
    if held:
        batch(held, count, head)
    return count + len(held), i + 1


def _several(text: str, i: int, width: int) -> tuple[list[dict[str, Any]], int]:
    """Return objects decoded at once from about `width` characters, and the position of the next element."""
    # Returns none if that fails or keys may be duplicate; the elements are then decoded one by one.
    end = i + width
    for _ in range(8):
        end = text.rfind("}", i, end)
        comma = _comma(text, end + 1) if end >= 0 else None
        if end < 0:
            break
        if comma is None or text[comma.end() : comma.end() + 1] != "{":
            continue
        # Decoding is from left to right, so a valid list up to this comma is also the result of decoding one by one.
        try:
            found = _decode_all(f"[{text[i : end + 1]}]")
        except (ValueError, RecursionError):
            break
        if not {dict}.issuperset(map(type, found)):
            break
        inner = [v for v in chain.from_iterable(map(dict.values, found)) if type(v) is dict]
        keys = sum(map(len, found)) + sum(map(len, inner))
        # Each key in the text has a colon after it, which no slash can follow; other colons are in strings.
        if keys != text.count(":", i, end + 1) - text.count("://", i, end + 1):
            break
        return found, comma.end()
    return [], i


def _skip(text: str, i: int) -> int:
    """Return the next position that is not white space."""
    return _space(text, i).end()  # type: ignore[union-attr]


def _expect_end(text: str, i: int) -> None:
    """Raise unless only white space follows."""
    i = _skip(text, i)
    if i != len(text):
        raise json.JSONDecodeError("Extra data", text, i)

"""Small changes of good inputs: of bytes, of text, and of objects as JSON has them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from random import Random
from typing import Any

#: Numbers at which sizes and counts go wrong.
NUMBERS = [
    *(0, 1, 2, 3, 4, 7, 8, 11, 12, 16, 64, 127, 128, 255, 256, 1000, 32767, 32768, 65535, 65536, 2**24, 2**30),
    *(2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 2, 2**64 - 1),
]

#: Words that are put into texts.
WORDS = [
    *("", " ", "0", "-1", "1", "1.5", "1e999", "-1e400", "NaN", "nan", "Infinity", "9" * 30, "1" * 5000, "-0", "0x10"),
    *("null", "true", "\0", "\n", "\t", "\r\n", "\ufeff", "é", "\u2028", "\ud800", "\U0001f600", "٣", "²", "\x85"),
    *("(" * 2000, "[" * 2000, "{" * 2000, '"', "'", "\\", "//", "#", "%", ":", ";", ",", "=", ".", "-", "+", "/", "*"),
    *("a", "x:", "1900-01-01", "days since", "_", "..", "../..", "/", "mean", "K"),
]

#: Values that are put into objects.
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3.5, 1e308, 10**30, -(10**30), 2**31, 2**63, 2**64, float("nan"), float("inf")),
    *("", "a", "0", "\0", "é", "\ud800", "NaN", "<f8", "|O", "../x", "x" * 5000, [], [0], [[]], [None], {}, {"a": 1}),
    *([1, 2, 3], [2**40], [-1], [2**63, 2**63], {"name": "x"}, {"id": "zlib"}, [{"name": "bytes"}], [1] * 40),
]


def change(seeds: Sequence[Any], random: Random, tokens: Sequence[Any] = ()) -> Any:
    """Return one of several good inputs with one to eight changes."""
    value = random.choice(seeds)
    other = random.choice(seeds)
    if not isinstance(value, bytes | str):
        value = copy.deepcopy(value)
    for _ in range(random.choice((1, 1, 1, 1, 2, 2, 3, 5, 8))):
        if isinstance(value, bytes):
            value = _bytes(value, other, random)
        elif isinstance(value, str):
            value = _text(value, other, random, tokens)
        else:
            value = _object(value, other, random, tokens)
    return value


def changed_byte(seeds: Sequence[bytes], index: int) -> bytes:
    """Return a seed with one byte inverted, with its lowest or highest bit changed, or cut off before it.

    The numbers below four times the length of all seeds give each of them once.
    """
    total = 4 * sum(map(len, seeds))
    at, kind = divmod(index * 1_000_000_007 % total, 4)
    for data in seeds:
        if at < len(data):
            break
        at -= len(data)
    if kind == 3:
        return data[:at]
    return data[:at] + bytes([data[at] ^ (255, 1, 128)[kind]]) + data[at + 1 :]


def _bytes(data: bytes, other: bytes, random: Random) -> bytes:
    size = len(data)
    at = random.randrange(size + 1)
    kind = random.randrange(12)
    if kind < 4 and size:  # a byte
        at = min(at, size - 1)
        new = random.choice((data[at] ^ 1 << random.randrange(8), random.randrange(256), 0, 255, data[at] + 1 & 255))
        return data[:at] + bytes([new]) + data[at + 1 :]
    if kind < 8:  # a number, of the order of either kind of computer
        width = random.choice((1, 2, 4, 4, 8, 8))
        number = random.choice(NUMBERS) if random.random() < 0.8 else random.choice((size, size + 1, size - 1, at))
        at -= at % random.choice((1, width, width))
        packed = (number & (1 << 8 * width) - 1).to_bytes(width, random.choice(("big", "little")))
        return data[:at] + packed + data[at + width :]
    if kind == 8:  # cut off
        return data[:at]
    if kind == 9:  # out
        return data[:at] + data[at + random.choice((1, 2, 4, 8, 16, 100)) :]
    length = random.choice((1, 2, 4, 8, 16, 64, 256))
    if kind == 10:  # in, or over what stands there
        start = random.randrange(len(other) + 1)
        return data[:at] + other[start : start + length] + data[at + random.choice((0, length)) :]
    return data[:at] + random.choice((bytes(length), b"\xff" * length, data[at : at + length])) + data[at:]


def _text(text: str, other: str, random: Random, tokens: Sequence[str]) -> str:
    size = len(text)
    at = random.randrange(size + 1)
    end = min(size, at + random.choice((0, 1, 1, 2, 5, 20)))
    kind = random.randrange(9)
    if kind == 0:
        return text[:at] + text[end:]
    if kind < 3 and tokens:
        return text[:at] + random.choice(tokens) + text[end:]
    if kind < 4:
        return text[:at] + random.choice(WORDS) + text[end:]
    if kind == 4:
        return text[:at] + chr(random.choice((random.randrange(128), random.randrange(0x110000)))) + text[end:]
    if kind == 5:
        return text[:at] + text[at:end] * random.choice((2, 2, 3, 200)) + text[end:]
    if kind == 6:
        start = random.randrange(len(other) + 1)
        return text[:at] + other[start : start + random.choice((1, 5, 30, 200))] + text[end:]
    digits = [i for i, c in enumerate(text) if c.isdigit()]
    if kind == 7 and digits:
        at = random.choice(digits)
        return text[:at] + str(random.choice((random.choice(NUMBERS), random.randrange(10), -1, 0.5))) + text[at + 1 :]
    return text[:at]


def _object(value: Any, other: Any, random: Random, tokens: Sequence[Any]) -> Any:
    places = list(_places(value))
    if not places:
        return copy.deepcopy(other)
    holder, key = random.choice(places)
    kind = random.randrange(10)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        within = list(_places(other))
        source = random.choice(within) if within else None
        holder[key] = copy.deepcopy(source[0][source[1]]) if source else None
    elif kind == 2 and isinstance(holder, dict):
        holder[random.choice((*holder, "a", "name", "configuration", "", "é"))] = holder.pop(key)
    elif kind == 3 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif isinstance(holder[key], str) and kind < 7:
        holder[key] = _text(holder[key], holder[key], random, [t for t in tokens if isinstance(t, str)])
    elif isinstance(holder[key], int | float) and not isinstance(holder[key], bool) and kind < 7:
        holder[key] = random.choice((random.choice(NUMBERS), -random.choice(NUMBERS), holder[key] + 1, 0.5))
    else:
        holder[key] = copy.deepcopy(random.choice(tokens if tokens and random.random() < 0.5 else VALUES))
    return value


def _places(value: Any) -> Any:
    """Yield everything within an object as what holds it and the key."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            yield holder, key
            waiting.append(holder[key])

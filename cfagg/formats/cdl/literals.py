"""Numbers, characters and texts in CDL."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from cfagg.cf.missing import WRITTEN_FILLS
from cfagg.cf.values import integer_range
from cfagg.errors import LimitError, SourceError
from cfagg.model.dataset import Kind, Variable

__all__ = ["TYPES", "Token", "characters", "fill_of", "fits", "kind_of", "number", "text_of", "unquoted"]

#: CDL type -> NumPy type.
TYPES = {
    "char": "S1", "byte": "i1", "ubyte": "u1", "short": "i2", "ushort": "u2", "int": "i4", "integer": "i4",
    "long": "i4", "uint": "u4", "uinteger": "u4", "ulong": "u4", "int64": "i8", "uint64": "u8",
    "float": "f4", "real": "f4", "double": "f8", "string": "O",
}  # fmt: skip

#: netCDF's default fill values, by NumPy type.
_FILLS: dict[str, Any] = {**WRITTEN_FILLS, "S1": b"\0", "O": ""}

#: Suffixes of numbers in CDL -> NumPy type.
_SUFFIXES = {
    "b": "i1", "ub": "u1", "s": "i2", "us": "u2", "": "i4", "l": "i4", "u": "u4", "ul": "u4", "ll": "i8", "ull": "u8",
    "f": "f4", "d": "f8",
}  # fmt: skip

_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f", b"v": b"\v", b"0": b"\0"}

#: A byte by its octal or hexadecimal number, or any other character after a backslash.
_ESCAPED = re.compile(rb"\\(?:([0-3][0-7]{2})|[xX]([0-9a-fA-F]{2})|(.))", re.DOTALL)


class Token(NamedTuple):
    """A word, number, text or mark, and its line."""

    kind: str
    text: str
    line: int


def kind_of(type_: str) -> Kind:
    """Return the kind of values of a variable of a type."""
    if type_ in ("char", "string"):
        return "char" if type_ == "char" else "string"
    return "float" if type_ in ("float", "real", "double") else "integer"


def fill_of(variable: Variable) -> Any:
    """Return the value of elements of a variable that are not given, in the text or at the end of one of its texts."""
    own: Any = variable.attributes.get("_FillValue")
    if isinstance(own, np.ndarray) and own.size and fits(own[0], variable.dtype):
        return own[0]
    if isinstance(own, str | bytes | tuple) and own and variable.kind in ("string", "char"):
        first = own if isinstance(own, str | bytes) else own[0]
        return first if variable.kind == "string" else (first.encode() if isinstance(first, str) else first)[:1]
    return _FILLS[variable.dtype.str.lstrip("<>|=") if variable.dtype != object else "O"]


def fits(value: Any, dtype: np.dtype[Any] | str) -> bool:
    """Whether a type holds a number; `ncgen` drops excess bits of integers, and what C makes of reals is undefined."""
    wanted = np.dtype(dtype)
    if wanted.kind not in "iu" or not isinstance(value, float | np.floating):
        return True
    least, most = integer_range(wanted)
    return least - 1 < float(value) < most + 1


def characters(variable: Variable, raw: bytes, fill: bytes, limit: int) -> list[bytes]:
    """Return the characters of a text, padded to the last of several dimensions as in ``ncgen``."""
    if len(variable.dimensions) < 2 or variable.dimensions[-1].unlimited:
        return [raw[i : i + 1] for i in range(len(raw))]
    width = variable.dimensions[-1].size
    if width > limit:
        raise LimitError(f"{variable.path!r} has texts of {width:,} characters; up to {limit:,} are read from CDL")
    whole = raw.ljust(-(-max(len(raw), 1) // width) * width, fill) if width else b""
    return [whole[i : i + 1] for i in range(len(whole))]


def unquoted(text: str) -> bytes:
    r"""Return the bytes between quotation marks, some of which ``ncdump`` prints by their octal numbers.

    >>> unquoted(r'"caf\303\251\n\000"')
    b'caf\xc3\xa9\n\x00'
    """

    def byte(found: re.Match[bytes]) -> bytes:
        octal, hexadecimal, other = found.groups()
        return _ESCAPES.get(other, other) if other else bytes([int(octal, 8) if octal else int(hexadecimal, 16)])

    return _ESCAPED.sub(byte, text[1:-1].encode("utf-8", "surrogatepass"))


def text_of(token: Token) -> str:
    """Return a text, a number as written, or an empty text."""
    if token.kind == "number":
        return token.text
    # Texts end at their first null character, as those of C.
    raw = b"" if token.text == "NIL" and token.kind == "word" else unquoted(token.text).partition(b"\0")[0]
    return raw.decode("utf-8", "replace")


def number(text: str) -> tuple[int | float, str]:
    """Return the value of a number in CDL and its NumPy type."""
    body = text.lower()
    if body.lstrip("+-").startswith("0x"):
        return int(body.rstrip("uls"), 16), "i4"
    word = re.fullmatch(r"(?:double|(float))?([-+]?(?:nan|infinity|inf))(f?)", body)
    if word:
        return float(word[2]), "f4" if word[1] or word[3] else "f8"
    match = re.fullmatch(r"([-+]?[\d.]+(?:[ed][-+]?\d+)?)([a-z]*)", body)
    if match is None:
        raise SourceError(f"{text!r} is not a number in CDL")
    digits, suffix = match[1], match[2]
    real = "." in digits or "e" in digits or "d" in digits or suffix in ("f", "d")
    if real:
        return float(digits.replace("d", "e")), "f4" if suffix == "f" else "f8"
    octal = re.match(r"[-+]?0[0-9]", digits) is not None
    if octal and re.search("[89]", digits):
        raise SourceError(f"{text!r} is not a number in CDL: it begins with 0, so that it is octal, without 8 and 9")
    value = int(digits, 8 if octal else 10)
    return value, _SUFFIXES.get(suffix, "i4") if suffix or -(2**31) <= value < 2**31 else "i8"

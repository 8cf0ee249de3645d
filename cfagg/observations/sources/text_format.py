"""The format of tables in text: what separates columns, lines without data, words for missing values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from cfagg.errors import SourceError
from cfagg.observations.settings import Names, Section, Text, Whole, says, wrong
from cfagg.observations.sources.sorted_rows import as_file
from cfagg.observations.sources.text_lines import BETWEEN, ChangedText, between_tabs, cut, without_comments
from cfagg.storage.urls import Url

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TextFormat"]

#: Text for missing values, besides empty text.
_MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "-nan", "-NaN"]

#: The delimiter that stands for any number of spaces and tabs.
_SPACES = "whitespace"

#: Ends of names of packed files that are not unpacked here.
_PACKED = (".xz", ".zip", ".z", ".7z", ".tar")

#: The first and the last character of a column, counted from 1.
_RANGE = re.compile(r"\s*(\d{1,9})\s*(?:[-:]\s*(\d{1,9})\s*)?")


def _delimiter(value: str) -> str:
    if value != _SPACES and (len(value) != 1 or not value.isascii()):
        raise ValueError(f"{value!r} is neither one character nor {_SPACES}")
    return value


def _sign(value: str) -> str:
    if len(value) != 1 or not value.isascii():
        raise ValueError(f"{value!r} is not one character")
    return value


def _mark(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isascii() or not value.isprintable():
        raise ValueError(f"{value!r} is not what lines of comments begin with, such as '#'")
    return value


def _encoding(value: str) -> str:
    try:
        "".encode(value)
    except (LookupError, ValueError):  # for a name with a NUL
        raise ValueError(f"{value!r} is not the name of an encoding of text") from None
    return value


def _words(value: Any) -> list[str]:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return [str(value)]
    if not isinstance(value, list | tuple) or not all(isinstance(v, str | int | float) for v in value):
        raise ValueError(f"{value!r} is not a list of words and numbers for missing values")
    return [str(v) for v in value]


def _positions(value: Any) -> dict[str, tuple[int, int]]:
    """Return the first and the last character of columns."""
    if not isinstance(value, Mapping) or not value or not all(isinstance(n, str) and n for n in value):
        raise ValueError(f"{value!r} is not a mapping of columns to their characters, such as {{year: 1-4}}")
    found = {}
    for name, given in value.items():
        ends = _RANGE.fullmatch(str(given)) if isinstance(given, str | int) and not isinstance(given, bool) else None
        first, last = (0, 0) if ends is None else (int(ends[1]), int(ends[2] or ends[1]))
        if not 1 <= first <= last:
            raise ValueError(f"{given!r} of {name} is not a range of characters counted from 1, such as 1-4")
        found[name] = (first, last)
    return found


#: A number of lines that pyarrow can skip.
_Lines = Annotated[Whole, Field(lt=2**31), says("is not a whole number of lines from 0")]


class TextFormat(Section):
    """The format of a table in text."""

    delimiter: Annotated[Text, AfterValidator(_delimiter)] = ","
    decimal: Annotated[Text, AfterValidator(_sign)] = "."
    encoding: Annotated[Text, AfterValidator(_encoding)] = "utf-8"
    comment: Annotated[str, PlainValidator(_mark)] | None = None
    skip_rows: _Lines = 0
    skip_after_names: _Lines = 0
    names: Names | None = None
    positions: Annotated[dict[str, tuple[int, int]], PlainValidator(_positions)] | None = None
    missing: Annotated[list[str], PlainValidator(_words)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.names == ():
            raise wrong((("names",), "is an empty list; leave it out if the file has a line of names"))
        if self.positions is not None:
            others = ("names", "delimiter", "skip_after_names")
            if clash := [key for key in others if getattr(self, key) != type(self).model_fields[key].default]:
                raise wrong((("positions",), f"has the names and ends of all columns; leave out {', '.join(clash)}"))
        elif self.decimal == self.delimiter:
            raise wrong((("decimal",), f"{self.decimal!r} is also the delimiter"))
        by_line = {"delimiter": self.delimiter == _SPACES, "comment": self.comment, "positions": self.positions}
        for key in (key for key, used in by_line.items() if used):
            if not self._of_ascii:
                said = f"{_SPACES} is not found" if key == "delimiter" else "is not supported"
                raise wrong(((key,), f"{said} in text in {self.encoding}; convert the file to utf-8"))
        return self

    @property
    def _of_ascii(self) -> bool:
        """Whether lines and blanks are those of ASCII."""
        return "# \t\n".encode(self.encoding) == b"# \t\n"

    @property
    def missing_numbers(self) -> list[float]:
        """The words for missing values that are numbers."""
        found = []
        for word in self.missing:
            with suppress(ValueError):
                found.append(float(word.strip().replace(self.decimal, ".")))
        return found

    def inferred(self, path: str, head: int) -> pa.Schema:
        """Return the names of a file's columns, and their types as its first bytes suggest."""
        from pyarrow import csv

        with self._stream(path) as stream:
            return csv.open_csv(stream, *self._options(head)).schema

    def open(self, path: str, types: Mapping[str, Any], block: int) -> Any:
        """Return a reader of some columns of a file, with their types."""
        from pyarrow import csv

        options = self._options(block, column_types=types, include_columns=list(types))
        return csv.open_csv(self._stream(path), *options)

    def masked(self, table: pa.Table) -> pa.Table:
        """Return a table whose numbers are missing where `missing` has them, however the file writes them."""
        import pyarrow as pa
        from pyarrow import compute

        numbers = self.missing_numbers
        for i, field in enumerate(table.schema if numbers else ()):
            if pa.types.is_floating(field.type):
                column = table.column(i)
                gone = compute.is_in(column, value_set=pa.array(numbers, field.type))
                table = table.set_column(i, field, compute.if_else(gone, pa.scalar(None, field.type), column))
        return table

    def _options(self, block: int, **convert: Any) -> tuple[Any, Any, Any]:
        """Return pyarrow's options for reading, parsing and converting text."""
        from pyarrow import csv

        names: Sequence[str] | None = self.names if self.positions is None else list(self.positions)
        if self.positions is not None:
            parse = csv.ParseOptions(delimiter=BETWEEN, quote_char=False)
        else:
            delimiter = "\t" if self.delimiter == _SPACES else self.delimiter
            parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
        return (
            csv.ReadOptions(
                block_size=block,
                skip_rows=self.skip_rows,
                skip_rows_after_names=self.skip_after_names,
                column_names=names,
                encoding=self.encoding if self.positions is None else "utf-8",
            ),
            parse,
            csv.ConvertOptions(
                null_values=[*_MISSING, *self.missing], strings_can_be_null=True, decimal_point=self.decimal, **convert
            ),
        )

    def _stream(self, path: str) -> Any:
        """Return the text of a file, unpacked, in which one character separates columns."""
        import pyarrow as pa

        changes: list[Callable[[bytes], bytes]] = []
        if self.comment is not None:
            # Only between delimiters, quotation marks hold ends of lines.
            quoted = self.positions is None and self.delimiter != _SPACES
            changes.append(without_comments(self.comment.encode(), quoted=quoted))
        if self.positions is not None:
            changes.append(cut(self.positions, self.encoding))
        elif self.delimiter == _SPACES:
            changes.append(between_tabs)
        stream = _unpacked(path)
        return pa.PythonFile(ChangedText(stream, changes), mode="r") if self._of_ascii else stream


def _unpacked(path: str) -> Any:
    import pyarrow as pa

    if path.lower().endswith(_PACKED):
        raise SourceError(f"{path}: a file packed in this way is not read; unpack it, or pack it as .gz, .bz2 or .zst")
    if not isinstance(path, Url):
        return pa.input_stream(path, compression="detect")
    try:
        packed = pa.Codec.detect(str(path)).name
    except TypeError:  # raised for names that do not indicate a compression
        packed = None
    return pa.input_stream(pa.PythonFile(as_file(path), mode="r"), compression=packed)

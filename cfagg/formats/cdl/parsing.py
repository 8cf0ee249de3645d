"""A small reader of CDL, the text form of netCDF, for tests and reports of faults.

It reads dimensions, variables, attributes, groups and values as printed by ``ncdump``, but not user-defined types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from cfagg.errors import LimitError, SourceError
from cfagg.formats.cdl.literals import TYPES, Token, characters, fill_of, fits, kind_of, number, text_of, unquoted
from cfagg.formats.metadata.aggregation import aggregated
from cfagg.formats.metadata.foreign import value_of
from cfagg.model.dataset import AttributeValue, Dataset, Dimension, Group, Variable

__all__ = ["parse_cdl"]

#: Most values, and levels of groups, since tests and reports of faults need no more.
_LIMIT, _DEEPEST = 1 << 22, 100

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*(?s:.*?)\*/)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<char>'(?:[^'\\]|\\(?:[0-3][0-7]{2}|[xX][0-9a-fA-F]{2}|.))')
  | (?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?
         |[nN]a[nN]|Infinity|[iI]nf|DoubleInf|FloatInf)
       (?:[uU]?[lL]{1,2}|[uU]?[bBsS]|[uUfFdD])?(?![\w.+-]))
  | (?P<section>(?:dimensions|variables|data|group|types):)
  | (?P<mark>[{}();:,=])
  | (?P<word>(?:[^\s{}();:,="'\\]|\\.)+)
    """,
    re.VERBOSE,
)


def parse_cdl(text: str, source: str = "CDL text") -> Dataset:
    """Return the dataset that a text in CDL, as printed by ``ncdump``, describes."""
    return _Parser(text, source).dataset()


class _Parser:
    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._tokens = self._scan(text)
        self._ahead = next(self._tokens)
        self._values: dict[int, npt.NDArray[Any]] = {}
        #: Their positions, for messages.
        self._lines: dict[int, int] = {}
        #: Shapes of values that are given in braces.
        self._shapes: dict[int, tuple[int, ...]] = {}

    def _scan(self, text: str) -> Iterator[Token]:
        at, line = 0, 1
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise SourceError(f"{self._source}, line {line}: {text[at : at + 20]!r} is not CDL")
            kind = match.lastgroup or ""
            at = match.end()
            if kind == "section" and text[at : at + 1].isspace():
                yield Token(kind, match[0].rstrip(":"), line)  # else it keeps its colon: see `_section`
            elif kind != "space":
                yield Token(kind, match[0], line)
            line += match[0].count("\n")
        while True:
            yield Token("end", "the end", line)

    def _fail(self, wanted: str) -> NoReturn:
        raise SourceError(f"{self._source}, line {self._ahead.line}: {self._ahead.text!r} where {wanted} is expected")

    def _wrong(self, line: int, problem: str) -> NoReturn:
        raise SourceError(f"{self._source}, line {line}: {problem}")

    def _literal(self, token: Token) -> tuple[int | float, str]:
        """Return the value of a number and its NumPy type."""
        try:
            value, dtype = number(token.text)
        except ValueError:  # more digits than Python accepts
            value, dtype = 2**65, "i8"
        except SourceError as error:
            self._wrong(token.line, error.message)
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            self._wrong(token.line, f"{token.text[:30]} is out of the range of any type")
        return value, dtype

    def _number(self, token: Token, dtype: np.dtype[Any] | str, name: str) -> int | float:
        """Return the value of a number that a type holds."""
        if not fits(value := self._literal(token)[0], dtype):
            self._wrong(token.line, f"{token.text[:30]} for {name!r}, which holds integers of type {np.dtype(dtype)}")
        return value

    def _stored(self, values: list[Any], dtype: np.dtype[Any] | str, line: int, name: str) -> npt.NDArray[Any]:
        """Return numbers in a type; integers lose excess bits, as in ``ncgen``."""
        if (wanted := np.dtype(dtype)).kind == "f":
            with np.errstate(over="ignore"):
                return np.array(values, "f8").astype(wanted)
        if wanted.kind not in "iu":
            self._wrong(line, f"a number for {name!r}, which holds characters")
        whole = [int(value) & (1 << 8 * wanted.itemsize) - 1 for value in values]
        return np.array(whole, f"u{wanted.itemsize}").view(wanted)

    def _next(self) -> Token:
        token, self._ahead = self._ahead, next(self._tokens)
        return token

    def _take(self, *texts: str) -> bool:
        """Skip the next token if it is one of these."""
        if self._ahead.text in texts and self._ahead.kind in ("mark", "word"):
            self._next()
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._take(text):
            self._fail(repr(text))

    def _name(self) -> str:
        if self._ahead.kind not in ("word", "number"):
            self._fail("a name")
        return re.sub(r"\\(.)", r"\1", self._next().text)

    def dataset(self) -> Dataset:
        if not self._take("netcdf", "netCDF", "NETCDF"):
            self._fail("'netcdf'")
        if self._ahead.text != "{":
            self._name()
        root = Group()
        self._expect("{")
        self._group(root)
        if self._ahead.kind != "end":
            self._fail("the end of the dataset, the only one of its text,")
        dataset = Dataset(self._source, "cdl", root)
        self._finish(dataset)
        aggregated(dataset)
        return dataset

    def _group(self, group: Group, depth: int = 0) -> None:
        """Read the inside of a group up to its closing brace."""
        if depth > _DEEPEST:
            raise LimitError(f"{self._source}, line {self._ahead.line}: groups are nested more than {_DEEPEST} deep")
        while not self._take("}"):
            line, section = self._ahead.line, self._section(group)
            if section == "dimensions":
                self._dimensions(group)
            elif section == "variables":
                self._declarations(group)
            elif section == "data":
                self._data(group)
            elif section == "group":
                line, name = self._ahead.line, self._name()
                if name in group.groups or name in group.variables:
                    self._wrong(line, f"{name!r} is declared twice in one group; rename one")
                self._expect("{")
                self._group(group.child(name), depth + 1)
            elif section == "types":
                self._wrong(line, "user-defined types are not read from CDL")
            elif section is None:
                self._declarations(group, once=True)

    def _section(self, group: Group) -> str | None:
        """Return the name of a section that begins here, or read an attribute of a variable of this name."""
        if self._ahead.kind != "section":
            return None
        _, text, line = self._next()
        name = text.rstrip(":")
        if name == text or name not in group.variables:
            return name
        # As older versions of ``ncdump`` print ``data:units``; newer ones print ``data :units``.
        if self._ahead.text in group.variables:
            self._wrong(line, f"{text} may begin an attribute or a section; put a space or line break after the colon")
        self._attribute(group, name, None)
        return ""

    def _dimensions(self, group: Group) -> None:
        while self._ahead.kind != "section" and self._ahead.text not in ("}", ":"):
            line, name = self._ahead.line, self._name()
            if name in TYPES and self._take(":"):  # of a group without variables
                self._attribute(group, None, name)
                return
            if name in group.dimensions:
                self._wrong(line, f"dimension {name!r} is declared twice in one group; rename one")
            self._expect("=")
            unlimited = self._take("UNLIMITED", "unlimited")
            size = 0 if unlimited else self._size()
            # ncdump writes the current length in a comment, which is skipped; the values show it, too.
            group.add_dimension(name, size, unlimited=unlimited)
            if not self._take(","):
                self._expect(";")

    def _declarations(self, group: Group, *, once: bool = False) -> None:
        """Read declarations of variables, and attributes among them."""
        while self._ahead.kind != "section" and self._ahead.text != "}":
            if self._take(":"):
                self._attribute(group, None, None)
                continue
            first = self._name()
            if first in TYPES and first not in group.variables and self._take(":"):
                self._attribute(group, None, first)
            elif self._take(":"):
                self._attribute(group, first, None)
            elif first in TYPES and self._ahead.kind == "section":
                self._attribute(group, self._next().text.rstrip(":"), first)
            elif first in TYPES and self._ahead.kind in ("word", "number"):
                line, second = self._ahead.line, self._name()
                if self._take(":"):
                    self._attribute(group, second, first)
                else:
                    self._variable(group, first, second, line)
            else:
                self._fail("a type or an attribute")
            if once:
                return

    def _variable(self, group: Group, type_: str, name: str, line: int) -> None:
        while True:
            if name in group.variables:
                self._wrong(line, f"variable {name!r} is declared twice in one group; rename one")
            names = []
            if self._take("("):
                while not self._take(")"):
                    names.append(self._name())
                    self._take(",")
            found = [group.dimension(n) if "/" not in n else self._far(group, n) for n in names]
            if None in found:
                self._fail(f"a variable {name!r} with dimensions that are declared, not ({', '.join(names)}),")
            dimensions = tuple(d for d in found if d is not None)
            group.variables[name] = Variable(name, group, dimensions, np.dtype(TYPES[type_]), kind_of(type_))
            if self._take(";"):
                return
            self._expect(",")
            line, name = self._ahead.line, self._name()

    @staticmethod
    def _below(group: Group, path: str) -> Group:
        """Return the group of an absolute path."""
        at = next(g for g in group.ancestors() if g.parent is None)
        for word in filter(None, path.split("/")):
            at = at.child(word)
        return at

    def _far(self, group: Group, path: str) -> Dimension | None:
        home, _, last = path.rpartition("/")
        return self._below(group, home).dimensions.get(last)

    def _attribute(self, group: Group, variable: str | None, type_: str | None) -> None:
        """Read one attribute; of two with the same name the last one counts, as in ``ncgen``."""
        line, name = self._ahead.line, self._name()
        self._expect("=")
        tokens = [] if type_ in (None, "char") and self._ahead.text == ";" else [self._next()]
        while self._take(","):
            tokens.append(self._next())
        self._expect(";")
        owner: Group | Variable = group
        if variable:
            home, _, last = variable.rpartition("/")
            at = self._below(group, home) if home else group
            if last not in at.variables:
                self._wrong(line, f"attribute {variable}:{name} of a variable that is not declared")
            owner = at.variables[last]
        if type_ is None and name == "_FillValue" and isinstance(owner, Variable) and owner.dtype.kind in "iuf":
            # Without its own type it has the variable's, as in `ncgen`.
            numbers = all(t.kind == "number" for t in tokens)
            type_ = next(t for t, dtype in TYPES.items() if np.dtype(dtype) == owner.dtype) if numbers else None
        owner.attributes[name] = self._typed(tokens, type_, name)

    def _typed(self, tokens: list[Token], type_: str | None, name: str) -> AttributeValue:
        """Return the value of an attribute."""
        if type_ == "string":
            if any(t.kind not in ("string", "char", "number") and t.text != "NIL" for t in tokens):
                self._fail("text")
            texts = tuple(text_of(t) for t in tokens)
            return texts[0] if len(texts) == 1 else texts
        if all(t.kind in ("string", "char") for t in tokens):
            return value_of(b"".join(unquoted(t.text) for t in tokens))
        if any(t.kind != "number" for t in tokens):
            self._fail("numbers or text")
        own = [np.dtype(self._literal(t)[1]) for t in tokens] if type_ is None else [np.dtype(TYPES[type_])]
        widest = np.result_type(*own)
        return self._stored([self._number(t, widest, name) for t in tokens], widest, tokens[0].line, name)

    def _size(self) -> int:
        """Return the length of a dimension."""
        if self._ahead.kind != "number":
            self._fail("a number")
        token = self._next()
        value, _ = self._literal(token)
        if not isinstance(value, int) or not 0 <= value < 2**63:
            self._wrong(token.line, f"{token.text[:30]!r} where the length of a dimension is expected, a whole number")
        return value

    def _data(self, group: Group) -> None:
        while self._ahead.kind != "section" and self._ahead.text != "}":
            line, name = self._ahead.line, self._name()
            if name not in group.variables:
                self._wrong(line, f"values of {name!r}, which is not declared")
            variable = group.variables[name]
            self._lines[id(variable)] = line
            self._expect("=")
            found: list[Any] = []
            fill = fill_of(variable)
            opened: list[int] = []
            braces: dict[int, list[int]] = {}  # the numbers of values in braces, by depth
            while opened or not self._take(";"):
                if self._take("{"):
                    opened.append(len(found))
                    continue
                token = self._next()
                if variable.kind == "string" and (token.kind in ("string", "char", "number") or token.text == "NIL"):
                    found.append(text_of(token))
                elif token.kind == "string" and variable.kind != "char":
                    self._wrong(
                        token.line,
                        f"the text {token.text[:30]} for {name!r}, which holds numbers; dates are read as numbers: "
                        "print them with ncdump without -t",
                    )
                elif token.kind == "char":
                    byte = unquoted(token.text)[:1]
                    found.append(byte if variable.kind == "char" else byte[0])
                elif token.kind == "string":
                    found.extend(characters(variable, unquoted(token.text), fill, _LIMIT))
                elif token.kind == "number" and variable.kind == "char":
                    self._wrong(token.line, f"the number {token.text[:30]} for {name!r}, which holds characters")
                elif token.kind == "number":
                    found.append(self._number(token, variable.dtype, name))
                elif token.text == "_":
                    found.append(fill)
                else:
                    self._ahead = token
                    self._fail("a value")
                if len(found) > _LIMIT:
                    raise LimitError(f"{self._source}: {name!r} has more than {_LIMIT:,} values")
                while opened and self._take("}"):
                    start = opened.pop()
                    braces.setdefault(len(opened), []).append(len(found) - start)
                if not self._take(",") and (opened or self._ahead.text != ";"):
                    self._fail("',' or '}'" if opened else "',' or ';'")
            if braces:
                self._shapes[id(variable)] = self._shape(variable, braces, len(found), line)
            if variable.kind in ("string", "char"):
                values = np.array(found, object)
                self._values[id(variable)] = values if variable.kind == "string" else values.astype("S1")
            else:
                self._values[id(variable)] = self._stored(found, variable.dtype, self._ahead.line, name)

    def _shape(self, variable: Variable, braces: Mapping[int, list[int]], count: int, line: int) -> tuple[int, ...]:
        """Return the shape of values in braces, which enclose those along each unlimited dimension after the first."""
        shape = [d.size for d in variable.dimensions]
        inner = [k for k, d in enumerate(variable.dimensions) if d.unlimited and k]
        for depth, k in reversed(list(enumerate(inner))):
            shape[k] = max(braces.get(depth, ()), default=0) // max(prod(shape[k + 1 :]), 1)
        if inner:
            shape[0] = count // max(prod(shape[1:]), 1)
        fits = bool(inner) and prod(shape) == count
        fits = fits and (variable.dimensions[0].unlimited or shape[0] <= variable.dimensions[0].size)
        if not fits or braces != {depth: [prod(shape[k:])] * prod(shape[:k]) for depth, k in enumerate(inner)}:
            self._wrong(
                line,
                f"the braces in the values of {variable.name!r} do not fit its dimensions; expected braces of as many "
                "values each around those of every unlimited dimension after the first",
            )
        return tuple(shape)

    def _finish(self, dataset: Dataset) -> None:
        """Give unlimited dimensions their lengths and variables their values."""
        for variable in dataset.variables:
            values = self._values.get(id(variable))
            if values is None:
                continue
            shape = self._shapes.get(id(variable))
            if shape is not None:
                for dimension, size in zip(variable.dimensions, shape, strict=True):
                    dimension.size = max(dimension.size, size)
                continue
            grown = [d for d in variable.dimensions if d.unlimited]
            rest = prod(d.size for d in variable.dimensions if not d.unlimited)
            if len(grown) == 1 and rest and variable.dimensions[0].unlimited:
                grown[0].size = max(grown[0].size, -(-values.size // rest))
        if not self._values:
            return  # only a header, as from ``ncdump -h``: the values are unknown
        for variable in dataset.variables:
            if prod(variable.shape) > _LIMIT:
                continue  # a header alone may have any size
            given = self._values.get(id(variable))
            whole = np.full(prod(variable.shape), fill_of(variable), variable.dtype)
            if given is not None:
                if given.size > whole.size:
                    self._wrong(
                        self._lines[id(variable)],
                        f"{variable.path!r} has {given.size} values, room is for {whole.size}",
                    )
                shape = self._shapes.get(id(variable))
                if shape is None:
                    whole[: given.size] = given
                else:
                    whole.reshape(variable.shape)[tuple(map(slice, shape))] = given.reshape(shape)
            variable.read = whole.reshape(variable.shape).__getitem__

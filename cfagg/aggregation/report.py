"""The report on arrays made from files: how they were joined, and why the others are separate."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cfagg.aggregation.groups import Labels, apart, group_facts
from cfagg.aggregation.joining import Joined, join_files
from cfagg.aggregation.scanning import Scanner
from cfagg.cf.joining import Reason, why
from cfagg.display.joined import GroupFacts, JoinedFacts, UnreadFacts, joined_lines
from cfagg.display.sizes import count_text
from cfagg.display.summary import Listing
from cfagg.errors import OptionError
from cfagg.errors.arguments import a_path, an_integer
from cfagg.errors.losses import loss_lines

__all__ = ["Answer", "Report", "Why", "explain"]

#: Maximum number of names on a line.
_NAMED = 8

#: Maximum number of entries of each kind that are shown, and on an HTML page; JSON contains all arrays.
_SHOWN, _PAGE = 20, 300


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """Why variables of two files are or are not in the same array.

    Parameters
    ----------
    a, b : str
        The variables, by their paths in the files.
    array : str or None
        The array that both are in, or `None` if they are separate.
    rule, what : str
        The rule, and the attribute or coordinate, that separates them.
    one, other : object
        The values of it in the first and the second.
    text : str
        The same as a sentence.
    remedy : str
        What would join them: an option, or a change to the files; empty if they are joined.
    """

    a: str
    b: str
    array: str | None
    rule: str
    what: str
    one: Any
    other: Any
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        names = self.a if self.a == self.b else f"{self.a} and {self.b}"
        return f"{names}: {self.text}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        return facts_html(
            str(self),
            [
                ("rule", self.rule),
                ("of", self.what),
                ("first", self.one),
                ("second", self.other),
                ("remedy", self.remedy),
            ],
        )


@dataclass(frozen=True, slots=True, repr=False)
class Why:
    """The answers for two files: an `Answer` for each variable that both have."""

    a: str
    b: str
    answers: tuple[Answer, ...]
    problem: str | None = None

    def __repr__(self) -> str:
        return f"<Why: {self.problem or ('joined' if self.joined else 'apart')}>"

    @property
    def joined(self) -> bool:
        """Whether each variable that both have is in the same array."""
        return bool(self.answers) and all(one.array is not None for one in self.answers)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        from cfagg.display.as_json import encode

        answers = [{name: encode(getattr(one, name)) for name in one.__slots__} for one in self.answers]
        return {"a": self.a, "b": self.b, "joined": self.joined, "answers": answers, "problem": self.problem}

    def __str__(self) -> str:
        from cfagg.display.escape import printable

        lines = [self.a, self.b]
        for one in self.answers:
            lines += [f"  {one}"] + [f"    remedy: {one.remedy}"] * bool(one.remedy)
        return "\n".join(map(printable, [*lines, *([f"  {self.problem}"] if self.problem else [])]))

    def _repr_html_(self) -> str:
        from cfagg.display.facts import facts_html

        facts = [("", self.a), ("", self.b), ("", self.problem)]
        return facts_html("Joined" if self.joined else "Apart", facts, [("variables", self.answers)])


def _left_out(joined: Joined) -> list[str]:
    """Return a note on each variable that is in no array: coordinates of dimensions that no data have, odd types."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in joined.scanned:
        for names, text in (
            ([n for n in one.unused if n not in one.subsampled], "no data variable of {} uses it"),
            (one.subsampled, "aggregations have no subsampled coordinates ({})"),
            (one.untyped, "netCDF lacks its type ({})"),
        ):
            for name in names:
                found.setdefault((name, text), []).append(str(one.place))
    where = {key: places[0] if len(places) == 1 else f"{len(places):,} files" for key, places in found.items()}
    return [f"{name!r} is left out: {text.format(of)}" for (name, text), of in where.items()]


class Report:
    """The arrays made from files, how they were joined, and why the others are separate.

    Parameters
    ----------
    joined : Joined
        The scanned and joined files.
    names : sequence of str
        The name of the array of each box; empty if they were not built.
    dropped : sequence of sequences of str
        Attributes of each box that differ between its members and were omitted.
    losses, notes : sequence of str
        What is missing from the output, and information that users should know.
    """

    def __init__(
        self,
        joined: Joined,
        names: Sequence[str] = (),
        dropped: Sequence[Sequence[str]] = (),
        losses: Sequence[object] = (),
        notes: Sequence[str] = (),
    ) -> None:
        self._joined, self._rows = joined, joined.rows()
        self._names = list(names) or _numbered([joined.described[int(own[0])].stated.name for own in self._rows])
        self._dropped = list(dropped) or [()] * len(self._rows)
        self._made: dict[int, GroupFacts] = {}
        self.losses, self.notes = tuple(losses), (*notes, *_left_out(joined))
        #: How remedies and notes are worded: for the command, with options instead of keywords.
        self.wording: Callable[[str], str] = str

    @cached_property
    def _labels(self) -> Labels:
        return Labels(self._joined)

    @cached_property
    def groups(self) -> tuple[GroupFacts, ...]:
        """The arrays: their files, axes, the rule by which they were joined, and omitted attributes."""
        return tuple(map(self._group, range(len(self._rows))))

    def _group(self, number: int) -> GroupFacts:
        """Return one array; of thousands, only a few are shown."""
        if number not in self._made:
            own, name, dropped = self._rows[number], self._names[number], self._dropped[number]
            self._made[number] = group_facts(self._joined, own, name, dropped, self._labels)
        return self._made[number]

    @property
    def unread(self) -> tuple[UnreadFacts, ...]:
        """The files that could not be read, and the reasons."""
        found = self._joined.scanned
        return tuple(UnreadFacts(str(one.place), one.problem) for one in found if one.problem is not None)

    def _facts(self, most: int | None = _SHOWN) -> JoinedFacts:
        """Return the report as plain data, with long lists shortened."""
        reasons = apart(self._joined, self._rows, self._names, self._labels)
        reasons = [replace(one, remedy=self.wording(one.remedy)) for one in reasons]
        lines = map(str, self.losses) if most is None else loss_lines(self.losses)
        return JoinedFacts(
            len(self._joined.scanned),
            len(self._joined.described),
            Listing.of(len(self._rows), self._group, most),
            _listed(reasons, most),
            _listed(self.unread, most),
            _listed([*map(self.wording, lines)], most),
            _listed([*map(self.wording, self.notes)], most),
        )

    def why(self, a: str | int, b: str | int, variable: str | None = None) -> Why:
        """Return why variables of two files are or are not in the same array.

        Parameters
        ----------
        a, b : str or int
            The files, by path, by a name or end of a path that only one has, or by number from 0.
        variable : str, optional
            The variable, by its name in the file or its standard name; by default all that both files have.

        Raises
        ------
        OptionError
            No such file or variable was aggregated, or several files have the name.
        """
        one, other = self._file(a, "a"), self._file(b, "b")
        scanned = self._joined.scanned
        places = str(scanned[one].place), str(scanned[other].place)
        if one == other:
            return Why(*places, (), "both are the same file")
        for k in (one, other):
            if scanned[k].problem is not None:
                return Why(*places, (), f"it was not read: {scanned[k].problem}")
        pairs = self._pairs(one, other, variable)
        if not pairs and variable is not None:
            raise OptionError(f"variable: {variable!r} is not in both {places[0]} and {places[1]}")
        return Why(*places, tuple(self._answer(*pair) for pair in pairs), None if pairs else "they share no variable")

    def _answer(self, a: int, b: int) -> Answer:
        joined = self._joined
        names = joined.described[a].stated.name, joined.described[b].stated.name
        reason: Reason | None = why(joined.members, joined.boxes, a, b, joined.options)
        if reason is None:
            array = self._names[int(joined.boxes.box[a])]
            gone = [name for name, row in zip("ab", (a, b), strict=True) if joined.boxes.dropped[row]]
            more = (
                f"; other files took the place of all values of the {'first' if gone == ['a'] else 'second'}"
                if gone
                else ""
            )
            return Answer(*names, array, "joined", "", None, None, f"both are in {array}{more}")
        said = self._labels.said(reason, a)
        if reason.others is not None:
            scanned, file = self._joined.scanned, self._joined.file
            said += f", of {' and '.join(str(scanned[int(file[row])].place) for row in reason.others)}"
        return Answer(*names, None, reason.rule, reason.what, reason.a, reason.b, said, self.wording(reason.remedy))

    def _pairs(self, one: int, other: int, variable: str | None) -> list[tuple[int, int]]:
        """Return the members of two files that have the same name, or represent the same quantity."""
        described = self._joined.described

        def identity(row: int) -> Any:
            return described[row].signature.get("identity")

        own, others = (np.flatnonzero(self._joined.file == k).tolist() for k in (one, other))
        if variable is not None:
            own, others = (
                [r for r in rows if variable in (described[r].stated.name, identity(r))] for rows in (own, others)
            )
        by_name = {described[r].stated.name: r for r in others}
        by_identity = {identity(r): r for r in reversed(others) if identity(r) is not None}
        found = []
        for row in own:
            match = by_name.get(described[row].stated.name, by_identity.get(identity(row)))
            if match is not None:
                found.append((row, match))
        return found

    def _file(self, given: Any, name: str) -> int:
        """Return the number of a file."""
        scanned = self._joined.scanned
        if not isinstance(given, str | bytes | os.PathLike):
            number = an_integer(given, name)
            if not 0 <= number < len(scanned):
                raise OptionError(f"{name}: there is no file {number}; the {len(scanned):,} files are counted from 0")
            return number
        text = a_path(given, name)
        exact = {text, os.path.abspath(text)}  # noqa: PTH100
        found = [k for k, one in enumerate(scanned) if str(one.place) in exact]
        found = found or [k for k, one in enumerate(scanned) if str(one.place).endswith(f"/{text}")]
        if len(found) != 1:
            several = ", ".join(str(scanned[k].place) for k in found[:3])
            said = f"{len(found):,} files have this name: {several}; give more of the path"
            said = said if found else "it was not among the aggregated files; name one of them"
            raise OptionError(f"{text}: {said}")
        return found[0]

    def as_dict(self) -> dict[str, Any]:
        """Return the whole report as plain data for JSON."""
        from cfagg.display.as_json import encode

        found: dict[str, Any] = encode(self._facts(None))
        return found

    @property
    def summary(self) -> str:
        """The number of arrays and files, and the names of the arrays."""
        names = ", ".join(self._names[:_NAMED]) + (", …" if len(self._names) > _NAMED else "")
        files = count_text(len(self._joined.scanned) - len(self.unread), "file")
        return f"{count_text(len(self._names), 'array')} of {files}: {names}"

    def to_html(self) -> str:
        """Return the report as a self-contained HTML page."""
        from cfagg.display.joined_html import joined_page

        return joined_page(self._facts(_PAGE))

    def __str__(self) -> str:
        return "\n".join(joined_lines(self._facts()))

    def __repr__(self) -> str:
        return f"<Report of {count_text(len(self._joined.scanned), 'file')}: {count_text(len(self._rows), 'array')}>"

    def _repr_html_(self) -> str:
        from cfagg.display.joined_html import joined_html

        return joined_html(self._facts())


def explain(files: Any, scanner: Scanner | None = None) -> Report:
    """Return what `cfagg.aggregate` would make of files, without building or writing anything."""
    scanner = scanner or Scanner()
    return Report(join_files(scanner.scan(scanner.meant(files)), scanner.rules))


def _listed[T](some: Sequence[T], most: int | None = _SHOWN) -> Listing[T]:
    return Listing.of(len(some), some.__getitem__, most)


def _numbered(names: Sequence[str]) -> list[str]:
    """Return names, numbered if several are equal.

    >>> _numbered(["tas", "pr", "tas"])
    ['tas', 'pr', 'tas_1']
    """
    seen: dict[str, int] = {}
    found = []
    for name in names:
        number = seen.get(name, 0)
        seen[name] = number + 1
        found.append(f"{name}_{number}" if number else name)
    return found

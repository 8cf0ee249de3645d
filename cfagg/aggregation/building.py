"""Building a dataset from joined variables: an aggregation for each array, with shared coordinates in memory."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.around import spread
from cfagg.aggregation.filling import Builder
from cfagg.aggregation.joining import Joined
from cfagg.aggregation.names import Contents
from cfagg.aggregation.scanning import FileState
from cfagg.arrays.joined_source import JoinedSource
from cfagg.arrays.source import Group
from cfagg.storage.access import FileStates, Seen
from cfagg.storage.remote_file import state_number
from cfagg.storage.urls import Url, is_url

__all__ = ["build"]

Int64 = npt.NDArray[np.int64]


def build(joined: Joined, *, as_tree: bool = False, fields: bool = False) -> JoinedSource:
    """Return the dataset of joined variables; files are only opened if `fields` of PP files become partitions.

    As a tree, arrays keep their names: the variables of each group have different names, unless they are equal.
    """
    where = label_of([one.place for one in joined.scanned])
    builder = Builder(joined, Contents(), where, fields=fields)
    tree = _Tree(builder)
    for rows in joined.rows():
        if as_tree:
            tree.add(rows)
        else:
            builder.add(rows)
    contents = tree.contents if as_tree else {"/": builder.contents}
    placed = tree.placed if as_tree else [("/", name) for name in builder.names]
    attributes, left = spread(joined, contents, placed)
    groups = {path[1:]: own.group(attributes[path], path) for path, own in contents.items()}
    root = groups[""] if "" in groups else Group("/", {}, attributes=attributes["/"], groups=groups)
    arrays = {f"{path.rstrip('/')}/{n}": a for path, c in contents.items() for n, a in c.arrays.items()}
    names = [f"{path}/{name}".lstrip("/") for path, name in placed]
    made = joined, names, [tuple(dict.fromkeys(own + of)) for own, of in zip(builder.differing, left, strict=True)]
    alike: dict[Seen, Seen] = {}
    seen = {str(one.place): alike.setdefault(one.seen, one.seen) for one in joined.scanned if one.seen is not None}
    found = (
        (str(one.place), one.state.size, *_time_and_inode(one.state))
        for one in joined.scanned
        if one.state is not None and one.state.etag != ""
    )
    return JoinedSource(where, "files", root, arrays=arrays, made=made, states=FileStates(found, seen))


def _time_and_inode(state: FileState) -> tuple[int, int]:
    """Return time of modification and inode, or what takes their place in a remote file."""
    if state.etag is None:
        return state.mtime_ns, state.inode
    return (state_number(state.etag, state.size),) * 2


def label_of(places: Sequence[str]) -> str:
    """Return the name of files in messages: their common directory and their number."""
    if len(places) == 1:
        return places[0]
    count = f"({len(places):,} files)"
    urls = [isinstance(p, Url) or is_url(p) for p in places]
    if any(urls):
        first = places[urls.index(True)]
        home = first.rpartition("/")[0]
        return first.beside(f"{home}/{count}") if isinstance(first, Url) else f"{home}/{count}"
    home = os.path.commonpath(places) if places else ""
    return f"{home.rstrip('/')}/{count}"


class _Tree:
    """Puts each box into the first group in which all of its variables can have their names from the files."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._groups: list[tuple[str, Contents]] = []
        self._boxes: list[tuple[int, str]] = []

    def add(self, rows: Int64) -> None:
        """Add the array of one box."""
        builder, alone = self._builder, Contents()
        builder.contents = alone
        builder.add(rows)
        found = next((k for k, (_, own) in enumerate(self._groups) if own.fits(alone)), len(self._groups))
        name = builder.names[-1]
        if found == len(self._groups):
            self._groups.append((name, alone))
        else:
            del builder.names[-1], builder.differing[-1]
            builder.contents = self._groups[found][1]
            builder.add(rows)
        self._boxes.append((found, name))

    @property
    def contents(self) -> dict[str, Contents]:
        """The groups by path: the root only if one group is enough, else groups below it, named after their arrays."""
        if len(self._groups) < 2:
            return {"/": self._groups[0][1] if self._groups else Contents()}
        names = Contents()
        return {f"/{names.free(name)}": own for name, own in self._groups}

    @property
    def placed(self) -> list[tuple[str, str]]:
        """Group and name of the arrays, box by box."""
        paths = list(self.contents)
        return [(paths[k], name) for k, name in self._boxes]

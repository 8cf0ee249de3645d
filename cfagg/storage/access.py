"""The policy for references that come from an untrusted file: which files an aggregation may read.

A partition may be in the aggregation file itself, or in a file at or below the directory of the aggregation file after
symbolic links and ``..`` are resolved.  Anything else needs ``allow=[prefix, …]``, which is matched by whole path
components.  The same rules apply to the URLs of a remote aggregation file, which never reads local files.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np

from cfagg.errors import AccessError, UnsupportedError
from cfagg.errors.arguments import paths
from cfagg.errors.redacting import redacted
from cfagg.storage.urls import Options, Url, absolute, covers, flaw, is_url

__all__ = ["Access", "FileStates", "NamedAccess", "Seen"]

#: Longest reference that is considered: the longest path that Linux accepts.
_LONGEST = 4096

#: Number of directories whose resolved paths are cached.
_DIRECTORIES = 1024

_SCHEME = re.compile(r"^(?:[A-Za-z][A-Za-z0-9+._-]*://|file:)", re.IGNORECASE)


@dataclass(frozen=True)
class Access:
    """The files that the aggregation in one file, the parent, may read.

    `allow` lists further directories or single files.  Relative ones are resolved against the working directory.
    ``"/"`` allows everything; an empty string is refused.

    >>> access = Access("/data/temperature.nca", allow=["/archive/model"])
    >>> access.resolve("parts/jan.nc"), access.resolve("/archive/model/feb.nc")
    ('/data/parts/jan.nc', '/archive/model/feb.nc')
    """

    parent: str
    allow: tuple[str, ...] = ()

    def __init__(self, parent: str | os.PathLike[str], allow: Iterable[str | os.PathLike[str]] = ()) -> None:
        prefixes = paths(allow)
        if not all(prefixes):
            raise AccessError("an empty prefix in allow= would allow nothing; write '.' for the working directory")
        object.__setattr__(self, "parent", absolute(os.fspath(parent)))
        # Made absolute here, so that a worker process with another working directory allows the same files.
        object.__setattr__(self, "allow", tuple(map(absolute, prefixes)))

    @cached_property
    def _real_parent(self) -> str:
        return os.path.realpath(self.parent)

    @cached_property
    def is_linked(self) -> bool:
        """Whether the path by which the aggregation file was opened has another directory than the real path."""
        return os.path.dirname(self._real_parent) != os.path.realpath(os.path.dirname(self.parent))  # noqa: PTH120

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        home = os.path.dirname(self._real_parent)  # noqa: PTH120
        linked = os.path.realpath(os.path.dirname(self.parent))  # noqa: PTH120
        return tuple(dict.fromkeys((home, linked, *(os.path.realpath(a) for a in self.allow if not is_url(a)))))

    def nested(self, parent: str) -> Access:
        """Return the policy for an aggregation file that is itself a partition."""
        return Access(parent, self.allow)

    def resolve(self, reference: str | None) -> str:
        """Return the absolute path of a reference with links resolved (`None`: the file itself); nothing is opened."""
        if reference is None:
            return self.parent if isinstance(self.parent, Url) else self._real_parent
        self._check_text(reference)
        if isinstance(self.parent, Url) or is_url(reference):
            return self._url(reference)
        # `os.path.join` returns an absolute reference unchanged.
        joined = os.path.join(os.path.dirname(self.parent), reference)  # noqa: PTH118, PTH120
        try:
            real = self._real(joined)
            # If the file is not beside the link, look for it beside the target of the link.
            if self.is_linked and not os.path.lexists(real):
                beside = self._real(os.path.join(os.path.dirname(self._real_parent), reference))  # noqa: PTH118, PTH120
                real = beside if os.path.lexists(beside) else real
        except (OSError, ValueError) as error:
            raise AccessError(f"{self.parent} refers to {reference!r}, which cannot be resolved: {error}") from error
        self.judge(real, reference)
        return real

    def remedy(self, reference: str) -> str | None:
        """Return the prefix in ``allow=`` that would admit a reference, or `None` if there is none."""
        if is_url(reference):
            return None if flaw(reference) else reference.rpartition("/")[0]
        if isinstance(self.parent, Url):
            return None
        try:
            return os.path.dirname(Access(self.parent, [os.sep]).resolve(reference))  # noqa: PTH120
        except AccessError:
            return None

    def _url(self, reference: str) -> Url:
        """Return the URL of a reference: below that of the aggregation file, or below one that is allowed."""
        from urllib.parse import quote

        given = reference
        if not is_url(reference):
            if reference.startswith(("/", "~")):
                raise AccessError(
                    f"{self.parent} refers to {reference!r}, a local path, but a remote file never reads local files"
                )
            # References are not percent-encoded, but URLs of web servers are.
            web = self.parent.lower().startswith("http")
            scheme, _, home = self.parent.rpartition("/")[0].partition("://")
            host, _, folder = home.partition("/")
            # As for browsers, the root of a server or bucket is above itself.
            below = posixpath.normpath(posixpath.join("/", folder, quote(reference) if web else reference))
            reference = f"{scheme}://{host}{below}"
        own = isinstance(self.parent, Url) and covers(self.parent.rpartition("/")[0], reference)
        target = Url(reference, self.parent.options if own and isinstance(self.parent, Url) else self._others)
        self.judge(target, given)
        return target

    def _is_above_root(self, reference: str | None) -> bool:
        """Return whether a relative reference of a remote file leads above the root of its server or bucket."""
        if reference is None or ".." not in reference or is_url(reference):
            return False
        folder = self.parent.rpartition("/")[0].partition("://")[2].partition("/")[2]
        return posixpath.normpath(posixpath.join(folder, reference)).startswith("..")

    @property
    def _others(self) -> Options:
        """The options for URLs that the user allows: only the time limits of the parent, nothing that is sent."""
        own = self.parent.options.given if isinstance(self.parent, Url) else {}
        times = {name: own[name] for name in ("timeout", "deadline") if name in own}
        return Options(times, tuple(a for a in self.allow if is_url(a)), guarded=isinstance(self.parent, Url))

    def judge(self, real: str, reference: str | None = None) -> None:
        """Refuse a file (its real path; it may already be open) outside the places that may be read."""
        if not real.startswith("/") and is_url(real):
            if found := flaw(real):
                raise AccessError(
                    f"{self.parent} refers to {redacted(reference or real)!r}, a URL that is never read: {found}; "
                    "refer to the file by another name, or copy it to this machine"
                )
            prefixes = [a for a in self.allow if is_url(a)]
            if isinstance(self.parent, Url) and not self._is_above_root(reference):
                prefixes.append(self.parent.rpartition("/")[0])
            if not any(covers(prefix, real) for prefix in prefixes):
                place = real.rpartition("/")[0]
                leads = f", which is {real}" if reference not in (None, real) else ""
                raise AccessError(
                    f"{self.parent} refers to {reference or real!r}{leads}, a URL outside the aggregation file's own "
                    f"place; to read it, pass allow=[{place!r}] or, on the command line, --allow {shlex.quote(place)}"
                )
            return
        if not any(real == root or real.startswith(root.rstrip(os.sep) + os.sep) for root in self._roots):
            raise AccessError(
                f"{self.parent} refers to {reference!r}, which is {real} and lies outside the aggregation file's "
                f"directory; to read it, pass allow=[{os.path.dirname(real)!r}] or, on the command line, "  # noqa: PTH120
                f"--allow {shlex.quote(os.path.dirname(real))}"  # noqa: PTH120
            )

    def check_copied(self, references: Iterable[str], home: str, other: Access) -> None:
        """Refuse references from `home` that may not be read here, but could be once they are in the file of `other`.

        Otherwise whoever wrote this file would choose what the new one, which the user trusts, reads elsewhere.
        """
        is_far = isinstance(other.parent, Url)
        if not is_far and (is_url(home) or all(map(self.is_within, other._roots))):
            return
        for reference in references:
            try:
                self.resolve(reference)
            except UnsupportedError:
                continue
            except AccessError as error:
                place = reference if is_url(reference) else os.path.join(home, reference)  # noqa: PTH118
                if other._admits(place):
                    raise AccessError(
                        f"{error.message}; {redacted(other.parent)} was not written, because it would be allowed to "
                        "read that"
                    ) from error

    def _admits(self, reference: str) -> bool:
        try:
            self.resolve(reference)
        except (AccessError, UnsupportedError):
            return False
        return True

    def is_within(self, directory: str) -> bool:
        """Return whether all files in a directory, given by its real path, may be read."""
        return any(directory == root or directory.startswith(root.rstrip(os.sep) + os.sep) for root in self._roots)

    def _real(self, path: str) -> str:
        """Return a path with all links resolved; resolved directories are cached, since many references share them."""
        directory, name = os.path.split(path)
        if name in ("", ".", ".."):
            return os.path.realpath(path)
        known = self._directories.get(directory)
        if known is None:
            if len(self._directories) >= _DIRECTORIES:
                self._directories.clear()
            known = self._directories[directory] = os.path.realpath(directory)
        whole = os.path.join(known, name)  # noqa: PTH118
        return os.path.realpath(whole) if os.path.islink(whole) else whole  # noqa: PTH114

    def __getstate__(self) -> dict[str, object]:
        return {"parent": self.parent, "allow": self.allow}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)

    @cached_property
    def _directories(self) -> dict[str, str]:
        return {}

    def _check_text(self, reference: str) -> None:
        """Refuse text that cannot be a path."""
        shown = repr(reference if len(reference) <= 200 else reference[:200] + "…")
        if not reference:
            raise AccessError(f"{self.parent} has an empty reference; leave it out to mean the file itself")
        if len(reference) > _LONGEST:
            raise AccessError(
                f"{self.parent} has a reference of {len(reference)} characters; {shown} is not a file name"
            )
        if "\0" in reference:
            raise AccessError(f"{self.parent} refers to {shown}: a file name has no NUL characters")
        try:
            os.fsencode(reference)
        except UnicodeEncodeError as error:
            raise AccessError(f"{self.parent} refers to {shown}: not a file name of this system: {error}") from error
        if _SCHEME.match(reference) and not is_url(reference):
            raise UnsupportedError(
                f"{self.parent} refers to {shown}, a URL of a kind that is not read: "
                "download the file and refer to its path"
            )


#: What was read of a Zarr store: the keys of documents, and the paths of arrays whose chunks were read.
type Seen = tuple[tuple[str, ...], tuple[str, ...]]


class FileStates:
    """The states of many files in 16 bytes each: digests of their names, and of their sizes, times and inodes.

    >>> states = FileStates([("/a.nc", 8, 1_000, 7), ("/b.nc", 9, 2_000, 8)])
    >>> states.is_changed("/a.nc", 8, 1_000, 7), states.is_changed("/a.nc", 8, 1_001, 7)
    (False, True)
    >>> states.is_changed("/c.nc", 0, 0, 0)
    False
    """

    __slots__ = ("_names", "_states", "seen")

    def __init__(
        self, states: Iterable[tuple[str, int, int, int]] = (), seen: Mapping[str, Seen] | None = None
    ) -> None:
        #: What the states of Zarr stores were computed from.
        self.seen = {} if seen is None else dict(seen)
        found = np.array([(_digest(name), _digest(repr(rest))) for name, *rest in states], np.uint64).reshape(-1, 2)
        order = np.argsort(found[:, 0])
        self._names, self._states = found[order].T.copy()

    def is_changed(self, name: str, size: int, modified: int, inode: int) -> bool:
        """Return whether a file is known to have changed; always false for unknown files."""
        i = int(np.searchsorted(self._names, np.uint64(own := _digest(name))))
        if i == self._names.size or int(self._names[i]) != own:
            return False
        return int(self._states[i]) != _digest(repr([size, modified, inode]))


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


class NamedAccess(Access):
    """The policy for an in-memory aggregation of files that the user named: exactly these, and those in `allow`.

    Its references are names that the user gave, and are trusted; references within those files are judged as for any
    aggregation. `parent` is only the name used in messages, and `states` are those of the files when they were scanned.
    """

    states: FileStates

    def __init__(
        self,
        parent: str | os.PathLike[str],
        allow: Iterable[str | os.PathLike[str]] = (),
        states: FileStates | None = None,
    ) -> None:
        super().__init__(parent, allow)
        object.__setattr__(self, "states", states or FileStates())

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "states": self.states}

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(os.path.realpath(a) for a in self.allow if not is_url(a)))

    @cached_property
    def is_linked(self) -> bool:
        """Whether names are also resolved beside the target of a link, which is never the case here."""
        return False

    def resolve(self, reference: str | None) -> str:
        """Return the path or URL of a file that the user named; `None`, which refers to no file, gives the parent."""
        if reference is None:
            return self.parent
        if isinstance(reference, Url) or is_url(reference):
            return self._named_url(reference)
        return self._real(reference)

    def _named_url(self, reference: str) -> Url:
        return Url(reference, self.parent.options if isinstance(self.parent, Url) else self._others)

    def check_copied(self, references: Iterable[str], home: str, other: Access) -> None:
        """Accept all, since the user named them."""

    def judge(self, real: str, reference: str | None = None) -> None:
        """Refuse a file that the user neither named nor allowed."""
        if reference is not None and real == (reference if is_url(reference) else self._real(reference)):
            return
        super().judge(real, reference)


class GrownAccess(NamedAccess):
    """The policy for an aggregation to which the user added files; those it had before are references of its own file.

    The earlier references come from an index beside the file, which somebody else may have written.
    """

    file: Access
    recorded: frozenset[str]

    def __init__(self, named: NamedAccess, file: Access, recorded: frozenset[str]) -> None:
        super().__init__(named.parent, named.allow, named.states)
        object.__setattr__(self, "file", file)
        object.__setattr__(self, "recorded", recorded)

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "file": self.file, "recorded": self.recorded}

    def resolve(self, reference: str | None) -> str:
        """Return the path or URL of a file that the user named, or that the aggregation file may read."""
        return self.file.resolve(reference) if reference in self.recorded else super().resolve(reference)

    def check_copied(self, references: Iterable[str], home: str, other: Access) -> None:
        """Refuse those that the aggregation file had before, as it does."""
        self.file.check_copied((r for r in references if r in self.recorded), home, other)

    def judge(self, real: str, reference: str | None = None) -> None:
        """Refuse a file that the user neither named nor allowed."""
        if reference in self.recorded:
            self.file.judge(real, reference)
        else:
            super().judge(real, reference)

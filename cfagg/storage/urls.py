"""The names that users give files and stores: local paths, or URLs with the options for their servers.

Every function passes its paths through `a_place`, so that all accept the same URLs and refuse others the same way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from cfagg.errors import AccessError, OptionError, SourceError, SourceNotFoundError, UnsupportedError
from cfagg.errors.arguments import a_mapping, a_path, paths
from cfagg.errors.redacting import redacted

if TYPE_CHECKING:
    from cfagg.storage.recent import Recent

__all__ = [
    "OPEN",
    "SCHEMES",
    "Options",
    "Url",
    "a_place",
    "absolute",
    "are_nested",
    "covers",
    "flaw",
    "is_url",
    "refuse_url",
]

#: URL schemes that are supported.
SCHEMES = ("http", "https", "s3", "gs", "az")

#: Default ports of web servers.
_PORTS = {"http": 80, "https": 443}

#: A slash within a name on a web server, which is not the same as one between names.
SLASH = "\udc2f"

#: How often a path is decoded to see where it leads; one that keeps changing is refused.
_DECODED = 5

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")

#: Options that contain no secret, and are therefore sent to other processes along with a URL.
OPEN = frozenset(
    {
        "account_name", "deadline", "endpoint", "region", "request_payer", "skip_signature", "timeout", "use_emulator",
        "virtual_hosted_style_request",
    }
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Options:
    """The options that the user gives with a URL: those of its store, and where its server may redirect to.

    They can be pickled if none of them is a secret. Providers, which are functions, are pickled by name.
    """

    given: Mapping[str, Any] = field(default_factory=dict, repr=False)
    allow: tuple[str, ...] = ()
    #: Whether an untrusted file led here, in which case no connection is made to addresses of this machine and network.
    guarded: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and (self.given, self.allow, self.guarded) == (
            other.given,
            other.allow,
            other.guarded,
        )

    def __hash__(self) -> int:
        return hash((frozenset(self.given), self.allow))

    def __getstate__(self) -> dict[str, Any]:
        secret = sorted(n for n, v in self.given.items() if n not in OPEN and not callable(v) and v != "environment")
        if secret:
            raise AccessError(
                f"storage_options= with {', '.join(secret)} may hold secrets and are not sent to other processes; give "
                "a provider instead, storage_options={'credentials': function} or {'headers': function}, an importable "
                "function that returns them; or leave them out and set them in the environment of the workers"
            )
        return {"given": dict(self.given), "allow": self.allow, "guarded": self.guarded}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class Url(str):
    """A URL of a file or a store with the options of its store; for other code it is ordinary text."""

    __slots__ = ("options", "recent")
    options: Options
    #: Objects that the call this URL was created for has just read or written there.
    recent: Recent | None

    def __new__(cls, text: str, options: Options | None = None) -> Self:
        """Return a URL."""
        made = super().__new__(cls, text)
        made.options = options or Options()
        made.recent = None
        return made

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True and (not isinstance(other, Url) or self.options == other.options)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Url, (str(self), self.options)

    @property
    def place(self) -> tuple[str, str]:
        """The URL of the folder with the object, and its key there, in which `SLASH` is an encoded slash."""
        from urllib.parse import unquote

        home, _, name = self.rstrip("/").rpartition("/")
        if not self.lower().startswith("http"):
            return home, name
        return home, SLASH.join(unquote(one, errors="surrogateescape") for one in re.split("%2[Ff]", name))

    def beside(self, text: str) -> Url:
        """Return a URL of the same store, with the same options."""
        return Url(text, self.options)

    @property
    def anew(self) -> Url:
        """The same URL, without recent objects."""
        return self.beside(self)


def is_url(path: object) -> bool:
    """Return whether something is a URL of a kind that is read.

    >>> is_url("s3://bucket/a.nc"), is_url("/data/a.nc"), is_url("file:///data/a.nc")
    (True, False, False)
    """
    found = _URL.match(path) if isinstance(path, str) and "://" in path else None
    return found is not None and found[1].lower() in SCHEMES


def a_place(
    path: Any,
    storage_options: Mapping[str, Any] | None = None,
    allow: Iterable[Any] = (),
    *,
    name: str = "path",
    expected: str = "name a file or a Zarr store",
    options_name: str = "storage_options",
) -> str:
    """Return the place that a user names: a `Url`, or a local path in which ``~`` is expanded."""
    text = path if isinstance(path, Url) else a_path(path, name, expected=expected)
    options = a_mapping(storage_options, options_name, "a mapping such as {'skip_signature': True}")
    if is_url(text):
        if isinstance(text, Url):
            return text
        if "?" in text or "#" in text:
            raise SourceError(
                f"{redacted(text)}: a URL with a query or a fragment (#) is not read; leave that part out"
            )
        if text.partition("://")[2][:1] in ("", "/"):
            raise SourceError(f"{text} names neither a server nor a bucket; expected a URL such as s3://bucket/key")
        if "//" in text.partition("://")[2]:
            # Paths are joined from their parts; without the empty part it would be another object.
            raise SourceError(
                f"{redacted(text)}: a URL with '//' in its path is not read; rename the file or the store"
            )
        signs = options.get("skip_signature", False)
        if not isinstance(signs, bool):
            raise OptionError(f"{options_name}: skip_signature is {signs!r}; expected True or False")
        return Url(text, Options(options, tuple(a for a in paths(allow) if is_url(a))))
    if not text or "\0" in text:
        raise SourceError(f"{text!r} is not a file name")
    scheme, _, rest = text.partition(":/")
    if scheme.lower() in SCHEMES and not rest.startswith("/") and not os.path.lexists(text):
        raise SourceError(
            f"{redacted(text)} is not a URL: there is one slash after {scheme}:, and no such file; write {scheme}://"
        )
    other = _URL.match(text)
    if other is not None and not os.path.lexists(text):
        if other[1].lower() == "file":
            told = redacted(text)
            _, slash, path = told.partition("://")[2].partition("/")
            raise SourceError(f"{told} is on this machine: give its path, such as {slash}{path or 'a.nc'}")
        raise SourceError(
            f"{redacted(text)}: {other[1]}:// is not read; expected {', '.join(f'{s}://' for s in SCHEMES)}, or a copy "
            "on this machine"
        )
    if options:
        raise SourceError(
            f"{text} is a local path, to which {options_name} does not apply; found {sorted(map(str, options))}"
        )
    found = os.path.expanduser(text)  # noqa: PTH111
    if found.endswith("/") and os.path.isfile(found.rstrip("/")):  # noqa: PTH113
        raise SourceNotFoundError(f"{text} ends with '/', and {text.rstrip('/')} is a file: leave out the '/'")
    return found


def refuse_url(path: Any, what: str) -> None:
    """Refuse a URL that is not supported here yet, with one error for all such cases.

    >>> refuse_url("s3://b1/a.zarr", "accumulated")
    Traceback (most recent call last):
    ...
    cfagg.errors.UnsupportedError: s3://b1/a.zarr is a URL, which cannot be accumulated yet; use a path of this machine
    """
    text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
    if _URL.match(text) and not os.path.lexists(text):
        raise UnsupportedError(f"{redacted(text)} is a URL, which cannot be {what} yet; use a path of this machine")


def covers(prefix: str, url: str) -> bool:
    """Return whether a URL is at or below another, by whole parts of the path, decoded for web servers.

    >>> covers("https://a.org/x", "https://a.org:443/x/y"), covers("https://a.org/x", "https://a.org/xy")
    (True, False)
    """
    from urllib.parse import unquote_to_bytes, urlsplit

    try:
        outer, inner = urlsplit(prefix), urlsplit(url)
    except ValueError:  # such as for a host with one bracket
        return False
    origin = _origin(outer)
    if origin is None or origin != _origin(inner) or _leads_up(inner.path):
        return False
    top, parts = outer.path.rstrip("/").split("/"), inner.path.split("/")
    if origin[0] in _PORTS:
        # As bytes, which need not be UTF-8.
        return [*map(unquote_to_bytes, parts[: len(top)])] == [*map(unquote_to_bytes, top)]
    return parts[: len(top)] == top


def are_nested(one: str, other: str) -> bool:
    """Return whether one of two URLs is or may be the other or lie in it, also if one is the web address of a bucket.

    >>> are_nested("s3://b1/a.zarr", "s3://b1/a.zarr/tas"), are_nested("s3://b1/a.zarr", "s3://b1/a.zarr2")
    (True, False)
    >>> are_nested("s3://b1/a.zarr", "https://b1.s3.amazonaws.com/a.zarr/tas")
    True
    """
    (scheme, *_), (second, *_) = one.lower().split("://"), other.lower().split("://")
    web = scheme != second
    return any(a[: min(len(a), len(b))] == b[: min(len(a), len(b))] for a in _ways(one, web) for b in _ways(other, web))


def _ways(url: str, web: bool) -> list[list[str]]:
    """Return the parts of a URL, or the two ways in which a web address may name a bucket and a key."""
    from urllib.parse import unquote

    scheme, _, rest = url.partition("://")
    host, *path = [part for part in unquote(rest, errors="surrogateescape").split("/") if part]
    if not (web and scheme.lower() in _PORTS):
        return [[host, *path]]
    return [way for way in (path, [host.partition(".")[0], *path]) if len(way) > 1]


def _origin(parts: Any) -> tuple[str, str, int | None] | None:
    """Return scheme, host or bucket, and port; or `None` if the URL names a user or has an invalid port."""
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        return None if "@" in parts.netloc else (scheme, parts.netloc, None)
    try:
        return None if "@" in parts.netloc else (scheme, parts.hostname or "", parts.port or _PORTS.get(scheme))
    except ValueError:
        return None


def _leads_up(path: str) -> bool:
    """Return whether a path may lead out of the folders that it names, however often a server decodes it."""
    from urllib.parse import unquote

    if ".." not in path and "%" not in path:
        return False
    for _ in range(_DECODED):
        # Servers read backslashes as slashes, and drop parameters after a semicolon.
        if any(part.partition(";")[0] == ".." for part in re.split(r"[/\\]", path)):
            return True
        if path == (path := unquote(path)):
            return False
    return True


def flaw(url: str) -> str | None:
    """Return why a URL in a file is never read, or `None` if it may be read when its place is allowed.

    >>> flaw("https://a.org/x.nc"), flaw("https://me@a.org/x.nc")
    (None, 'it names a user')
    """
    host, _, path = url.partition("://")[2].partition("/")
    if re.search(r"[\x00-\x1f\x7f]", url):
        return "it has control characters"
    if "?" in url or "#" in url:
        return "it has a query or a fragment"
    if "@" in host:
        return "it names a user"
    if not host.isascii():
        return "its host is not written in ASCII"
    if not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?", host):
        return "it has no valid host"
    return "its path leads upwards" if _leads_up(path) else None


def absolute(path: str) -> str:
    """Return a local path as an absolute path, or a URL unchanged."""
    return path if is_url(path) else os.path.abspath(path)  # noqa: PTH100

"""Whether a text is an absolute URI or a relative path, as CF section 2.8.1 and RFC 3986 require of fragments."""

from __future__ import annotations

import re

__all__ = ["problem_of", "scheme_of"]

#: RFC 3986 allows no underscores in schemes, but CF's own example of an absolute URI has one.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+._-]*:")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_ODD = re.compile(r"%(?![0-9A-Fa-f]{2})|[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]")


def scheme_of(text: str) -> str | None:
    """Return the scheme of an absolute URI in lower case, or `None` if there is none."""
    if _DRIVE.match(text):
        return None
    found = _SCHEME.match(text)
    return found[0][:-1].lower() if found else None


def problem_of(text: str) -> str | None:
    """Return why a text is neither an absolute URI nor a relative path; "holds …" only for invalid characters."""
    if text[:1] in ("/", "#"):
        example = "write an absolute URI such as 'file:///data/a.nc', or a path relative to this dataset"
        return f"begins with {text[0]!r}: {example}"
    if not text.strip():
        return "is blank: name a dataset"
    if _DRIVE.match(text):
        return "begins with the letter of a drive: write an absolute URI such as 'file:///C:/data/a.nc'"
    if not _SCHEME.match(text) and ":" in re.split("[/?#]", text, maxsplit=1)[0]:
        return "has a ':' in its first part, which is not a scheme: begin a relative path with './'"
    odd = _ODD.search(text)
    if odd is None:
        return None
    return f"holds {odd[0]!r}, which must be percent-encoded in a URI: write, for example, a space as '%20'"

"""The gate: values of an untrusted file are read only after that dataset of that open file has been admitted.

A format lists the references of a dataset to other files (external links on its path, external storage, virtual
sources). The gate judges the list and parses nothing itself, and refuses a dataset whose references are unknown.
Functions that read values take the token that `admit` returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cfagg.errors import AccessError
from cfagg.storage.files import CONTEXT_SOURCE, Context, Handle

__all__ = ["WHOLE", "Checked", "Reference", "admit"]

#: The name under which a file as a whole is admitted to a library that reads all its metadata when opening it.
WHOLE = ""

_KEY = object()


class Reference(NamedTuple):
    """One reference of a dataset to another file: its kind ("an external link"), and its target."""

    kind: str
    target: str


class Checked:
    """Proof that one dataset of one open file was admitted; only `admit` creates it."""

    __slots__ = ("_handle", "dataset")

    def __init__(self, key: object, handle: Handle, dataset: str) -> None:
        if key is not _KEY:
            raise TypeError("only the gate makes a Checked: call cfagg.storage.gate.admit")
        self._handle = handle
        self.dataset = dataset

    @property
    def handle(self) -> Handle:
        """The open file; `AccessError` is raised if it has been closed since."""
        if not self._handle.is_open:
            raise AccessError(f"{self._handle.key.path} was closed after it was checked; open it again")
        return self._handle

    def __repr__(self) -> str:
        return f"<Checked {self.dataset!r} of {self._handle!r}>"

    def __reduce__(self) -> str:
        raise TypeError("a Checked is valid for one open file of one process and cannot be pickled")


def admit(
    handle: Handle, dataset: str, references: Sequence[Reference] | None, context: Context = CONTEXT_SOURCE
) -> Checked:
    """Admit one dataset of an open file; `WHOLE` is everything that a library reads by itself when opening the file.

    An `AccessError` is raised if it refers to anything outside its file, or if its references are unknown (`None`).

    >>> import tempfile
    >>> from cfagg.storage.files import open_regular
    >>> with tempfile.NamedTemporaryFile() as file, open_regular(file.name) as handle:
    ...     admit(handle, "tas", []).dataset
    'tas'
    """
    if references is None or len(references):
        what = f"variable {dataset!r} of {handle.key.path}" if dataset else handle.key.path
        if references is None:
            raise AccessError(
                context.said(
                    f"{what} is not read, because it is unclear whether its values come from another file: rewrite the "
                    "file, for instance with nccopy"
                )
            )
        listed = "; ".join(f"{r.kind} to {r.target!r}" for r in references[:3])
        more = f"; and {len(references) - 3} more" if len(references) > 3 else ""
        raise AccessError(
            context.said(
                f"{what} takes its values from another file ({listed}{more}); that cannot be allowed: "
                "copy the values into the file"
            )
        )
    return Checked(_KEY, handle, dataset)

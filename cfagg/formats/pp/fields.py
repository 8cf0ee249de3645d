"""The headers and positions of all fields of a PP file or fields file, one column for each property."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg.errors import ModelError

__all__ = ["HEADER_WORDS", "INTEGERS", "REALS", "WORDS", "Fields", "Form"]

#: Words of a header: integers, then reals.
INTEGERS, REALS = 45, 19
HEADER_WORDS = INTEGERS + REALS

#: Names of the words of a header, in order (Met Office, Unified Model documentation paper F3).
_NAMES = (
    "LBYR LBMON LBDAT LBHR LBMIN LBDAY LBYRD LBMOND LBDATD LBHRD LBMIND LBDAYD LBTIM LBFT LBLREC LBCODE LBHEM LBROW "
    "LBNPT LBEXT LBPACK LBREL LBFC LBCFC LBPROC LBVC LBRVC LBEXP LBEGIN LBNREC LBPROJ LBTYP LBLEV LBRSVD1 LBRSVD2 "
    "LBRSVD3 LBRSVD4 LBSRCE LBUSER1 LBUSER2 LBUSER3 LBUSER4 LBUSER5 LBUSER6 LBUSER7 "
    "BRSVD1 BRSVD2 BRSVD3 BRSVD4 BDATUM BACC BLEV BRLEV BHLEV BHRLEV BPLAT BPLON BGOR BZY BDY BZX BDX BMDI BMKS"
)

#: Indices of the words of a header, from 0.
WORDS = {name: number for number, name in enumerate(_NAMES.split())}


@dataclass(frozen=True, slots=True)
class Form:
    """Storage of words: bytes of a word, byte order, and bytes of a record marker (0 in fields files)."""

    word_size: Literal[4, 8]
    byteorder: Literal["<", ">"]
    marker_size: Literal[0, 4, 8]

    @property
    def header_size(self) -> int:
        """Bytes of a header, which are the value of the markers around it."""
        return HEADER_WORDS * self.word_size

    @property
    def marker(self) -> str:
        """The `struct` format of a marker."""
        return f"{self.byteorder}{'Q' if self.marker_size == 8 else 'I'}"

    @property
    def integer(self) -> np.dtype[Any]:
        """Type of a stored integer."""
        return np.dtype(f"{self.byteorder}i{self.word_size}")

    @property
    def real(self) -> np.dtype[Any]:
        """Type of a stored real number."""
        return np.dtype(f"{self.byteorder}f{self.word_size}")


@dataclass(frozen=True, eq=False, slots=True)
class Fields:
    """The fields of one file, in its order: a header of 64 words each, and the positions of their data.

    ``fields["LBPACK"]`` is the column of one word of the headers.

    Parameters
    ----------
    integers : int64 array, shape (n, 45)
        Words 0 to 44 of the headers.
    reals : float64 array, shape (n, 19)
        Words 45 to 63 of the headers.
    header_offset, data_offset : int64 array, shape (n,)
        Bytes of the file at which headers and data begin, after their record markers.
    data_length : int64 array, shape (n,)
        Bytes of the data as stored, including extra data, and padding in fields files.
    word_size : int
        4 or 8 bytes.
    byteorder : str
        ``">"`` or ``"<"``, as in NumPy.
    marker_size : int
        Bytes of a record marker: 4 or 8, and 0 in fields files, which have none.
    """

    integers: npt.NDArray[np.int64]
    reals: npt.NDArray[np.float64]
    header_offset: npt.NDArray[np.int64]
    data_offset: npt.NDArray[np.int64]
    data_length: npt.NDArray[np.int64]
    word_size: int
    byteorder: str
    marker_size: int

    def __post_init__(self) -> None:
        n = len(self.header_offset)
        for name, shape in (
            ("integers", (n, INTEGERS)),
            ("reals", (n, REALS)),
            ("header_offset", (n,)),
            ("data_offset", (n,)),
            ("data_length", (n,)),
        ):
            column = getattr(self, name)
            if column.shape != shape:
                raise ModelError(f"column {name} of the fields has shape {column.shape}, expected {shape}")
            column.flags.writeable = False

    def __len__(self) -> int:
        return len(self.header_offset)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        number = WORDS[name]
        return self.integers[:, number] if number < INTEGERS else self.reals[:, number - INTEGERS]

    def __repr__(self) -> str:
        return f"<Fields {len(self):,}: words of {self.word_size} bytes, {self.byteorder}>"

    def take(self, index: Any) -> Fields:
        """Return some of the fields, by a slice, mask or array of indices."""
        names = ("integers", "reals", "header_offset", "data_offset", "data_length")
        return replace(self, **{name: getattr(self, name)[index] for name in names})

    @property
    def form(self) -> Form:
        """How the words are stored."""
        return Form(self.word_size, self.byteorder, self.marker_size)  # type: ignore[arg-type]

    @classmethod
    def parse(
        cls,
        headers: bytes | bytearray,
        header_offset: npt.ArrayLike,
        data_offset: npt.ArrayLike,
        data_length: npt.ArrayLike,
        form: Form,
    ) -> Fields:
        """Return the fields of headers that are consecutive in memory."""
        words = np.frombuffer(bytes(headers), form.integer).reshape(-1, HEADER_WORDS)
        reals = np.ascontiguousarray(words[:, INTEGERS:]).view(form.real)
        with np.errstate(invalid="ignore"):  # signalling NaN of a damaged header
            return cls(
                words[:, :INTEGERS].astype(np.int64),
                reals.astype(np.float64),
                np.array(header_offset, np.int64),
                np.array(data_offset, np.int64),
                np.array(data_length, np.int64),
                form.word_size,
                form.byteorder,
                form.marker_size,
            )

"""How alike variables have to be to be joined."""

from __future__ import annotations

from dataclasses import dataclass

from cfagg.errors import OptionError

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How alike variables have to be to be joined; names and defaults are those of cf-python, but for `rtol`.

    Parameters
    ----------
    relaxed_identities : bool
        What has no standard name is known by its long name, else by its name.
    relaxed_units : bool
        Variables without units are joined with each other; by default these, and those with coordinates without units,
        are joined with nothing.
    respect_valid : bool
        Valid ranges have to be equal.
    equal, exist : tuple of str
        Attributes that have to be equal, or to be there in both or in neither.
    rtol, atol : float
        How far coordinates may differ and still be equal, relatively and absolutely: a few units in the last place of
        8-byte reals unless more is allowed.
    overlap : bool
        Cells of neighbours, as their bounds say, may overlap.
    contiguous : bool
        There may be no gap between cells of neighbours, all of which need bounds.
    interleave : bool
        Coordinates of one may stand between those of another, such as odd and even times; none may be in both.

    Raises
    ------
    OptionError
        Where coordinates are interleaved, there are no neighbours of whose cells the other two could speak.
    """

    relaxed_identities: bool = False
    relaxed_units: bool = False
    respect_valid: bool = False
    equal: tuple[str, ...] = ()
    exist: tuple[str, ...] = ()
    rtol: float = 2.0**-50
    atol: float = 0.0
    overlap: bool = True
    contiguous: bool = False
    interleave: bool = False

    def __post_init__(self) -> None:
        if self.interleave and (self.contiguous or not self.overlap):
            raise OptionError(
                "interleave=True says that parts are no neighbours: leave it out, or contiguous=True and overlap=False"
            )

"""One defect in a clean dataset."""

from __future__ import annotations

from dataclasses import dataclass

from tests.checking.corpus import CLEAN

__all__ = ["Defect"]


@dataclass(frozen=True)
class Defect:
    """A clean dataset in which one passage is replaced, so that it breaks one rule.

    Parameters
    ----------
    code : str
        The rule.
    base : str
        Key of the clean dataset.
    old, new : str
        The passage, which occurs once, and what stands there instead.
    also : tuple of str
        Codes of other errors that the same defect is by the text of the conventions.
    more : tuple of (str, str)
        Further passages that the same change needs, such as values for another type.
    version : str, optional
        Checked against this version instead of the one that the dataset claims.
    """

    code: str
    base: str
    old: str
    new: str
    also: tuple[str, ...] = ()
    more: tuple[tuple[str, str], ...] = ()
    version: str | None = None

    @property
    def name(self) -> str:
        """Its name in the list of tests."""
        return f"{self.code} {self.base}: {' '.join(self.new.split()) or 'no ' + ' '.join(self.old.split())}"

    def text(self) -> str:
        """Return the dataset as CDL.

        Raises
        ------
        ValueError
            If the passage does not occur exactly once.
        """
        text = CLEAN[self.base]
        for old, new in ((self.old, self.new), *self.more):
            if text.count(old) != 1:
                raise ValueError(f"{old!r} occurs {text.count(old)} times in {self.base!r}")
            text = text.replace(old, new)
        return text

"""Planning fixes: the changes that findings propose, without those that would make errors, which are named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cfagg.checking.changes import Change, net_changes, owners_of, place_of, planned, try_change
from cfagg.checking.engine import COUNTED, run
from cfagg.checking.options import Options
from cfagg.checking.suppressions import Hiding
from cfagg.findings.finding import Finding
from cfagg.model.dataset import Dataset

__all__ = ["new_errors", "plan"]

#: Rounds of changes, since renaming an attribute may reveal that its value is wrong.
_ROUNDS = 4

#: An attribute that is changed, as path and name.
type _Key = tuple[str | None, str]


def new_errors(before: Iterable[Finding], after: Iterable[Finding]) -> list[Finding]:
    """Return errors of rules that a variable did not violate before."""
    known = {(f.code, f.variable) for f in before}
    return [f for f in after if f.severity == "error" and (f.code, f.variable) not in known]


def plan(
    dataset: Dataset, found: list[Finding], options: Options, hiding: Hiding, *, unsafe: bool
) -> tuple[list[Change], list[str]]:
    """Return the changes to make, and sentences about those that are refused; the model is left as it was."""
    planning = _Planning(dataset, found, options, hiding, unsafe)
    changes, refused, worse = planning.tried(set())
    if not worse:
        return changes, refused
    variables = {f.variable for f in worse}
    keys = [(c.path, c.attribute) for c in changes]
    blamed = [key for key in keys if key[0] in variables]
    if not blamed or planning.tried(set(blamed))[2]:
        blamed = keys
    reasons: dict[_Key, Finding] = {}
    left = planning.without_errors(blamed, set(blamed), reasons)
    codes = {(c.path, c.attribute): c.code for c in changes}
    changes, refused, _ = planning.tried(left)
    for key, error in reasons.items():
        refused.append(f"{codes[key]}: {place_of(*key)}: the change would make an error, and is left out: {error}")
    return changes, refused


class _Planning:
    """Changes that are tried on the model of a dataset, which is restored afterwards."""

    def __init__(self, dataset: Dataset, found: list[Finding], options: Options, hiding: Hiding, unsafe: bool) -> None:
        self.dataset, self.found, self.options, self.hiding, self.unsafe = dataset, found, options, hiding, unsafe

    def tried(self, left: set[_Key]) -> tuple[list[Change], list[str], list[Finding]]:
        """Return all changes but those in `left`, the refused ones, and the errors that the changes make.

        Changes are applied to the model, since one may lead to further findings.
        """
        now, all_changes, refused = self.found, list[Change](), list[str]()
        owners = owners_of(self.dataset)
        former = {id(owner): (owner, owner.attributes) for owner in owners.values()}
        try:
            for _ in range(_ROUNDS):
                changes, more = planned(self.dataset, now, unsafe=self.unsafe)
                refused = list(dict.fromkeys([*refused, *more]))
                changes = [c for c in changes if (c.path, c.attribute) not in left]
                if not changes:
                    break
                all_changes = net_changes([*all_changes, *changes])
                for change in changes:
                    owner = owners[change.path]
                    owner.attributes = dict(owner.attributes)  # other variables may have the same
                    try_change(owner.attributes, change)
                now = run(self.dataset, self.options, self.hiding, COUNTED).findings
        finally:
            for owner, attributes in former.values():
                owner.attributes = attributes
        return all_changes, refused, new_errors(self.found, now)

    def without_errors(self, keys: Sequence[_Key], left: set[_Key], reasons: dict[_Key, Finding]) -> set[_Key]:
        """Return what is still to be left out of `left` once as many of `keys` as make no error are changed."""
        worse = self.tried(left - set(keys))[2]
        if not worse:
            return left - set(keys)
        if len(keys) == 1:
            reasons[keys[0]] = worse[0]
            return left
        half = len(keys) // 2
        return self.without_errors(keys[half:], self.without_errors(keys[:half], left, reasons), reasons)

"""Running the rules on one dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from cfagg.checking.context import Context
from cfagg.checking.options import Options
from cfagg.checking.registry import jobs, plugins, registered
from cfagg.checking.suppressions import Hiding
from cfagg.conventions.aside import is_observations
from cfagg.errors import AccessError, FragmentReadError, LimitError, MissingExtraError, OptionError, UnsupportedError
from cfagg.findings.finding import Finding, Hit, NotApplicable
from cfagg.findings.rule import Rule
from cfagg.findings.versions import LATEST, Version, claimed, parse
from cfagg.formats.metadata.foreign import Foreign
from cfagg.model.dataset import Dataset, Group, Variable

__all__ = ["Result", "run", "version_of"]

#: Families of rules that also apply to variables and groups that follow other conventions than CF.
OWN = ("ACC", "OBS", "INT")

#: Largest number of findings of one rule that a report keeps for one dataset; further ones are only counted.
KEPT = 1000

#: Characters of the longest message.
SAID = 2000

#: Largest number that is counted, so that a list of a million wrong names is not searched to its end.
COUNTED = 100_000

#: Maximum number of reasons why values of one variable cannot be read.
_REFUSALS = 10


class Result(NamedTuple):
    """What the rules found in one dataset.

    `skipped` maps rules that were not run to the reason, `dropped` counts findings beyond the limit by code, and
    `unfinished` maps reasons to the codes of rules that could not read all that they need.
    """

    source: str
    version: Version
    findings: list[Finding]
    skipped: dict[str, str]
    dropped: Counter[str]
    unfinished: dict[str, list[str]]


def version_of(dataset: Dataset, options: Options) -> Version:
    """Return the version of CF to check against.

    It is the requested version, else the newest known version that the dataset claims, else the newest published one.
    """
    if options.cf_version is not None:
        asked = parse(options.cf_version)
        if asked is None:
            raise OptionError(f"{options.cf_version!r} is not a version of CF; known are 1.0 to 1.13 and 1.14-draft")
        return asked
    words = claimed(dataset.root.text("Conventions") or "")
    known = [v for v in map(parse, words) if v is not None]
    return max(known, default=LATEST)


def run(dataset: Dataset, options: Options, hiding: Hiding | None = None, most: int = KEPT) -> Result:
    """Run all rules that apply, and keep up to `most` findings of each, without those that `hiding` hides.

    A rule that crashes becomes a finding ``INT001``, and the others still run.
    """
    # The values may be anything, and warnings about overflow do not help the user.
    with np.errstate(all="ignore"):
        return _run(dataset, options, hiding or Hiding(dataset.source), most)


def _run(dataset: Dataset, options: Options, hiding: Hiding, most: int) -> Result:
    version = version_of(dataset, options)
    context = Context(dataset, version, options)
    result = Result(dataset.source, version, [], {}, Counter(), {})
    problems = (*jobs().problems, *plugins().problems)
    result.findings.extend(Finding("INT002", "error", None, None, problem) for problem in problems)
    if dataset.damage is not None:
        result.findings.append(Finding("INT003", "error", None, None, dataset.damage))
    lacking = [v for v in dataset.variables if v.unreadable is not None]
    result.findings.extend(Finding("INT004", "warning", v.path, None, str(v.unreadable)) for v in lacking)
    result.findings.extend(_refusals(dataset))
    observations = is_observations(dataset)
    for code, rule in registered().items():
        if rule.function is None or not rule.holds_in(version) or not options.chooses(code):
            continue
        if observations and not code.startswith(OWN):
            result.skipped[code] = "stores of observations have a layout of their own, which CF does not cover"
            continue
        if "data" in rule.needs.split() and not options.data:
            result.skipped[code] = "values are read only with --data"
            continue
        if "references" in rule.needs and not options.references:
            result.skipped[code] = "referenced files are opened only with --references"
            continue
        _run_one(rule, context, result, hiding, most)
    result.findings.extend(_unread(result.unfinished))
    return result


def _refusals(dataset: Dataset) -> Iterator[Finding]:
    """Yield a finding for each of the first reasons why values of a variable cannot be read, without reading any."""
    for v in dataset.variables:
        if v.refusals is not None and v.unreadable is None:
            for error in islice(v.refusals(), _REFUSALS):
                if isinstance(error, UnsupportedError):
                    yield Finding("INT004", "warning", v.path, None, error.message)
                else:
                    yield Finding("INT003", "error", v.path, None, error.message)


def _unread(unfinished: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Yield a finding for each reason why rules could not read what they need."""
    for reason, codes in unfinished.items():
        yield Finding("INT004", "warning", None, None, f"not checked by {', '.join(codes)}: {reason}"[:SAID])


def _run_one(rule: Rule, context: Context, result: Result, hiding: Hiding, most: int) -> None:
    assert rule.function is not None  # noqa: S101 - rules without a function were left out by the caller
    found = kept = 0
    severities: set[str] = set()
    reported: set[tuple[str | None, str | None, str, str]] = set()
    try:
        for hit in rule.function(context):
            if hit.where in context.aside and not rule.code.startswith(OWN):
                continue
            if (unread := _unread_attribute(hit, context)) is not None:
                _leave_unfinished(rule, result, unread)
                continue
            finding = _finding(rule, hit)
            # Variables that refer to the same one may each find the same fault in it.
            if (said := (finding.variable, finding.attribute, finding.message, str(finding.fix))) in reported:
                continue
            reported.add(said)
            found += 1
            if found > COUNTED:
                _leave_unfinished(rule, result, f"it has more than {COUNTED:,} findings; the rest was not searched for")
                break
            # Hidden findings are not kept in place of others, or a thousand of them would hide those that follow.
            if hiding.hides(finding):
                continue
            kept += 1
            # The first finding of each severity is always kept, since the status of a check depends on it.
            if kept > most and finding.severity in severities:
                result.dropped[rule.code] += 1
            else:
                severities.add(finding.severity)
                result.findings.append(finding)
    except (NotApplicable, MissingExtraError) as reason:
        result.skipped[rule.code] = str(reason)
    except (LimitError, AccessError) as reason:
        result.skipped[rule.code] = str(reason)
        _leave_unfinished(rule, result, str(reason))
    except FragmentReadError as reason:
        # Several rules may encounter the same damage, which is reported once.
        result.skipped[rule.code] = str(reason)
        damage = Finding("INT003", "error", None, None, str(reason))
        if damage not in result.findings:
            result.findings.append(damage)
    except Exception as error:  # noqa: BLE001 - whatever a rule stumbles over is a finding about the rule
        message = f"rule {rule.code} failed on this dataset: {type(error).__name__}: {error}"
        result.findings.append(Finding("INT001", "error", None, None, message))


def _leave_unfinished(rule: Rule, result: Result, reason: str) -> None:
    codes = result.unfinished.setdefault(reason, [])
    if rule.code not in codes:
        codes.append(rule.code)


def _unread_attribute(hit: Hit, context: Context) -> str | None:
    """Return why the attribute that a rule has a finding about was not read, or `None` if it was."""
    if hit.attribute is None:
        return None
    owner = hit.where or context.dataset.root
    value = owner.attributes.get(hit.attribute)
    return f"{hit.attribute} of {owner.path} is {value}" if isinstance(value, Foreign) and value.unread else None


def _finding(rule: Rule, hit: Hit) -> Finding:
    where = hit.where
    if isinstance(where, Variable):
        path: str | None = where.path
    elif isinstance(where, Group):
        path = None if where.path == "/" else f"{where.path}/"
    else:
        path = None
    # Names and values in a message come from the dataset and may have any length.
    message = hit.message if len(hit.message) <= SAID else f"{hit.message[: SAID - 3]}..."
    return Finding(rule.code, hit.severity or rule.severity, path, hit.attribute, message, hit.fix)

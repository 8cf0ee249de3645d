"""``cfagg check --fix``: show how findings would be fixed, or write a corrected copy."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from cfagg.cli.options import Arguments
from cfagg.display.escape import printable

if TYPE_CHECKING:
    from cfagg.checking.config import Settings
    from cfagg.checking.fixing import FixReport
    from cfagg.findings.finding import Finding

__all__ = ["fix_sources"]


def fix_sources(args: Arguments, chosen: Any) -> int:
    """Fix sources one after another; differences go to stdout.  Exit status: 0 no errors left, 1 some, 2 failed."""
    from cfagg.checking.listing import expanded
    from cfagg.errors import OptionError
    from cfagg.storage.urls import refuse_url

    if args.output is not None and args.output.lower().startswith("http"):
        refuse_url(args.output, "written")
    sources = list(expanded(args.sources))
    if args.output is not None and len(sources) > 1:
        raise OptionError("--fix with --output takes one source; use --in-place for several")
    return max(_fix(source, chosen.of(source), args, chosen) for source in sources)


def _fix(source: str, settings: Settings, args: Arguments, chosen: Any) -> int:
    """Fix one source, and return the exit status for it alone."""
    from cfagg.checking.engine import COUNTED
    from cfagg.checking.fixing import fix
    from cfagg.checking.single import check_or_report
    from cfagg.cli.messages import as_options
    from cfagg.errors import CfaggError

    options = chosen.options(settings)
    checked = check_or_report(source, options, settings.suppressions, most=COUNTED)
    if checked.failure is not None:
        _say(f"{source}: not checked: {as_options(checked.failure)}")
        return 2
    try:
        fixed = fix(
            source,
            checked.findings,
            args.output,
            unsafe=args.unsafe_fixes,
            in_place=args.in_place,
            overwrite=args.overwrite,
            options=options,
            suppressions=settings.suppressions,
        )
    except CfaggError as error:
        _say(f"error: {as_options(error.message)}")
        return 2
    if fixed.changes and not args.quiet:
        for line in fixed.text.splitlines():
            print(printable(line))
    left: list[Finding] = list(checked.findings) if fixed.output is None else fixed.remaining
    if not args.quiet:
        _tell(fixed, left)
    if any(f.is_failure for f in left):
        return 2
    fails = {"error", "warning"} if settings.strict or args.strict else {"error"}
    return int(any(f.severity in fails for f in left))


def _tell(fixed: FixReport, left: list[Finding]) -> None:
    """Report on stderr what was fixed, what was not, and what is left."""
    from cfagg.display.sizes import count_text

    for refused in fixed.refused:
        _say(f"note: {fixed.source}: {refused}")
    count = count_text(len(fixed.changes), "change")
    if not fixed.changes:
        did = "nothing to change"
    elif fixed.output is None:
        did = f"{count} to make; --output or --in-place writes them"
    else:
        did = f"{count} written to {fixed.output}"
    severities = Counter(f.severity for f in left)
    rest = f"{count_text(severities['error'], 'error')} and {count_text(severities['warning'], 'warning')}"
    _say(f"{fixed.source}: {did}; it has {rest}" if fixed.output is None else f"{fixed.source}: {did}; {rest} left")


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr)

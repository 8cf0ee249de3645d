"""Results of checks as no dataset of good will gives them."""

from __future__ import annotations

from cfagg.checking.report import SourceReport
from cfagg.findings.finding import Finding

#: Text that means something in HTML, XML, JSON, terminals and workflow commands.
HOSTILE = "<script>alert(1)</script>&\"'%0A::error::\n\r\x1b[31m\x00\u202e\ud800]]>"

PLAIN = SourceReport(
    "data/a b.nc",
    "1.8",
    (
        Finding("UNI002", "error", "tas", "units", "units 'hot' are not known"),
        Finding("DOC004", "warning", "tas", None, "the variable is called so"),
        Finding("DOC010", "info", None, "Conventions", "a remark"),
    ),
    skipped={"DOC001": "the source has no file name"},
    ran=("UNI001", "UNI002", "DOC004", "DOC010"),
    tables={"standard_names": "94"},
)

CLEAN = SourceReport("clean.nc", "1.13", ran=("UNI001", "UNI002"))

BAD = SourceReport(
    HOSTILE,
    "1.8",
    (
        Finding("UNI002", "error", f"g/{HOSTILE}", HOSTILE, HOSTILE),
        Finding("DOC010", "warning", None, None, HOSTILE),
    ),
    skipped={"DOC001": HOSTILE},
    ran=("UNI001", "UNI002", "DOC010"),
    tables={"standard_names": HOSTILE},
)

UNREAD = SourceReport(
    "/archive/none.nc",
    None,
    (Finding("INT003", "error", None, None, "not checked: there is no such file"),),
    failure="there is no such file",
)

ALL = (PLAIN, CLEAN, BAD, UNREAD)

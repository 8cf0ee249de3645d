"""Bytes of local files: what may be opened, what was opened, and the gate before every value of an untrusted file.

`files` opens regular files and nothing else, `handles` keeps some of them open, `gate` admits one dataset of one open
file at a time.  Nothing here knows a format.
"""

from __future__ import annotations

"""Access to files and objects: which files may be opened, the open files, and the gate that guards untrusted files.

`files` opens only regular files, `handles` keeps some of them open, and `gate` admits one dataset of one open file at a
time. None of these modules knows a file format.
"""

from __future__ import annotations

"""``python -m cfagg``."""

import sys

from cfagg.cli.main import main

status = main()
if status in (130, 143):
    # Compiled modules that run Python code of their own, as some do while they are imported, leave a mark if it is
    # interrupted, by which Python would end itself with SIGINT whatever the status.  Running anything removes the mark.
    import ctypes

    ctypes.pythonapi.PyRun_SimpleString(b"")
sys.exit(status)

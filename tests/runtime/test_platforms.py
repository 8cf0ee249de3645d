"""What macOS says otherwise than Linux; ENOTSUP and EOPNOTSUPP are one number on Linux."""

from __future__ import annotations

import subprocess
import sys

MAC = """
import ctypes, errno, fcntl, sys
errno.ENOTSUP, errno.EOPNOTSUPP = 45, 102
from cfagg.runtime import publishing, staging
from cfagg.storage import files

def refused(*_):
    raise OSError(45, "Operation not supported")

def unable(*_):
    ctypes.set_errno(45)
    return -1

sys.platform = "darwin"
publishing._from_c_library = lambda name: unable
folder = sys.argv[1]
print(publishing.exchange(folder, folder))
fcntl.F_FULLFSYNC, flock, control = 51, fcntl.flock, fcntl.fcntl
fcntl.fcntl = refused
with open(f"{folder}/a", "wb") as file:
    publishing.sync_file(file.fileno())
fcntl.fcntl, fcntl.flock = control, refused
print(staging.has_locks(folder))
print(staging.lock(__import__("pathlib").Path(folder, "lock"))[1])
"""


def test_a_file_system_of_macos_that_cannot_do_something_is_not_in_trouble(tmp_path):
    done = subprocess.run([sys.executable, "-c", MAC, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["False", "False", "None"], "")


def test_windows_is_refused_at_once_with_what_to_do():
    code = "import os; os.name = 'nt'; import cfagg"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: cfagg needs Linux or macOS" in done.stderr
    assert "Windows Subsystem for Linux" in done.stderr

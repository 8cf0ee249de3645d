"""What tests of several conventions read."""

from __future__ import annotations

import pytest

from tests import nca_files
from tests.conventions.fragments import VALUES


@pytest.fixture
def parts(tmp_path):
    """Two fragments of 3 and 9 times."""
    for k, span in enumerate((slice(0, 3), slice(3, 12))):
        nca_files.fragment(tmp_path / f"p{k}.nc", "tas", VALUES[span], ["time", "lat"], {"units": "K"})
    return tmp_path

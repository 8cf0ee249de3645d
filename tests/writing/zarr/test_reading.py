"""Monthly files are appended while a process of its own reads the store by xarray."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.writing.zarr.reading import MONTHS, appended_meanwhile, check
from tests.writing.zarr.test_appending import series, write

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata:UserWarning")


@pytest.mark.few(1)
@pytest.mark.parametrize("zarr_format", [3, 2])
def test_xarray_sees_whole_months_with_right_values_while_they_are_appended(tmp_path: Path, zarr_format: int) -> None:
    store = write(tmp_path / "a.zarr", series(0, MONTHS[0]), zarr_format, chunk=16)
    check(list(appended_meanwhile(str(store), tmp_path)))

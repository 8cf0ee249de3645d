"""Stores that several tests look at."""

import pytest

import cfagg
from tests.observations.builds import recipe


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """One store of each layout, built in one part."""
    folder = tmp_path_factory.mktemp("whole")
    for form in ("zarr2", "cfagg"):
        cfagg.create_observations(recipe(group_by="all", format=form), folder / f"{form}.zarr", workers=1)
    return folder

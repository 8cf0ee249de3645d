"""Attributes that mark variables."""

from __future__ import annotations

import numpy as np
import pytest

from cfagg.conventions import marks
from cfagg.errors import ConventionError


def test_is_private_follows_the_integer() -> None:
    assert marks.is_private({"nca_private": np.int32(7)})
    assert marks.is_private({"nca_private": np.array([-1])})
    assert not marks.is_private({"nca_private": np.int8(0)})
    for other in ("yes", 1.0, np.array([1, 1])):
        with pytest.raises(ConventionError, match="integer"):
            marks.is_private({"nca_private": other})

"""The names that `import cfagg` offers, whatever was imported before."""

from __future__ import annotations

import subprocess
import sys

import pytest

import cfagg


@pytest.mark.parametrize("name", cfagg.__all__)
def test_a_public_name_is_found_and_listed(name: str) -> None:
    assert getattr(cfagg, name) is not None
    assert name in dir(cfagg)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = cfagg.nothing


@pytest.mark.parametrize(
    "before",
    [
        "",
        "import cfagg.conversion",
        "import cfagg.cli.convert",
        "from cfagg.conversion import convert",
        "import cfagg.reading",
    ],
)
def test_convert_and_read_are_functions_whatever_was_imported_before(before: str) -> None:
    check = "import cfagg; print(callable(cfagg.convert), callable(cfagg.read))"
    done = subprocess.run([sys.executable, "-c", f"{before}\n{check}"], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "True"], done.stderr

"""``--substitute`` and ``substitutions=``: a text for a base in names of files, wherever a file is opened."""

from __future__ import annotations

import numpy as np
import pytest

import cfagg
from cfagg.cli.main import main
from cfagg.errors import OptionError
from tests import instruction_files, nca_files

VALUES = np.arange(3.0)


@pytest.fixture
def moved(tmp_path):
    """An aggregation whose base has moved from `old` to `new`, and an aggregation of that."""
    (tmp_path / "new").mkdir()
    nca_files.fragment(tmp_path / "new/p.nc", "tas", VALUES, ["t"], {})
    inner = instruction_files.cfa(
        tmp_path / "inner.nc", "tas", "f8", {"t": 3}, [[3]], ["${base}p.nc"], substitutions="${base}: old/"
    )
    outer = instruction_files.cfa(tmp_path / "outer.nc", "tas", "f8", {"t": 3}, [[3]], ["inner.nc"])
    return inner, outer


@pytest.mark.few(2)
@pytest.mark.parametrize("which", [0, 1], ids=["plain", "nested"])
@pytest.mark.parametrize("base", ["base", "${base}"])
def test_every_verb_puts_a_text_in_place_of_a_base(moved, tmp_path, capsys, which, base):
    path = str(moved[which])
    option = ["--substitute", f"{base}=new/"]
    np.testing.assert_array_equal(cfagg.read(path, substitutions={base: "new/"}).tas.values, VALUES)
    assert main(["show", path, "--references", *option]) == 0
    assert (["new/p.nc", "inner.nc"][which]) in capsys.readouterr().out
    assert main(["convert", path, str(tmp_path / "x.zarr"), *option]) == 0
    np.testing.assert_array_equal(cfagg.read(tmp_path / "x.zarr").tas.values, VALUES)
    assert main(["convert", path, str(tmp_path / "x.nc"), "--to", "CFA-0.6.2", *option]) == 0
    np.testing.assert_array_equal(cfagg.read(tmp_path / "x.nc", substitutions={base: "new/"}).tas.values, VALUES)


def test_check_opens_the_files_under_a_base(moved, capsys):
    gone = [
        main(["check", "--references", "--select", "REF", "--format", "json", str(moved[0]), *option])
        for option in ([], ["--substitute", "base=new/"])
    ]
    assert gone == [1, 0]
    assert "old/p.nc" in capsys.readouterr().out


def test_what_is_no_base_and_text_is_a_usage_error(moved, tmp_path, capsys):
    assert main(["convert", str(moved[0]), str(tmp_path / "x.zarr"), "--substitute", "base"]) == 2
    assert "'base' is not a base and a text, like base=/archive/" in capsys.readouterr().err
    with pytest.raises(OptionError, match="substitutions"):
        cfagg.convert(moved[0], tmp_path / "x.zarr", substitutions=["base"])
    with pytest.raises(OptionError, match="substitutions"):
        cfagg.show(moved[0], substitutions=7)

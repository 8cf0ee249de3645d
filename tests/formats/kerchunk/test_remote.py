"""References on a web server are read as those here, and lead nowhere but to that server's own place."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.errors import AccessError
from tests.formats.kerchunk.making import placed
from tests.observations.servers import served


@pytest.mark.parametrize("name", ["kerchunk-d.json", "kerchunk-c.json"])
def test_references_on_a_server_are_read_with_the_files_beside_them(tmp_path, name):
    folder = placed(tmp_path)
    kind = name[-6]
    whole = xr.concat([xr.open_dataset(folder / f"{kind}{k}.nc") for k in range(2)], "time", data_vars="minimal")
    with served(folder) as server:
        found = cfagg.read(f"{server.url}/{name}").tas.load()
    np.testing.assert_array_equal(found.values, whole.tas.values)


@pytest.mark.parametrize("url", ["/etc/hostname", "file:///etc/hostname", "http://127.0.0.1:9/a.nc"])
def test_references_on_a_server_lead_to_no_file_here_and_to_no_other_server(tmp_path, url):
    folder = placed(tmp_path)
    found = json.loads((folder / "kerchunk-d.json").read_text())
    found["refs"]["tas/0.0.0"] = [url, 0, 4]
    (folder / "a.json").write_text(json.dumps(found))
    with served(folder) as server, pytest.raises(AccessError, match=r"reference 'tas/0\.0\.0'"):
        _ = cfagg.read(f"{server.url}/a.json").tas.values

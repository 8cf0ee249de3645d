"""Addresses of this machine and its network, to which no name in an untrusted file leads, in any version of Python."""

from __future__ import annotations

import pytest

from cfagg.errors import AccessError
from cfagg.storage.connections import Connection


@pytest.mark.parametrize("address", [
    "127.0.0.1", "::1", "::ffff:127.0.0.1", "::127.0.0.1", "2002:7f00:1::", "2001:0:7f00:1::", "64:ff9b::a00:1",
    "64:ff9b:1::a00:1", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1", "224.0.0.1", "::", "169.254.169.254",
    "192.0.0.8",
])  # fmt: skip
def test_no_name_stands_for_an_address_of_this_network(address) -> None:
    with pytest.raises(AccessError, match="of this machine or its network"):
        Connection("http", "data.example.org", 80, 60.0, True)._check_address(address)


@pytest.mark.parametrize("address", ["2606:4700::1111", "8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_a_name_may_stand_for_any_other_address(address) -> None:
    Connection("http", "data.example.org", 80, 60.0, True)._check_address(address)

"""Fragments behind URLs: read where their place is allowed, and every way out of it is refused before it is asked."""

from __future__ import annotations

import http.client
import re
import shlex
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cfagg
from cfagg.cli.main import main
from cfagg.errors import AccessError, CfaggError
from cfagg.storage.access import Access
from cfagg.storage.connections import Connection
from cfagg.storage.urls import covers
from tests import instruction_files
from tests.nca_files import aggregation, array, fragment
from tests.observations.servers import Server, served
from tests.storage.remote.conftest import Bucket, Nginx

VALUES = np.arange(6, dtype="f4")
SECRET = "unlikely-to-be-said"


def parted(path: Path, references: list[str]) -> Path:
    """Write an aggregation of fragments of two values each."""
    edges = [[2 * i for i in range(len(references) + 1)]]
    described = array(
        ["x"], edges, lambda index, _: {"data": {"file": references[index[0]], "ncvar": "v", "shape": [2]}}
    )
    return aggregation(path, "v", "f4", {"x": 2 * len(references)}, described)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fragments of three formats, each in several places."""
    made = tmp_path_factory.mktemp("fragments")
    for place in ("data", "other", "dataset", "other/data"):
        (made / place).mkdir()
        for i, form in enumerate(("NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET")):
            fragment(made / place / f"{'abc'[i]}.nc", "v", VALUES[2 * i : 2 * i + 2], ["x"], format=form)
    return made


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    with served(folder) as made:
        yield made


def read(path: Any, **options: Any) -> np.ndarray:
    return cfagg.read(path, **options)["v"].values


def admitted_by_its_message(path: Any, **options: Any) -> str:
    """Check that a file is refused, and read with what the message says; return that."""
    with pytest.raises(AccessError) as refused:
        read(path, **options)
    said = re.search(r"pass allow=\['([^']*)'\] or, on the command line, --allow (\S+)$", str(refused.value))
    assert said is not None, str(refused.value)
    assert said[1] == said[2]
    np.testing.assert_array_equal(read(path, allow=[said[1]], **options), VALUES)
    return said[1]


# ---- what is allowed is read


def test_fragments_on_a_web_server_are_read_where_their_place_is_allowed(server, tmp_path) -> None:
    path = parted(tmp_path / "x.nca", [f"{server.url}/data/{n}.nc" for n in "abc"])
    assert admitted_by_its_message(path) == f"{server.url}/data"


@pytest.mark.parametrize("form", ["NETCDF4", "NETCDF3_CLASSIC"])
@pytest.mark.parametrize("told", [True, False])
def test_looking_at_the_coordinates_of_a_square_fragment_asks_a_web_server_for_no_more(tmp_path, form, told) -> None:
    axes = {"y": (["y"], [0.0, 1.0], {"axis": "Y"}), "x": (["x"], [0.0, 1.0], {"axis": "X"})}
    (tmp_path / "data").mkdir()
    asked = []
    with served(tmp_path) as server:
        for known in ({}, axes):
            name = f"data/{len(known)}.nc"
            fragment(
                tmp_path / name, "v", np.zeros((2, 2), "f4"), ["y", "x"], coordinates=axes if told else {}, format=form
            )
            data = {"data": {"file": f"{server.url}/{name}", "ncvar": "v", "shape": [2, 2]}}
            content = array(["y", "x"], [[0, 2], [0, 2]], lambda *_, data=data: data)
            path = aggregation(tmp_path / f"{len(known)}.nca", "v", "f4", {"y": 2, "x": 2}, content, coordinates=known)
            server.seen.clear()
            read(path, allow=[server.url])
            asked.append(len(server.seen))
    assert 0 < asked[1] <= asked[0]


def test_fragments_on_nginx_are_read_where_their_place_is_allowed(nginx: Nginx, folder, tmp_path) -> None:
    (nginx.data / "parts").mkdir(exist_ok=True)
    for n in "abc":
        (nginx.data / "parts" / f"{n}.nc").write_bytes((folder / "data" / f"{n}.nc").read_bytes())
    assert admitted_by_its_message(parted(tmp_path / "x.nca", [f"{nginx.url}/parts/{n}.nc" for n in "abc"]))


def test_fragments_in_a_bucket_are_read_where_their_place_is_allowed(keyed: Bucket, folder, tmp_path) -> None:
    urls = [keyed.put(folder / "data" / f"{n}.nc", "parts") for n in "abc"]
    assert admitted_by_its_message(parted(tmp_path / "x.nca", urls)) == f"s3://{keyed.name}/parts"


def test_an_aggregation_in_a_bucket_reads_from_a_web_server_that_is_allowed(keyed: Bucket, server, tmp_path) -> None:
    path = parted(tmp_path / "x.nca", [f"{server.url}/data/{n}.nc" for n in "abc"])
    assert admitted_by_its_message(keyed.put(path, "parents")) == f"{server.url}/data"


def test_an_aggregation_on_a_web_server_reads_from_a_bucket_that_is_allowed(keyed: Bucket, folder, tmp_path) -> None:
    parted(tmp_path / "x.nca", [keyed.put(folder / "data" / f"{n}.nc", "parts") for n in "abc"])
    with served(tmp_path) as parent:
        assert admitted_by_its_message(f"{parent.url}/x.nca") == f"s3://{keyed.name}/parts"
        assert not any("authorization" in headers for *_, headers in parent.seen)


@pytest.mark.parametrize(
    ("write", "more"),
    [(instruction_files.cf, {}), (instruction_files.cf, {"characters": True}), (instruction_files.cfa, {})],
    ids=["CF-1.13, strings", "CF-1.13, characters", "CFA-0.6.2"],
)
def test_an_aggregation_on_a_web_server_is_described_by_its_variables(server, tmp_path, write, more) -> None:
    names = [f"{server.url}/data/{n}.nc" for n in "abc"]
    write(tmp_path / "x.nc", "v", "f4", {"x": 6}, [[2, 2, 2]], names, "v", **more)
    with served(tmp_path) as parent:
        assert admitted_by_its_message(f"{parent.url}/x.nc") == f"{server.url}/data"


@pytest.mark.parametrize("write", [instruction_files.cf, instruction_files.cfa], ids=["CF-1.13", "CFA-0.6.2"])
def test_fragments_beside_an_aggregation_on_a_web_server_are_read(folder, write) -> None:
    names = ["a.nc", "./b.nc", "c.nc"]
    path = write(folder / "data" / f"{write.__name__}.nc", "v", "f4", {"x": 6}, [[2, 2, 2]], names, "v")
    with served(folder) as parent:
        np.testing.assert_array_equal(read(f"{parent.url}/data/{path.name}"), VALUES)


def test_the_command_says_and_takes_the_same(server, tmp_path, capsys) -> None:
    path = str(parted(tmp_path / "x.nca", [f"{server.url}/data/{n}.nc" for n in "abc"]))
    assert main(["convert", path, str(tmp_path / "x.zarr")]) == 2
    assert f"pass --allow {server.url}/data" in capsys.readouterr().err
    assert main(["convert", path, str(tmp_path / "x.zarr"), "--allow", f"{server.url}/data"]) == 0


def test_a_check_looks_into_fragments_that_are_allowed_and_into_no_others(server, tmp_path) -> None:
    path = parted(tmp_path / "x.nca", [f"{server.url}/data/{n}.nc" for n in "abcd"])

    def found(**options: Any) -> list[str]:
        return [f.message for f in cfagg.check(path, references=True, select=["REF"], **options)[0].findings]

    refused = [m for m in found() if f"allow=['{server.url}/data']" in m]
    assert (len(refused), server.seen) == (4, [])
    wrong = [m for m in found(allow=[f"{server.url}/data"]) if m.startswith("fragment")]
    assert len(wrong) == 1
    assert "d.nc" in wrong[0]
    assert "there is no file" in wrong[0]


def fragments_said(path: Any, **options: Any) -> list[str]:
    """Return what a check says of fragments."""
    found = cfagg.check(path, references=True, select=["REF"], **options)[0].findings
    return [f.message for f in found if f.message.startswith("fragment")]


@pytest.mark.parametrize("write", [instruction_files.cf, instruction_files.cfa], ids=["CF-1.13", "CFA-0.6.2"])
def test_a_check_of_a_url_looks_into_the_fragments_beside_it_with_its_options(folder, server, tmp_path, write) -> None:
    shutil.copytree(folder / "data", tmp_path / "data")
    names = ["a.nc", "b.nc", "absent.nc", f"{server.url}/data/c.nc", "file:///etc/hosts"]
    path = write(tmp_path / "data" / "x.nc", "v", "f4", {"x": 10}, [[2, 2, 2, 2, 2]], names, "v")
    headers = {"Authorization": f"Bearer {SECRET}"}
    with served(tmp_path) as parent:
        said = fragments_said(f"{parent.url}/data/{path.name}", storage_options={"headers": headers})
        assert {h.get("authorization") for _, _, h in parent.seen} == {f"Bearer {SECRET}"}
        assert {"/data/a.nc", "/data/b.nc", "/data/absent.nc"} <= {p for _, p, _ in parent.seen}
    assert [re.search("there is no file|allow=|never", m)[0] for m in said] == ["there is no file", "allow=", "never"]
    assert server.seen == []
    assert SECRET not in str(said)


@pytest.mark.parametrize("write", [instruction_files.cf, instruction_files.cfa], ids=["CF-1.13", "CFA-0.6.2"])
def test_a_check_looks_into_fragments_at_absolute_urls_that_are_allowed(server, tmp_path, write) -> None:
    names = [f"{server.url}/data/{n}.nc" for n in "abd"]
    path = write(tmp_path / "x.nc", "v", "f4", {"x": 6}, [[2, 2, 2]], names, "v")
    assert len([m for m in fragments_said(path) if f"allow=['{server.url}/data']" in m]) == 3
    assert server.seen == []
    (wrong,) = fragments_said(path, allow=[f"{server.url}/data"])
    assert f"there is no file {server.url}/data/d.nc" in wrong


@pytest.mark.parametrize("written", ["http://{host}:80/data", "HTTP://{HOST}/data", "http://{host}/d%61ta"])
def test_places_that_are_written_in_another_way_are_the_same(written) -> None:
    prefix = written.format(host="a.org", HOST="A.ORG")
    assert covers(prefix, "http://a.org/data/a.nc")
    assert covers("http://a.org/data", f"{prefix}/a.nc")


# ---- ways out of a place that is allowed, from a file here


@pytest.mark.parametrize("reference", [
    "{url}/other/a.nc", "{url}/dataset/a.nc", "{url}/a.nc", "{other}/data/a.nc", "https://{host}/data/a.nc",
    "http://localhost:{port}/data/a.nc", "http://127.1:{port}/data/a.nc", "http://2130706433:{port}/data/a.nc",
    "http://0x7f000001:{port}/data/a.nc", "http://[::ffff:127.0.0.1]:{port}/data/a.nc", "s3://data/a.nc",
    "http://127.0.0.1.:{port}/data/a.nc", "{url}/%64atb/a.nc",
])  # fmt: skip
def test_a_place_beside_the_one_that_is_allowed_is_refused_with_what_would_allow_it(
    server, tmp_path, reference
) -> None:
    port = server.url.rpartition(":")[2]
    text = reference.format(url=server.url, other="http://127.0.0.1:9", host=f"127.0.0.1:{port}", port=port)
    path = parted(tmp_path / "x.nca", [text])
    place = text.rpartition("/")[0]
    remedy = f"pass allow=[{place!r}] or, on the command line, --allow {shlex.quote(place)}"
    with pytest.raises(AccessError, match=re.escape(remedy) + "$"):
        read(path, allow=[f"{server.url}/data"])
    assert not server.seen


@pytest.mark.few(10)
@pytest.mark.parametrize(("reference", "why"), [
    ("{url}/data/../other/a.nc", "its path leads upwards"),
    ("{url}/data/%2e%2e/other/a.nc", "its path leads upwards"),
    ("{url}/data/.%2E/other/a.nc", "its path leads upwards"),
    ("{url}/data/..%2fother/a.nc", "its path leads upwards"),
    ("{url}/data/%252e%252e%252fother/a.nc", "its path leads upwards"),
    ("{url}/data/..%5cother/a.nc", "its path leads upwards"),
    ("{url}/data/..\\other\\a.nc", "its path leads upwards"),
    ("{url}/data/..;x=1/other/a.nc", "its path leads upwards"),
    ("{url}/data/%25252525252e/a.nc", "its path leads upwards"),
    ("http://me:" + SECRET + "@127.0.0.1:{port}/data/a.nc", "it names a user"),
    ("http://127.0.0.1:{port}@data.example.org/data/a.nc", "it names a user"),
    ("http://127.0.0.1:{port}\\@data.example.org/data/a.nc", "it names a user"),
    ("http://１２７.0.0.1:{port}/data/a.nc", "not written in ASCII"),
    ("http://127。0。0。1:{port}/data/a.nc", "not written in ASCII"),
    ("http://dätä.example.org/data/a.nc", "not written in ASCII"),
    ("{url}/data?/../other/a.nc", "a query or a fragment"),
    ("{url}/data/a.nc?token=" + SECRET, "a query or a fragment"),
    ("{url}/data#/a.nc", "a query or a fragment"),
    ("{url}/da\tta/a.nc", "control characters"),
    ("http://127.0.0.1:{port}x/data/a.nc", "no valid host"),
    ("http:///data/a.nc", "no valid host"),
    ("http://%31%32%37.0.0.1:{port}/data/a.nc", "no valid host"),
    ("s3://data/x/../../other/a.nc", "its path leads upwards"),
])  # fmt: skip
def test_a_url_that_hides_where_it_leads_is_never_read(server, tmp_path, reference, why) -> None:
    text = reference.format(url=server.url, port=server.url.rpartition(":")[2])
    path = parted(tmp_path / "x.nca", [text])
    for allow in ([f"{server.url}/data"], [server.url, "s3://data", "http://data.example.org"]):
        with pytest.raises(AccessError, match=f"never read: .*{why}") as refused:
            read(path, allow=allow)
        assert SECRET not in str(refused.value)
        assert "allow=" not in str(refused.value)
    assert Access(path).remedy(text) is None
    assert not server.seen


def test_nginx_would_give_what_an_encoded_slash_leads_to(nginx: Nginx, tmp_path) -> None:
    (nginx.data / "outside.nc").write_bytes(b"of others")
    host, _, port = nginx.url.removeprefix("http://").partition(":")
    asked = http.client.HTTPConnection(host, int(port), timeout=300)
    asked.request("GET", "/inside/..%2foutside.nc")
    assert asked.getresponse().read() == b"of others"
    asked.close()
    with pytest.raises(AccessError, match="leads upwards"):
        read(parted(tmp_path / "x.nca", [f"{nginx.url}/inside/..%2foutside.nc"]), allow=[f"{nginx.url}/inside"])


# ---- ways out of its own place, from a file on another machine


@pytest.mark.parametrize("reference", [
    "{other}/data/a.nc", "http://localhost:{port}/parents/a.nc", "../data/a.nc", "{url}/parents.nc/a.nc", "{url}/a.nc",
    "http://169.254.169.254/latest/meta-data/a.nc", "http://[::1]:{port}/parents/a.nc", "http://10.0.0.1/a.nc",
    "s3://archive/a.nc",
])  # fmt: skip
def test_a_file_on_a_web_server_leads_to_no_other_place(tmp_path, server, reference) -> None:
    (tmp_path / "parents").mkdir()
    with served(tmp_path) as parent:
        port = parent.url.rpartition(":")[2]
        text = reference.format(url=parent.url, other=server.url, port=port)
        parted(tmp_path / "parents" / "x.nca", [text])
        place = text if "://" in text else f"{parent.url}/{text.removeprefix('../')}"
        with pytest.raises(AccessError, match=rf"pass allow=\['{re.escape(place.rpartition('/')[0])}'\] or, on the"):
            read(f"{parent.url}/parents/x.nca")
        assert {where for _, where, _ in parent.seen} == {"/parents/x.nca", "/parents/x.nca.cfagg-index"}
        assert not server.seen


@pytest.mark.parametrize("reference", ["/etc/passwd", "~/x.nc", "file:///etc/passwd", "FILE:/etc/passwd"])
def test_a_file_on_a_web_server_reads_nothing_here_whatever_is_allowed(tmp_path, reference) -> None:
    parted(tmp_path / "x.nca", [reference])
    with served(tmp_path) as parent, pytest.raises(CfaggError, match=r"a local path|of a kind that is not"):
        read(f"{parent.url}/x.nca", allow=["/", "/etc", parent.url])


@pytest.mark.parametrize("reference", ["..\\..\\data\\a.nc", "%2e%2e/a.nc", "..;/a.nc"])
def test_names_that_some_servers_take_for_ways_up_are_never_asked_for(tmp_path, reference) -> None:
    (tmp_path / "parents").mkdir()
    parted(tmp_path / "parents" / "x.nca", [reference])
    with served(tmp_path) as parent:
        with pytest.raises(AccessError, match="leads upwards"):
            read(f"{parent.url}/parents/x.nca", allow=[parent.url])
        assert {where for _, where, _ in parent.seen} == {"/parents/x.nca", "/parents/x.nca.cfagg-index"}


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names under example.org stand for this machine."""
    asked = socket.getaddrinfo

    def rebound(host: str, *rest: Any, **options: Any) -> Any:
        return asked("127.0.0.1" if str(host).endswith("example.org") else host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    monkeypatch.setenv("no_proxy", "*")


@pytest.mark.usefixtures("names")
def test_a_name_that_is_allowed_stands_for_no_address_of_this_network_to_a_file_elsewhere(tmp_path, server) -> None:
    named = server.url.replace("127.0.0.1", "data.example.org")
    parted(tmp_path / "x.nca", [f"{named}/data/{n}.nc" for n in "abc"])
    with served(tmp_path) as parent:
        with pytest.raises(AccessError, match=r"data\.example\.org is at the address 127\.0\.0\.1 of this machine"):
            read(f"{parent.url}/x.nca", allow=[f"{named}/data"])
        assert not server.seen
    # Of a file here it is the user's own word.
    np.testing.assert_array_equal(read(tmp_path / "x.nca", allow=[f"{named}/data"]), VALUES)


def test_an_address_of_this_network_that_the_user_allows_is_read(tmp_path, server) -> None:
    parted(tmp_path / "x.nca", [f"{server.url}/data/{n}.nc" for n in "abc"])
    with served(tmp_path) as parent:
        assert admitted_by_its_message(f"{parent.url}/x.nca") == f"{server.url}/data"


@pytest.mark.parametrize("address", ["64:ff9b::7f00:1", "::ffff:10.0.0.1", "fe80::1%eth0", "0.0.0.0", "100.64.0.1"])
def test_all_forms_of_addresses_of_this_network_are_known(address) -> None:
    connection = Connection("http", "data.example.org", 80, 1.0, True)
    with pytest.raises(AccessError, match="of this machine or its network"):
        connection._check_address(address)
    connection._check_address("64:ff9b::808:808")


@pytest.mark.usefixtures("names")
def test_the_server_of_the_settings_may_be_in_this_network_for_a_bucket_that_is_allowed(
    tmp_path, server, monkeypatch
) -> None:
    parted(tmp_path / "x.nca", [f"s3://data/{n}.nc" for n in "abc"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url.replace("127.0.0.1", "s3.example.org"))
    with served(tmp_path) as parent:
        np.testing.assert_array_equal(read(f"{parent.url}/x.nca", allow=["s3://data"]), VALUES)


# ---- redirects


@pytest.mark.parametrize("to", ["{other}/data/a.nc", "{url}/other/a.nc", "http://localhost:{port}/dataset/a.nc"])
def test_a_redirect_out_of_a_place_is_refused_with_what_would_allow_it(tmp_path, server, folder, to) -> None:
    with served(folder) as other:
        target = to.format(url=server.url, other=other.url, port=server.url.rpartition(":")[2])
        path = parted(tmp_path / "x.nca", [f"{server.url}/data/a.nc"])
        server.rules = {"^/data/a": [target]}
        place = target.rpartition("/")[0]
        with pytest.raises(AccessError, match=rf"redirects to .*pass allow=\['{re.escape(place)}'\]$"):
            read(path, allow=[f"{server.url}/data"])
        assert not other.seen
        server.rules = {"^/data/a": [target] * 9}
        np.testing.assert_array_equal(read(path, allow=[f"{server.url}/data", place]), VALUES[:2])


@pytest.mark.parametrize(
    "to",
    [
        "http://{host}/data/..%2fother/a.nc",
        "http://{host}/data/%2e%2e/other/a.nc",
        "http://me:" + SECRET + "@{host}/data/a.nc",
    ],
)
def test_a_redirect_that_hides_where_it_leads_is_refused(tmp_path, server, to) -> None:
    path = parted(tmp_path / "x.nca", [f"{server.url}/data/b.nc"])
    server.rules = {"^/data/b": [to.format(host=server.url.removeprefix("http://"))]}
    with pytest.raises(AccessError, match="redirects to") as refused:
        read(path, allow=[f"{server.url}/data"])
    assert SECRET not in str(refused.value)
    assert {where for _, where, _ in server.seen} == {"/data/b.nc"}


@pytest.mark.usefixtures("names")
def test_a_redirect_of_a_file_here_leads_to_no_name_of_this_network_even_if_allowed(tmp_path, server) -> None:
    named = server.url.replace("127.0.0.1", "data.example.org")
    path = parted(tmp_path / "x.nca", [f"{server.url}/data/a.nc"])
    server.rules = {"^/data/a": [f"{named}/other/a.nc"]}
    with pytest.raises(AccessError, match="this machine or its network"):
        read(path, allow=[f"{server.url}/data", f"{named}/other"])
    assert {where for _, where, _ in server.seen} == {"/data/a.nc"}


# ---- aggregations of aggregations, and buckets


def test_an_aggregation_that_is_a_fragment_leads_to_no_further_place(tmp_path, server, folder) -> None:
    (tmp_path / "inner").mkdir()
    parted(tmp_path / "inner" / "y.nca", [f"{server.url}/data/{n}.nc" for n in "abc"])
    with served(tmp_path) as middle:
        described = array(["x"], [[0, 6]], lambda *_: {
            "data": {"file": f"{middle.url}/inner/y.nca", "ncvar": "v", "shape": [6]}
        })  # fmt: skip
        path = aggregation(tmp_path / "x.nca", "v", "f4", {"x": 6}, described)
        with pytest.raises(AccessError, match=rf"pass allow=\['{server.url}/data'\]"):
            read(path, allow=[f"{middle.url}/inner"])
        assert not server.seen
        np.testing.assert_array_equal(read(path, allow=[f"{middle.url}/inner", f"{server.url}/data"]), VALUES)


@pytest.mark.parametrize("reference", ["s3://{name}/elsewhere/a.nc", "s3://{name}/parents2/a.nc", "s3://others/parents/a.nc",
                                       "../elsewhere/a.nc"])  # fmt: skip
def test_a_file_in_a_bucket_leads_to_no_other_place(keyed: Bucket, tmp_path, reference) -> None:
    text = reference.format(name=keyed.name)
    url = keyed.put(parted(tmp_path / "x.nca", [text]), "parents")
    place = text.rpartition("/")[0] if "://" in text else f"s3://{keyed.name}/elsewhere"
    with pytest.raises(AccessError, match=rf"pass allow=\['{place}'\] or, on the command line, --allow {place}$"):
        read(url)

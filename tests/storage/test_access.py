"""Which references of an aggregation are followed."""

import itertools
import os
import pathlib
import pickle
import re
import shlex

import pytest

from cfagg.errors import AccessError, CfaggError, UnsupportedError
from cfagg.storage.access import Access, GrownAccess, NamedAccess
from cfagg.storage.objects import _ALL, _KNOWN
from cfagg.storage.tree import read_file
from cfagg.storage.urls import OPEN, Options, Url


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home" / "deep").mkdir(parents=True)
    (tmp_path / "homely").mkdir()
    for name in ("home/agg.nca", "home/deep/a.nc", "homely/a.nc", "secret.nc"):
        (tmp_path / name).touch()
    return tmp_path / "home"


def resolve(home, reference, allow=()):
    return Access(home / "agg.nca", allow).resolve(reference)


@pytest.mark.parametrize(
    "reference", ["deep/a.nc", "./deep/../deep/a.nc", "gone.nc", "a file: with [odd] #names%20.nc"]
)
def test_files_at_or_below_the_directory_are_allowed(home, reference):
    assert resolve(home, reference) == os.path.realpath(home / reference)


def test_a_directory_whose_name_only_begins_as_that_of_the_file_is_not_within_it(home):
    access = Access(home / "agg.nca")
    assert all(access.is_within(str(folder)) for folder in (home, home / "deep"))
    assert not access.is_within(str(home.parent / "homely"))


def test_no_reference_is_the_file_itself(home):
    assert resolve(home, None) == str(home / "agg.nca")


def test_relative_references_start_at_the_aggregation_file_and_not_at_the_working_directory(home, monkeypatch):
    monkeypatch.chdir(home.parent)
    access = Access("home/agg.nca")
    monkeypatch.chdir("/")
    assert access.resolve("deep/a.nc") == str(home / "deep" / "a.nc")


@pytest.mark.parametrize(
    "reference", ["../secret.nc", "../homely/a.nc", "deep/../../secret.nc", "/etc/passwd", "..", "/"]
)
def test_anything_else_is_refused_with_the_allow_that_admits_it(home, reference):
    with pytest.raises(AccessError) as caught:
        resolve(home, reference)
    target = os.path.realpath(home / reference)
    above = str(pathlib.Path(target).parent)
    assert repr(reference) in str(caught.value)
    assert f"allow=[{above!r}]" in str(caught.value)
    assert resolve(home, reference, [above]) == target


@pytest.mark.parametrize("folder", ["two words", "a;b", "$(c)", "it's", "plain"])
def test_the_option_that_admits_a_reference_is_one_word_of_a_shell(home, folder):
    away = home.parent / folder
    away.mkdir()
    (home / "link.zarr").mkdir()
    (home / "link.zarr" / "zarr.json").symlink_to(away / "zarr.json")
    (away / "zarr.json").touch()
    with pytest.raises(AccessError) as caught:
        resolve(home, str(away / "a.nc"))
    assert shlex.split(str(caught.value).partition(" --allow ")[2]) == [str(away)]
    with pytest.raises(AccessError) as caught:
        read_file(str(home / "link.zarr"), str(home / "link.zarr" / "zarr.json"), 9)
    words = str(caught.value).partition(" --allow ")[2]
    assert shlex.split(words.partition("; without")[0]) == [str(away)]
    assert shlex.split(words.partition("CFAGG_ALLOW=")[2]) == [str(away)]


def test_a_prefix_ends_at_a_path_component(home):
    with pytest.raises(AccessError):
        resolve(home, "../homely/a.nc", [home.parent / "home"])
    assert resolve(home, "../homely/a.nc", [home.parent / "homely"]) == str(home.parent / "homely" / "a.nc")


def test_a_single_file_may_be_allowed(home):
    assert resolve(home, "../secret.nc", [home.parent / "secret.nc"]) == str(home.parent / "secret.nc")
    with pytest.raises(AccessError):
        resolve(home, "../homely/a.nc", [home.parent / "secret.nc"])


def test_one_prefix_may_be_given_without_a_list(home):
    assert resolve(home, "../secret.nc", str(home.parent)) == str(home.parent / "secret.nc")
    for one in (str, pathlib.Path):
        assert resolve(home, "../secret.nc", one(home.parent / "secret.nc")) == str(home.parent / "secret.nc")
        # Not each of its letters, the first of which would allow everything.
        with pytest.raises(AccessError):
            resolve(home, "../homely/a.nc", one(home.parent / "secret.nc"))


def test_a_symbolic_link_out_of_the_directory_is_refused(home):
    (home / "link.nc").symlink_to(home.parent / "secret.nc")
    (home / "folder").symlink_to(home.parent)
    for reference in ("link.nc", "folder/secret.nc"):
        with pytest.raises(AccessError, match=r"secret\.nc"):
            resolve(home, reference)


def test_a_link_within_the_directory_is_followed(home):
    (home / "link.nc").symlink_to("deep/a.nc")
    assert resolve(home, "link.nc") == str(home / "deep" / "a.nc")


def test_a_linked_aggregation_file_may_refer_to_either_directory(home):
    (home.parent / "homely" / "agg.nca").symlink_to(home / "agg.nca")
    access = Access(home.parent / "homely" / "agg.nca")
    assert access.resolve("a.nc") == str(home.parent / "homely" / "a.nc")
    assert access.resolve(str(home / "deep" / "a.nc")) == str(home / "deep" / "a.nc")


@pytest.mark.parametrize("reference", ["ftp://host/a.nc", "file:///etc/passwd", "FILE:a.nc", "gopher://localhost/x"])
def test_urls_of_other_kinds_are_refused_even_where_everything_is_allowed(home, reference):
    with pytest.raises(UnsupportedError, match="a URL"):
        resolve(home, reference, ["/"])


@pytest.mark.parametrize(
    "reference", ["http://host/d/a.nc", "s3://bucket/d/a.nc", "https://localhost/d/x", "az://c/d/x"]
)
def test_urls_are_refused_unless_a_prefix_of_urls_allows_them(home, reference):
    place = reference.rpartition("/")[0]
    for allow in ([], ["/"], [place + "x"], ["s3://other"]):
        with pytest.raises(AccessError, match=re.escape(f"pass allow=['{place}']")):
            resolve(home, reference, allow)
    assert resolve(home, reference, [place]) == reference


@pytest.mark.parametrize(
    ("parent", "reference", "expected"),
    [
        ("https://a.org/d/agg.nca", None, "https://a.org/d/agg.nca"),
        ("https://a.org/d/agg.nca", "parts/a b.nc", "https://a.org/d/parts/a%20b.nc"),
        ("https://a.org/d/agg.nca", "./x/../a.nc", "https://a.org/d/a.nc"),
        ("https://a.org/d/agg.nca", "https://a.org/d/e/a.nc", "https://a.org/d/e/a.nc"),
        ("s3://bucket/d/agg.nca", "a b.nc", "s3://bucket/d/a b.nc"),
    ],
)
def test_references_of_a_file_behind_a_url_are_urls_below_its_place(parent, reference, expected):
    options = Options({"timeout": 3})
    found = Access(Url(parent, options)).resolve(reference)
    assert found == expected
    assert isinstance(found, Url)
    assert found.options == options


@pytest.mark.parametrize("allow", [(), ("/",), ("/etc", "https://a.org/d")])
@pytest.mark.parametrize(
    "reference",
    ["/etc/passwd", "~/x", "../x.nc", "https://a.org/x.nc", "http://a.org/d/x.nc", "https://a.org:8443/d/x"],
)
def test_a_file_behind_a_url_reads_no_files_here_and_no_other_place(reference, allow):
    with pytest.raises(AccessError):
        Access(Url("https://a.org/d/agg.nca"), allow).resolve(reference)


@pytest.mark.parametrize(
    ("parent", "place"), [("https://a.org/d/e/agg.nca", "https://a.org/etc"), ("s3://b/d/agg.nca", "s3://b/etc")]
)
def test_a_reference_above_the_root_of_a_server_is_shown_as_written_and_where_it_leads(parent, place):
    reference = "../../../../etc/x.nc"
    said = rf"refers to '{reference}', which is {place}/x\.nc, a URL outside .* allow=\['{place}'\]"
    with pytest.raises(AccessError, match=said):
        Access(Url(parent)).resolve(reference)
    assert Access(Url(parent), [place]).resolve(reference) == f"{place}/x.nc"
    # Not even what is in the own place is reached through the root.
    with pytest.raises(AccessError, match=r"refers to '\.\./\.\./\.\./d/x\.nc'"):
        Access(Url(parent)).resolve("../../../d/x.nc")


def test_options_of_a_file_behind_a_url_are_not_sent_to_other_places():
    access = Access(Url("https://a.org/d/agg.nca", Options({"headers": {"Authorization": "x"}})), ["https://b.org/e"])
    found = access.resolve("https://b.org/e/a.nc")
    assert found.options.given == {}
    assert found.options.guarded


@pytest.mark.parametrize("reference", ["a\0.nc", "", "x" * 100_000, "\ud800", "a/" * 5000 + "b"])
def test_what_is_no_path_is_refused(home, reference):
    with pytest.raises(CfaggError):
        resolve(home, reference)


def test_an_empty_prefix_is_refused(home):
    with pytest.raises(AccessError, match="empty prefix"):
        Access(home / "agg.nca", [""])


def test_a_relative_prefix_starts_at_the_working_directory_of_its_making(home, monkeypatch):
    monkeypatch.chdir(home.parent)
    access = Access(home / "agg.nca", ["homely"])
    monkeypatch.chdir("/")
    assert pickle.loads(pickle.dumps(access)).resolve("../homely/a.nc") == str(home.parent / "homely" / "a.nc")


def test_an_inner_aggregation_keeps_the_prefixes_and_gets_its_own_directory(home):
    access = Access(home / "agg.nca", [home.parent / "homely"])
    inner = access.nested(str(home / "deep" / "inner.nca"))
    assert inner.resolve(str(home.parent / "homely" / "a.nc"))
    with pytest.raises(AccessError):
        inner.resolve("../agg.nca")


def test_a_relative_reference_of_a_linked_aggregation_file_is_found_beside_the_file_itself(home):
    link = home.parent / "homely" / "agg.nca"
    link.symlink_to(home / "agg.nca")
    (home / "only_here.nc").write_bytes(b"")
    assert Access(link).resolve("only_here.nc") == str(home / "only_here.nc")
    (link.parent / "only_here.nc").write_bytes(b"")
    assert Access(link).resolve("only_here.nc") == str(link.parent / "only_here.nc")


def test_a_reference_that_cannot_be_resolved_is_refused_by_name(home, monkeypatch):
    def fails(path):
        raise OSError("Too many levels of symbolic links", path)

    access = Access(home / "agg.nca")
    assert access.resolve("a.nc")
    monkeypatch.setattr(os.path, "realpath", fails)
    with pytest.raises(AccessError, match=r"refers to 'x/a\.nc', which cannot be resolved: .*Too many levels"):
        access.resolve("x/a.nc")


def test_the_longest_reference_is_looked_at_and_a_longer_one_is_not(home):
    with pytest.raises(AccessError, match="is not a file name"):
        resolve(home, "x" * 4097)
    assert resolve(home, "x" * 4096).endswith("xxx")


@pytest.mark.parametrize(("length", "shown"), [(200, "h" * 193), (201, "h" * 193 + "…")])
def test_a_long_reference_is_shortened_in_the_message(home, length, shown):
    with pytest.raises(UnsupportedError) as caught:
        resolve(home, "ftps://".ljust(length, "h"))
    assert f"refers to 'ftps://{shown}', a URL" in str(caught.value)


def test_directories_are_resolved_once_and_so_many_are_remembered(home, monkeypatch):
    monkeypatch.setattr("cfagg.storage.access._DIRECTORIES", 3)
    access = Access(home / "agg.nca")
    asked = []
    real = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda path: (asked.append(path), real(path))[1])
    for name in ("a.nc", "b.nc"):
        access.resolve(f"deep/{name}")
    assert asked.count(str(home / "deep")) == 1
    most = 0
    for k in range(8):
        access.resolve(f"d{k}/a.nc")
        most = max(most, len(access._directories))
    assert most == 3


def test_what_was_opened_is_judged_by_its_own_path(home):
    access = Access(home / "agg.nca", [home.parent / "homely"])
    access.judge(str(home / "agg.nca"))
    access.judge(str(home / "deep" / "a.nc"))
    access.judge(str(home.parent / "homely"))
    with pytest.raises(AccessError, match=r"refers to 'a\.nc', which is .*secret\.nc and lies outside"):
        access.judge(str(home.parent / "secret.nc"), "a.nc")


def test_a_linked_aggregation_file_itself_may_be_read(home):
    link = home.parent / "homely" / "agg.nca"
    link.symlink_to(home / "agg.nca")
    assert Access(link).resolve(None) == str(home / "agg.nca")


def test_a_reference_of_a_linked_aggregation_file_that_is_nowhere_stays_beside_the_link(home):
    link = home.parent / "homely" / "agg.nca"
    link.symlink_to(home / "agg.nca")
    assert Access(link).resolve("gone.nc") == str(link.parent / "gone.nc")


def test_of_files_that_were_named_only_these_are_read_whatever_takes_their_place_later(home):
    named = NamedAccess("several files", [home / "deep"])
    path = str(home.parent / "secret.nc")
    named.judge(named.resolve(path), path)
    with pytest.raises(AccessError, match=r"lies outside"):
        named.judge(str(home / "agg.nca"), path)


def test_files_that_an_index_records_are_judged_as_references_of_its_aggregation_file(home):
    secret, added = str(home.parent / "secret.nc"), str(home.parent / "homely" / "a.nc")
    grown = GrownAccess(NamedAccess("several files"), Access(home / "agg.nca"), frozenset({"deep/a.nc", secret}))
    grown = pickle.loads(pickle.dumps(grown))
    assert grown.resolve("deep/a.nc") == str(home / "deep" / "a.nc")
    grown.judge(grown.resolve(added), added)
    for refused in (lambda: grown.resolve(secret), lambda: grown.judge(secret, secret)):
        with pytest.raises(AccessError, match=r"secret\.nc and lies outside"):
            refused()


def test_references_are_not_copied_to_where_they_would_be_allowed_unlike_here(home):
    above, secret = Access(home.parent / "new.nc"), "../secret.nc"
    for policy in (Access(home / "agg.nca"), GrownAccess(NamedAccess("x"), Access(home / "agg.nca"), {secret})):
        with pytest.raises(AccessError, match=r"secret\.nc and lies outside .*new\.nc was not written"):
            policy.check_copied(["deep/a.nc", secret], str(home), above)
    (home / "link.nc").symlink_to(home.parent / "secret.nc")
    with pytest.raises(AccessError, match=r"link\.nc.*new\.nc was not written"):
        Access(home / "agg.nca").check_copied(["link.nc"], str(home), above)
    Access(home / "agg.nca", [home.parent]).check_copied([secret, "link.nc"], str(home), above)
    Access(home / "agg.nca").check_copied([secret, "https://a.org/x.nc"], str(home), Access(home / "deep" / "new.nc"))
    NamedAccess("several files").check_copied([secret], str(home), above)
    (home / "linked.nc").symlink_to(home.parent / "new.nc")  # which may also read what is beside the file itself
    with pytest.raises(AccessError, match=r"secret\.nc and lies outside .*linked\.nc was not written"):
        Access(home / "agg.nca").check_copied([secret], str(home), Access(home / "linked.nc"))


def test_urls_are_not_copied_to_a_server_that_would_be_allowed_to_read_them(home):
    with pytest.raises(AccessError, match=r"private/x\.nc.*new\.nc was not written"):
        Access(home / "agg.nca").check_copied(
            ["s3://mine/private/x.nc"], str(home), Access(Url("s3://mine/new.nc", Options({})))
        )
    there = Access(Url("s3://mine/open/agg.nc", Options({})))
    with pytest.raises(AccessError, match=r"private/x\.nc.*new\.nc was not written"):
        there.check_copied(["s3://mine/private/x.nc"], "s3://mine/open", Access(Url("s3://mine/new.nc", Options({}))))
    there.check_copied([str(home / "a.nc")], "s3://mine/open", Access(home / "new.nc"))  # names a file there


@pytest.mark.parametrize("name", sorted({"headers", *_ALL, *itertools.chain(*_KNOWN.values())} - OPEN))
def test_an_option_of_a_url_that_may_be_secret_is_not_pickled_and_a_provider_is(name):
    url = Url("https://example.org/a.nc", Options({name: "unlikely", "timeout": 5}))
    with pytest.raises(AccessError, match=f"with {name} may hold secrets") as caught:
        pickle.dumps(url)
    assert "unlikely" not in f"{caught.value}{url!r}{url.options!r}"
    assert pickle.loads(pickle.dumps(Url(url, Options({name: os.getpid})))).options.given == {name: os.getpid}

"""Users, passwords, queries and keys in fragments of URLs are in no message and in no report."""

from __future__ import annotations

import pickle

import pytest

import cfagg
from cfagg.cli.main import main
from cfagg.errors import CfaggError, Problem
from cfagg.errors.redacting import redacted

URLS = ["http://me:an@unlikely@127.0.0.1:9/a.nc", "https://me:unlikely@127.0.0.1:9/a.zarr?key=unlikely"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:b@c@host:80/a@b?x=1", "http://…@host:80/a@b?…"),
        ("there is no file /home/https:/me:b@host/a.nc; check", "there is no file /home/https:/…@host/a.nc; check"),
        ("s3://k@bucket/x?sig=1&y=2: not there", "s3://…@bucket/x?…: not there"),
        ("see http://h/a#access_token=x: not there", "see http://h/a#…: not there"),
        ("http://h/a#3f9c27ab01d4. Or 'http://h/a#me:b'", "http://h/a#…. Or 'http://h/a#…'"),
        ("http://h/a#eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3", "http://h/a#…"),
        ("http://me:b#c@host/a, http://me:b?c@host/a", "http://…#…, http://…?…"),
        ("'http://h/a?b' and 'http://me@h/c'", "'http://h/a?…' and 'http://…@h/c'"),
    ],
)
def test_what_may_be_secret_in_a_url_is_left_out(text: str, shown: str) -> None:
    assert redacted(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "C:/me@home/a.nc",
        "/data/run:/x@y",
        "s3://bucket/a@b.zarr",
        "me@example.org",
        "is it http://a/b#c?",
        "a:/b?c@d",
        "http://a/b.html#_cell-methods-2",
        "s3://a/b.zarr#mode=nczarr,zarr",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert redacted(text) == text


def test_an_error_keeps_no_secret_of_a_url_anywhere() -> None:
    error = CfaggError(f"{URLS[1]} cannot be read", [Problem("a", f"found {URLS[0]}")])
    assert "unlikely" not in str(error) + repr(error) + error.message
    assert b"unlikely" not in pickle.dumps(error)


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "ask",
    [
        cfagg.read,
        cfagg.show,
        cfagg.check,
        lambda url: cfagg.open_aggregation(url, "v"),
        lambda url: cfagg.open_accumulated(url, "v"),
        lambda url: cfagg.open_observations(url, 2020, 2021),
    ],
    ids=["read", "show", "check", "open_aggregation", "open_accumulated", "open_observations"],
)
def test_a_function_that_refuses_a_url_does_not_repeat_its_secrets(ask, url: str) -> None:
    with pytest.raises(CfaggError) as caught:
        ask(url)
    assert "unlikely" not in str(caught.value)


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "command",
    ["show", "check", "check --format json", "check --format sarif", "convert", "mean", "obs show", "obs check"],
)
def test_a_command_that_refuses_a_url_does_not_repeat_its_secrets(
    command: str, url: str, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *rest = command.split()
    more = {"convert": [str(tmp_path / "x.zarr")], "mean": ["v"]}.get(first, [])
    verb = [first, *([rest.pop(0)] if first == "obs" else [])]
    main([*verb, url, *more, *rest])
    out, err = capsys.readouterr()
    assert out + err
    assert "unlikely" not in out + err

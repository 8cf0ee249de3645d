"""The command reads and writes what is elsewhere with ``--storage-option``, and repeats none of their values."""

from pathlib import Path

import pytest

import cfagg
from cfagg.cli import main as cli
from cfagg.cli.main import main
from cfagg.demo import sample
from tests.observations.servers import served
from tests.storage.remote.conftest import Bucket

SECRET = "unlikely-to-be-said"

VERBS = {
    "show": "show {url}/test1.nc",
    "show --references": "show {url}/test1.nc --references",
    "check": "check {url}/test1.nc",
    "check of two": "check {url}/test1.nc {url}/test1.nc",
    "convert": "convert {url}/test1.nc {here}/of-{number}.zarr",
    "obs show": "obs show {url}/storms.zarr",
    "obs window": "obs window {url}/storms.zarr 2004-09-01",
    "obs check": "obs check {url}/storms.zarr",
}


@pytest.fixture
def server():
    with served(Path(sample("test1.nc")).parent) as made:
        yield made


def wrong(bucket: Bucket) -> dict[str, str]:
    return bucket.options | {"secret_access_key": SECRET}


def pairs(options: dict[str, str], name: str = "--storage-option") -> list[str]:
    return [word for key, value in options.items() for word in (name, f"{key}={value}")]


@pytest.fixture
def place(bucket: Bucket, once, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a folder with samples."""

    def make() -> str:
        folder = tmp_path_factory.mktemp("observations")
        recipe = folder / "recipe.yaml"
        recipe.write_text(
            f"dates: {{start: 2003, end: 2006, frequency: 1d}}\ninput: {{netcdf: {{path: {sample('storms.nc')}}}}}\n"
            "output: {layout: tabular}\n"
        )
        cfagg.create_observations(recipe, folder / "storms.zarr")
        bucket.put(folder / "storms.zarr", "command")
        return bucket.put(Path(sample("test1.nc")), "command").rpartition("/")[0]

    return once("command", make)


@pytest.mark.few(3)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_reads_with_the_options_given_and_not_with_others(verb, place, bucket, tmp_path, capsys) -> None:
    words = [w.format(url=place, here=tmp_path, number=len(verb)) for w in VERBS[verb].split()]
    assert cli.main([*words, *pairs(wrong(bucket))]) == 2
    refused = capsys.readouterr()
    assert "--storage-option" in refused.out + refused.err
    assert cli.main([*words, *pairs(bucket.options)]) == 0
    done = capsys.readouterr()
    assert bucket.secret not in done.out + done.err


def test_options_of_source_and_target_are_told_apart(place, bucket, capsys) -> None:
    words = ["convert", f"{place}/test1.nc", f"{place}/made.zarr", *pairs(bucket.options)]
    assert cli.main([*words, *pairs(wrong(bucket), "--target-option")]) == 2
    said = capsys.readouterr().err
    assert "credentials as --target-option" in said or "'secret_access_key' as --target-option" in said
    assert cli.main([*words, *pairs(bucket.options, "--target-option")]) == 0
    capsys.readouterr()
    assert cli.main(["show", f"{place}/made.zarr", *pairs(bucket.options)]) == 0
    assert "temp" in capsys.readouterr().out


def test_observations_are_built_with_the_options_of_the_target(place, bucket, tmp_path, capsys) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"dates: {{start: 2003, end: 2006, frequency: 1d}}\ninput: {{netcdf: {{path: {sample('storms.nc')}}}}}\n"
        "output: {layout: tabular}\n"
    )
    made = ["obs", "create", str(recipe), f"{place}/built.zarr", *pairs(bucket.options, "--target-option")]
    assert cli.main(made) == 0
    assert cli.main(["obs", "show", f"{place}/built.zarr", *pairs(bucket.options, "--option")]) == 0


@pytest.mark.parametrize("words", [
    ["--storage-option", SECRET],
    ["--storage-option", f"{SECRET}="],
    ["--storage-option", f"={SECRET}"],
    ["--storage-option", f"headers={SECRET}"],
    ["--storage-option", f"timeout={SECRET}"],
    ["--storage-option", f"skip_signature={SECRET}"],
    ["--storage-optoin", f"secret_access_key={SECRET}"],
    [f"--storage-optoin=secret_access_key={SECRET}"],
    [f"secret_access_key={SECRET}"],
    [f"--secret-access-key={SECRET}"],
])  # fmt: skip
def test_what_is_wrong_with_an_option_is_said_without_its_value(words, capsys) -> None:
    assert cli.main(["show", "s3://bucket/a.nc", *words]) == 2
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    assert "error" in said.err


@pytest.mark.parametrize(("url", "name"), [
    *(("http://127.0.0.1:9/a.nc", n) for n in ("headers.authorization", "access_key_id", "headers.x-key")),
    *(("s3://bucket/a.nc", n) for n in ("secret_access_key", "session_token", "region", "credentials", "account_key")),
    *(("az://bucket/a.nc", n) for n in ("account_key", "sas_key", "client_secret", "credentials", "secret")),
    *(("gs://bucket/a.nc", n) for n in ("service_account_key", "service_account", "credentials")),
])  # fmt: skip
def test_no_error_of_a_store_repeats_the_value_of_an_option(url, name, capsys) -> None:
    more = {"deadline": "0.05"} | ({"endpoint": "http://127.0.0.1:9"} if url[0] in "sa" else {})
    more |= {"account_name": "archive"} if url[0] == "a" else {}
    assert cli.main(["show", url, *pairs({name: f"{SECRET}/+", **more})]) == 2
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    assert "error" in said.err


def test_options_without_a_url_are_refused(capsys) -> None:
    for verb in ("show", "check"):
        assert cli.main([verb, str(sample("test1.nc")), "--storage-option", "region=eu-west-1"]) == 2
        assert "--storage-option" in capsys.readouterr().err
    target = ["convert", str(sample("test1.nc")), "never.zarr", "--target-option", "region=eu-west-1"]
    assert cli.main(target) == 2
    assert "--target-option" in capsys.readouterr().err


def test_headers_are_options_each(server, capsys) -> None:
    said = ["--storage-option", f"headers.Authorization=Bearer {SECRET}", "--storage-option", "headers.X-From=me"]
    assert cli.main(["show", f"{server.url}/test1.nc", *said]) == 0
    sent = [headers for _, _, headers in server.seen]
    assert {(h["authorization"], h["x-from"]) for h in sent} == {(f"Bearer {SECRET}", "me")}


def test_an_output_in_a_bucket_is_the_one_here_and_replaced_with_overwrite_only(keyed, tmp_path, capsys) -> None:
    here, there = tmp_path / "a.json", f"s3://{keyed.name}/outputs/a.json"
    words = ["show", str(sample("sst.nca")), "--json", "-o"]
    assert [main([*words, str(here)]), main([*words, there])] == [0, 0]
    key = {"Bucket": keyed.name, "Key": "outputs/a.json"}
    assert keyed.client.get_object(**key)["Body"].read() == here.read_bytes()
    keyed.client.put_object(**key, Body=b"of somebody else")
    assert main([*words, there]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert keyed.client.get_object(**key)["Body"].read() == b"of somebody else"
    assert main([*words, there, "--overwrite"]) == 0
    assert keyed.client.get_object(**key)["Body"].read() == here.read_bytes()

"""``cfagg show``."""

import json
import os

import netCDF4
import pytest

from cfagg.cli.main import main
from cfagg.demo import sample


@pytest.fixture
def show(capsys):
    def run(*args, status=0):
        found = main(["show", *map(str, args)])
        captured = capsys.readouterr()
        assert found == status, captured.err
        return captured

    return run


def aggregation_file(path, files, dimension="time", name="tas", attributes=None):
    """A one-dimensional aggregation of files that do not exist, two elements in each."""
    partitions = [
        {"index": [i], "location": [[2 * i, 2 * i + 2]], "data": {"shape": [2], "file": file, "ncvar": name}}
        for i, file in enumerate(files)
    ]
    matrix = {
        "directions": {dimension: True},
        "pdimensions": [dimension],
        "pshape": [len(files)],
        "Partitions": partitions,
    }
    with netCDF4.Dataset(path, "w") as dataset:
        dataset.Conventions = "CF-1.5 NCA"
        dataset.createDimension(dimension, 2 * len(files))
        variable = dataset.createVariable(name, "f4")
        variable.setncatts({**(attributes or {}), "nca_dimensions": dimension, "nca_array": json.dumps(matrix)})
    return path


def strict(text):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def test_text_has_dimensions_variables_matrix_layouts_and_references(show):
    out = show(sample("temperature2.nca")).out
    assert "time   48" in out
    assert "lat (lat: 64) float64 latitude [degrees_north]" in out
    assert "partition matrix: 2 × 1 × 1, 2 partitions" in out
    assert "2 partitions: 12, 36" in out
    assert "dimensions lon, time (reversed), lat; units K @ 273.15" in out
    assert "test2.nc     1 partition  inside" in out
    assert "nca128" not in out


def test_attributes_are_shown_on_request(show):
    assert "standard_name = 'air_temperature'" not in show(sample("temperature2.nca")).out
    assert "standard_name = 'air_temperature'" in show(sample("temperature2.nca"), "--attributes").out


def test_one_variable_is_shown_alone(show):
    out = show(sample("temperature2.nca"), "--variable", "lat").out
    assert "lat (lat: 64)" in out
    assert "aggregation" not in out


def test_an_unknown_variable_is_an_error_that_names_the_known_ones(show):
    err = show(sample("temperature2.nca"), "--variable", "absent", status=2).err
    assert "absent" in err
    assert "tas" in err


def test_references_are_listed_with_what_the_access_policy_says_and_none_is_opened(show, tmp_path):
    files = ["parts/a.nc", "/elsewhere/b.nc", "../c.nc", "https://example.org/d/d.nc", "ftp://example.org/e.nc"]
    files.append("/else where/f.nc")
    path = aggregation_file(tmp_path / "x.nca", files)
    lines = [line.split("\t") for line in show(path, "--references").out.splitlines()]
    assert [line[2] for line in lines] == files
    above = os.path.realpath(tmp_path.parent)
    assert [line[0] for line in lines] == [
        "inside", "needs --allow /elsewhere", f"needs --allow {above}", "needs --allow https://example.org/d",
        "refused", "needs --allow '/else where'",
    ]  # fmt: skip


def test_allow_lets_references_pass(show, tmp_path):
    path = aggregation_file(tmp_path / "x.nca", ["/elsewhere/b.nc"])
    assert show(path, "--references", "--allow", "/elsewhere").out == "inside\t1\t/elsewhere/b.nc\n"


def test_references_in_json(show, tmp_path):
    path = aggregation_file(tmp_path / "x.nca", ["/elsewhere/b.nc", "a.nc"])
    found = strict(show(path, "--references", "--json").out)
    assert found["variables"] == [
        {
            "variable": "tas",
            "references": [
                {
                    "file": "/elsewhere/b.nc",
                    "partitions": 1,
                    "access": "needs allow",
                    "allow": "/elsewhere",
                    "reason": None,
                },
                {"file": "a.nc", "partitions": 1, "access": "inside", "allow": None, "reason": None},
            ],
        }
    ]


def test_json_is_strict_whatever_the_attributes_are(show, tmp_path):
    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w") as dataset:
        dataset.setncatts({"nan": float("nan"), "text": 'a"\x1b\n', "big": 2**62})
    attributes = strict(show(path, "--json").out)["groups"][0]["attributes"]
    assert attributes == {"nan": "NaN", "text": 'a"\x1b\n', "big": 2**62}


def test_json_form_holds_the_whole_description_of_an_aggregation(show):
    found = strict(show(sample("temperature2.nca"), "--json").out)
    assert (found["form"], found["form_version"], found["format"]) == ("cfagg show", 1, "NETCDF4")
    tas = next(v for v in found["groups"][0]["variables"] if v["name"] == "tas")
    aggregation = tas["aggregation"]
    assert aggregation["matrix_shape"] == [2, 1, 1]
    assert aggregation["axes"][0]["sizes"] == {"count": 2, "first": [[12, 1], [36, 1]], "last": []}
    assert aggregation["partitions"]["first"][1]["file"] == "test2.nc"
    assert aggregation["layouts"]["first"][0]["reversed"] == ["time"]


def test_many_partitions_are_summarised_and_rows_asks_for_more(show):
    path = sample("sst.nca")
    short = show(path).out
    assert "… 42 more …" in short
    assert "sst/2007-06.nc" not in short
    assert "sst/2007-06.nc" in show(path, "--rows", "all").out
    assert "… 51 more …" in show(path, "--rows", "3").out


def test_control_characters_of_the_name_of_a_file_do_not_reach_the_terminal(tmp_path, capsys):
    path = tmp_path / "a\x1b[2J\n::error::\u202e.nc"
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createVariable("t", "f4", ())
    (tmp_path / "a.nc").rename(path)
    assert main(["show", "--references", str(path)]) == 0
    assert r"a\x1b[2J\n::error::\u202e.nc refers to no other files" in capsys.readouterr().err


def test_control_characters_of_names_do_not_reach_the_terminal(show, tmp_path):
    evil = "a\x1b]0;owned\x07\u202e.nc"
    path = aggregation_file(tmp_path / "x.nca", [evil], attributes={"long_name": "b\x1b[2J\nc"})
    for options in ([], ["--references"], ["--json"], ["--attributes"], ["--json", "--references"]):
        out = show(path, *options).out
        assert all(c.isprintable() or c in "\n\t" for c in out)
        assert "owned" in out


def test_output_is_written_to_a_file(show, tmp_path):
    target = tmp_path / "out.json"
    assert show(sample("figure1.nca"), "--json", "-o", target).out == ""
    assert strict(target.read_text())["form"] == "cfagg show"
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def test_nothing_is_replaced_without_overwrite(show, tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("precious")
    assert "--overwrite" in show(sample("figure1.nca"), "-o", target, status=2).err
    assert target.read_text() == "precious"
    show(sample("figure1.nca"), "-o", target, "--overwrite")
    assert "partition matrix" in target.read_text()


def test_a_failure_leaves_no_output_behind(show, tmp_path):
    show(sample("figure1.nca"), "--variable", "absent", "-o", tmp_path / "out.txt", status=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["absent/out.txt", "."])
def test_an_output_that_cannot_be_written_is_one_error(show, tmp_path, target):
    err = show(sample("figure1.nca"), "-o", tmp_path / target, status=2).err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_plot_draws_a_picture_and_says_where_it_is(show, tmp_path):
    target = tmp_path / "p.png"
    said = show(sample("figure1.nca"), "--plot", target)
    assert (said.out, said.err) == ("", f"note: the picture is {target}\n")
    assert target.read_bytes().startswith(b"\x89PNG")
    assert "exists" in show(sample("figure1.nca"), "--plot", target, status=2).err


def test_plot_without_an_aggregation_is_an_error(show, tmp_path):
    assert "no aggregation" in show(sample("test1.nc"), "--plot", tmp_path / "p.png", status=2).err
    assert list(tmp_path.iterdir()) == []


def test_plot_into_an_unknown_kind_of_picture_is_an_error(show, tmp_path):
    assert ".png, .svg or .pdf" in show(sample("figure1.nca"), "--plot", tmp_path / "p.doc", status=2).err


def test_groups_and_their_aggregations_are_shown(show, tmp_path):
    path = tmp_path / "g.nc"
    matrix = {"directions": True, "pdimensions": [], "pshape": [], "Partitions": [
        {"index": [], "location": [], "data": {"shape": [], "file": "a.nc", "ncvar": "v"}}
    ]}  # fmt: skip
    with netCDF4.Dataset(path, "w") as dataset:
        v = dataset.createGroup("model").createVariable("v", "f4")
        v.setncatts({"nca_dimensions": "", "nca_array": json.dumps(matrix)})
    out = show(path).out
    assert "group /model" in out
    assert "partition matrix: scalar, 1 partition" in out
    assert "a.nc" in show(path, "--variable", "/model/v").out
    assert strict(show(path, "--references", "--json").out)["variables"][0]["variable"] == "/model/v"

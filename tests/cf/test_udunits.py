"""UDUNITS of the system and the copy that cf-units carries, each in a process of its own."""

import os
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

from cfagg.cf import udunits
from cfagg.errors import UnitsError


def python(code, **environment):
    env = {k: v for k, v in os.environ.items() if k != "UDUNITS2_XML_PATH"} | environment
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=env, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_no_search_for_the_library_starts_a_process_and_cf_units_is_not_imported():
    code = """
    import subprocess, sys
    subprocess.Popen = None
    from cfagg.cf import udunits
    print(udunits.definition("K @ 273.15"), "cf_units" in sys.modules, "ctypes.util" in sys.modules)
    """
    assert python(code) == "K @ 273.15 False False"


def test_nothing_stays_changed_by_the_search_of_cfunits_for_the_library():
    code = """
    import ctypes.util, os, sys
    search = ctypes.util.find_library
    from cfagg.cf import udunits
    print(udunits.converter("K @ 273.15", "K")(0.0), ctypes.util.find_library is search)
    print("UDUNITS2_XML_PATH" in os.environ, "cf_units" in sys.modules)
    """
    assert python(code).split() == ["273.15", "True", "False", "False"]


def test_a_users_own_table_of_units_is_respected(tmp_path):
    _, table = udunits.bundled()
    for path in table.parent.glob("udunits2*.xml"):
        text = path.read_text(encoding="utf-8")
        if path.name == "udunits2-common.xml":
            unit = "<unit><def>7 m</def><name><singular>cubitus</singular></name></unit>"
            text = text.replace("</unit-system>", f"{unit}</unit-system>")
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    code = """
    from cfagg.cf.kinds_of_units import convertible
    from cfagg.cf.units import linear
    print(linear("cubitus", "m"), convertible("cubitus", "m"))
    """
    assert python(code, UDUNITS2_XML_PATH=str(tmp_path / "udunits2.xml")) == "(7.0, 0.0) True"


@pytest.mark.parametrize("call", ["converter('m', 'km')", "definition('m')"])
def test_without_any_library_the_error_says_what_to_install(call):
    code = f"""
    from cfagg.cf import udunits
    udunits.bundled, udunits._NAMES = lambda: None, ("libnothing.so",)
    try:
        udunits.{call}
    except udunits.MissingExtraError as error:
        print(error)
    """
    assert "install UDUNITS-2 or cf-units" in python(code)


def test_a_check_without_any_library_leaves_out_the_rules_that_need_it_and_says_why():
    code = """
    from cfagg.cf import udunits
    udunits.bundled, udunits._NAMES = lambda: None, ("libnothing.so",)
    import cfagg
    from cfagg.formats.cdl.parsing import parse_cdl
    text = 'netcdf a { variables: float v ; v:long_name = "v" ; v:units = "furlongs" ; :Conventions = "CF-1.13" ; }'
    report = cfagg.check(parse_cdl(text))
    print([f.code for f in report.findings if f.code.startswith("INT")])
    print("UDUNITS-2 was not found" in report.skipped["UNI002"])
    """
    assert python(code).split() == ["[]", "True"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="how a library is found is told by LD_LIBRARY_PATH")
def test_a_library_of_the_system_is_preferred_by_checks_and_conversions_alike(tmp_path):
    library, table = udunits.bundled()
    for path in library.parent.iterdir():
        shutil.copy(path, tmp_path / path.name)
    (tmp_path / library.name).rename(tmp_path / "libudunits2.so.0")
    code = """
    from pathlib import Path
    from cfagg.cf import kinds_of_units, units
    print(kinds_of_units.known("hectofurlongs"), units.linear("hectofurlongs", "furlong"))
    print({line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libudunits2" in line})
    """
    done = python(code, LD_LIBRARY_PATH=str(tmp_path), UDUNITS2_XML_PATH=str(table))
    assert done.splitlines() == ["True (100.0, 0.0)", str({str(tmp_path / "libudunits2.so.0")})]


def test_the_copy_is_found_without_importing_cf_units():
    code = "import sys; from cfagg.cf import udunits; print(udunits.bundled() is not None, 'cf_units' in sys.modules)"
    assert python(code).split() == ["True", "False"]


@pytest.mark.parametrize(
    ("source", "target", "named"), [("m", "K", "'m'.*'K'"), ("nonsense", "K", "'nonsense'.*UDUNITS")]
)
def test_units_that_do_not_convert_are_named(source, target, named):
    with pytest.raises(UnitsError, match=named):
        udunits.converter(source, target)


def test_signs_outside_ascii_are_understood():
    assert udunits.converter("µm", "m")(1e6) == pytest.approx(1.0)
    assert udunits.converter("°C", "K")(0.0) == 273.15
    assert udunits.converter("m s⁻²", "m s-2")(1.0) == 1.0


def test_conversions_by_many_threads_at_once_are_right():
    names = [f"{k} m" for k in range(2, 130)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda name: udunits.converter(name, "m")(1.0), names))
    assert found == [float(k) for k in range(2, 130)]


def test_many_threads_may_be_the_first_to_need_the_library():
    code = """
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier
    from cfagg.cf.units import linear
    start = Barrier(8)
    with ThreadPoolExecutor(8) as pool:
        print(set(pool.map(lambda _: (start.wait(60), linear("kelvin", "K"))[1], range(8))))
    """
    assert python(code) == "{(1.0, 0.0)}"

"""cfunits with the system's UDUNITS and with the copy that cf-units carries, each in a process of its own."""

import os
import subprocess
import sys
import textwrap

import pytest

from cfagg.cf import udunits
from cfagg.errors import UnitsError


def python(code, **environment):
    env = {k: v for k, v in os.environ.items() if k != "UDUNITS2_XML_PATH"} | environment
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=env, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


HIDDEN = """
    import ctypes.util, os, sys
    search = ctypes.util.find_library
    def hidden(name):
        return None if name == "udunits2" else search(name)
    ctypes.util.find_library = hidden
    from cfagg.cf import udunits
"""


def test_units_convert_where_the_system_has_no_udunits_and_nothing_stays_changed():
    code = """
    print(udunits.converter("K @ 273.15", "K")(0.0), ctypes.util.find_library is hidden)
    print("UDUNITS2_XML_PATH" in os.environ, "cf_units" in sys.modules)
    """
    assert python(HIDDEN + code).split() == ["273.15", "True", "False", "False"]


def test_a_users_own_table_of_units_is_respected_and_left_in_place(tmp_path):
    _, table = udunits.bundled()
    for path in table.parent.glob("udunits2*.xml"):
        text = path.read_text(encoding="utf-8")
        if path.name == "udunits2-common.xml":
            unit = "<unit><def>7 m</def><name><singular>cubitus</singular></name></unit>"
            text = text.replace("</unit-system>", f"{unit}</unit-system>")
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    own = str(tmp_path / "udunits2.xml")
    code = """
    print(udunits.converter("cubitus", "m")(1.0), os.environ["UDUNITS2_XML_PATH"])
    """
    assert python(HIDDEN + code, UDUNITS2_XML_PATH=own).split() == ["7.0", own]


def test_without_any_library_the_error_says_what_to_install():
    code = """
    udunits.bundled = lambda: None
    try:
        udunits.load()
    except udunits.UnsupportedError as error:
        print(error)
    """
    assert "install UDUNITS-2 or cf-units" in python(HIDDEN + code)


def test_a_library_of_the_system_is_preferred():
    library, _ = udunits.bundled()
    code = f"""
    import ctypes.util, os
    search = ctypes.util.find_library
    asked = []
    def found(name):
        asked.append(name)
        return {str(library)!r} if name == "udunits2" else search(name)
    ctypes.util.find_library = found
    from cfagg.cf import udunits
    udunits.bundled = None  # calling it would fail
    udunits.load()
    print(ctypes.util.find_library is found, "udunits2" in asked)
    """
    table = str(udunits.bundled()[1])
    assert python(code, UDUNITS2_XML_PATH=table).split() == ["True", "True"]


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

from hypothesis import given
from hypothesis import strategies as st

from cfagg.display.escape import printable


@given(st.text(st.characters()))
def test_the_result_is_one_printable_line(text):
    assert printable(text).isprintable()


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_letters_of_all_scripts_stay(text):
    assert printable(text) == text


def test_lone_surrogates_of_file_names_are_escaped():
    assert printable("a\udcff") == "a\\udcff"

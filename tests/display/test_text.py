import numpy as np
import pytest

from cfagg.api.summarising import summarise_aggregation
from cfagg.display.summary import Listing
from cfagg.display.text import attribute_text, axis_text, reference_lines, variable_lines
from tests.display import arrays


def lines_of(aggregation, **options):
    return list(variable_lines(summarise_aggregation(aggregation, **options)))


def test_a_million_partitions_take_few_short_lines():
    lines = lines_of(arrays.of_a_million(100, 100, 100))
    assert len(lines) < 60
    assert "    … 999,988 more …" in lines
    assert max(map(len, lines)) < 120


def test_columns_are_aligned():
    lines = lines_of(arrays.boxes())
    start = lines.index("  partitions:")
    head, first = lines[start + 1 : start + 3]
    assert head.index("variable") == first.index("box0")


def test_a_scalar_has_one_partition():
    lines = lines_of(arrays.scalar())
    assert "  partition matrix: scalar, 1 partition" in lines
    assert any("()" in line and "one.nc" in line for line in lines)


def test_missing_partitions_are_said_to_be():
    lines = lines_of(arrays.cube(2, present=[True, False]))
    assert any("2 partitions, 1 of them declared missing" in line for line in lines)
    assert any(line.split()[-1] == "missing" for line in lines)


def test_names_with_line_breaks_do_not_forge_lines():
    tame, evil = (lines_of(arrays.series(1, names=[name])) for name in ("a.nc", "a\n  layouts:\n.nc"))
    assert len(tame) == len(evil)
    assert all(line.isprintable() for line in evil)


def test_tabs_in_names_do_not_forge_fields():
    from cfagg.display.summary import ReferenceSummary

    (line,) = reference_lines([ReferenceSummary("a\tb", 3, "inside")])
    assert line == "inside\t3\ta\\tb"


def test_long_sizes_are_shortened():
    from cfagg.display.summary import AxisSummary

    axis = AxisSummary("t", 99, 9, False, Listing(9, ((1, 1), (2, 1)), ((30, 1),)))
    assert axis_text(axis) == "9 partitions: 1, 2, …, 30 (decreasing)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("K", "'K'"),
        ("it's", "'it\\'s'"),
        ("x" * 200, "'" + "x" * 100 + "…"),
        (np.float32(0.1), "0.1"),
        (np.arange(20), "0, 1, 2, 3, 4, 5, 6, 7, … (20 values)"),
        (["a", "b"], "'a', 'b'"),
        ("a\nb", "'a\\nb'"),
    ],
)
def test_attributes_take_one_line(value, text):
    assert attribute_text(value) == text

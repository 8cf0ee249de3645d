import warnings

import matplotlib.image as mpl_image
import numpy as np
import pytest

from cfagg.display.plot import PANELS, save
from cfagg.errors import UnsupportedError
from tests.display import arrays


def rgb(colour):
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def test_png_shows_every_sub_array_in_its_colour(tmp_path):
    from cfagg.display.drawing import DISTINCT

    save({"p": arrays.boxes()}, tmp_path / "p.png")
    pixels = (mpl_image.imread(tmp_path / "p.png")[..., :3] * 255).round().astype(int)
    found = {tuple(p) for p in pixels.reshape(-1, 3)[::7]}
    assert {rgb(c) for c in DISTINCT} <= found


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_name_tells_the_kind(tmp_path, kind, start):
    save({"s": arrays.scalar()}, tmp_path / f"p.{kind.upper()}")
    assert (tmp_path / f"p.{kind.upper()}").read_bytes().startswith(start)


def test_another_kind_is_refused(tmp_path):
    with pytest.raises(UnsupportedError, match=r"\.png, \.svg or \.pdf"):
        save({"s": arrays.scalar()}, tmp_path / "p.txt")


def test_several_aggregations_stand_below_each_other(tmp_path):
    heights = []
    for count in (1, 2, PANELS, PANELS + 3):
        save({str(i): arrays.scalar() for i in range(count)}, tmp_path / "p.png")
        heights.append(mpl_image.imread(tmp_path / "p.png").shape[0])
    assert np.allclose(heights, heights[0] * np.array([1, 2, PANELS, PANELS]), rtol=0.02)


def test_strange_names_are_drawn_as_they_are(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save({"s": arrays.series(3, names=["$x^{2", "日本.nc", "\x1b[31m"], shape=())}, tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_a_style_of_the_user_does_not_change_the_picture(tmp_path):
    import matplotlib as mpl

    save({"s": arrays.scalar()}, tmp_path / "a.png")
    with mpl.rc_context({"font.size": 40, "figure.dpi": 30, "savefig.bbox": "tight", "text.color": "red"}):
        save({"s": arrays.scalar()}, tmp_path / "b.png")
    assert np.array_equal(mpl_image.imread(tmp_path / "a.png"), mpl_image.imread(tmp_path / "b.png"))

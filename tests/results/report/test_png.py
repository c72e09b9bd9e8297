"""A drawing as a PNG file, pixel by pixel: the same shapes at the same places as in SVG."""

from __future__ import annotations

import io
from typing import Any

import pytest

from rsctl.results.report import palette
from rsctl.results.report.canvas import Drawing, Marks, Path, Shape, Text
from rsctl.results.report.png import png_bytes

RED, BLUE, WHITE = "#ff0000", "#0000ff", "#ffffff"
WIDTH, HEIGHT = 90, 60


class Picture:
    """The pixels of a drawing of 90 x 60 points, by their place in points."""

    def __init__(self, *shapes: Shape) -> None:
        from matplotlib.image import imread

        drawing = Drawing(WIDTH, HEIGHT, (20, 10, 70, 50), list(shapes))
        self.pixels: Any = imread(io.BytesIO(png_bytes(drawing)))

    def __getitem__(self, place: tuple[float, float]) -> str:
        """The colour at a place."""
        x, y = (int(part * 200 / 72) for part in place)
        return "#" + "".join(f"{round(255 * float(part)):02x}" for part in self.pixels[y, x][:3])

    def extent(self) -> tuple[float, float, float, float]:
        """The left, right, upper and lower end of all that is not white, in points."""
        ink = self.pixels[:, :, :3].min(axis=2) < 0.9
        columns, rows = ink.any(axis=0).nonzero()[0], ink.any(axis=1).nonzero()[0]
        left, right = (float(each) * 72 / 200 for each in (columns[0], columns[-1] + 1))
        top, bottom = (float(each) * 72 / 200 for each in (rows[0], rows[-1] + 1))
        return left, right, top, bottom


def box(left: float, top: float, right: float, bottom: float) -> list[tuple[float, float]]:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def near(*ends: float) -> object:
    return pytest.approx(ends, abs=0.6)


@pytest.mark.parametrize(
    ("shape", "extent"),
    [
        # each touches another edge of the paper, so that no edge is elsewhere
        (Path(box(0, 0, 30, 20), RED), (0, 30, 0, 20)),
        (Path(box(60, 40, 90, 60), RED), (60, 90, 40, 60)),
        (Path(box(0, 0, 90, 60), RED, is_clipped=True), (20, 70, 10, 50)),
        (Path([(0, 30), (90, 30)], RED, 6, is_clipped=True), (20, 70, 27, 33)),
        (Path([(45, 0), (45, 60)], RED, 4), (43, 47, 0, 60)),
        (Marks([(30, 30), (60, 30)], "o", 10, RED), (25, 65, 25, 35)),
        (Marks([(30, 30)], "s", 10, RED), (25, 35, 25, 35)),
        (Marks([(30, 30)], "X", 10, RED), (25, 35, 25, 35)),
        (Marks([(30, 30)], "^", 10, RED), (25, 35, 25, 35)),
    ],
)
def test_a_shape_is_where_it_is_drawn(shape: Shape, extent: tuple[float, ...]) -> None:
    picture = Picture(shape)
    assert picture.pixels.shape[:2] == (166, 250)  # 200 pixels an inch
    assert picture.extent() == near(*extent)


def test_shapes_have_their_colours_and_lie_in_their_order() -> None:
    picture = Picture(
        Path(box(5, 5, 40, 40), BLUE),
        Path([(5, 20), (60, 20)], RED, 10),
        Marks([(30, 20)], "s", 6, BLUE),
        Path(box(50, 30, 80, 50), RED, opacity=0.5),
        Marks([(60, 55)], "o", 8, BLUE, opacity=0.25),
        Marks([(70, 55)], "s", 8, palette.SERIES[0], opacity=0.5),
    )
    assert [picture[place] for place in ((10, 10), (10, 20), (30, 20), (50, 20))] == [
        *(BLUE, RED, BLUE, RED)
    ]
    for x, y, mixed in (
        (65, 40, (255, 128, 128)),
        (60, 55, (191, 191, 255)),
        (70, 55, (128, 184, 216)),
    ):
        assert bytes.fromhex(picture[x, y][1:]) == pytest.approx(mixed, abs=2)
    assert picture[85, 5] == WHITE


@pytest.mark.parametrize(
    ("shape", "upper", "lower"),
    [
        ("o", WHITE, WHITE),
        ("s", RED, RED),
        ("^", WHITE, RED),
        ("v", RED, WHITE),
        ("X", WHITE, WHITE),
    ],
)
def test_marks_have_their_shapes(shape: str, upper: str, lower: str) -> None:
    """By the inner side of the corners of the square around each."""
    picture = Picture(Marks([(30, 30)], shape, 20, RED))
    assert [picture[21.2, 20.8], picture[21.2, 39.2]] == [upper, lower]
    assert picture[30, 30] == RED


def test_dashes_are_in_widths_of_the_line() -> None:
    picture = Picture(Path([(10, 20), (80, 20)], RED, 5, dashes=(2, 4)))
    # the line's ends stand out by half its width
    assert [picture[10 + at, 20] == WHITE for at in (5, 20, 35, 50)] == [False, True, False, True]


@pytest.mark.parametrize("shape", ["o", "v"])
def test_a_mark_is_outlined_by_the_paper(shape: str) -> None:
    below = Path(box(0, 0, 90, 60), BLUE)
    plain, outlined = (
        Picture(below, Marks([(45, 30)], shape, 20, RED, is_outlined=each))
        for each in (False, True)
    )
    assert (plain[45, 30], outlined[45, 30]) == (RED, RED)
    whites = [
        sum(picture[45, y / 4] not in (RED, BLUE) for y in range(240))
        for picture in (plain, outlined)
    ]
    assert whites[0] < whites[1]


@pytest.mark.parametrize(
    ("anchor", "left", "right"), [("start", 45, None), ("middle", None, None), ("end", None, 45)]
)
def test_a_text_begins_has_its_middle_or_ends_at_its_place(
    anchor: Any, left: float | None, right: float | None
) -> None:
    found = Picture(Text(45, 40, "HHHH", 10, anchor=anchor)).extent()
    assert found[3] == pytest.approx(40, abs=0.6)  # its baseline
    assert found[3] - found[2] == pytest.approx(7.3, abs=0.6)  # the height of capital letters
    if left is not None:
        assert left <= found[0] < left + 2
    elif right is not None:
        assert right - 2 < found[1] <= right
    else:
        assert sum(found[:2]) / 2 == pytest.approx(45, abs=0.6)


def test_a_bold_text_is_wider_and_one_with_a_halo_is_readable_on_lines() -> None:
    plain, bold = (
        Picture(Text(5, 40, "HHHH", 10, is_bold=each)).extent() for each in (False, True)
    )
    assert bold[1] > plain[1] + 1
    below = Path(box(0, 0, 90, 60), BLUE)
    bare, haloed = (Picture(below, Text(20, 40, "I", 20, has_halo=each)) for each in (False, True))
    assert bare[20.6, 35] == BLUE
    assert haloed[22, 35] == "#1b1f24"
    assert haloed[20.6, 35] == palette.PAPER.light
    assert haloed[18, 35] == BLUE


@pytest.mark.filterwarnings("error")
def test_a_text_is_no_formula_and_may_have_any_letters() -> None:
    """Where the font lacks a letter there is a box, and no warning."""
    dollar = Picture(Text(5, 40, "$x$", 20)).extent()
    assert dollar[1] - dollar[0] > 30  # three letters
    assert Picture(Text(5, 40, "\U0001f600", 20)).extent()[1] > 10

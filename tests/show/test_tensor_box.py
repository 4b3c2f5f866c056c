"""The picture of a tensor copy: every unit where the manual's table has it, edges hatched, all of it in words."""

import itertools
import re
from xml.etree import ElementTree as ET

import pytest

from tcemu import show
from tcemu.errors import AddressError, OperandError
from tcemu.machine.im2col import Im2colMap
from tcemu.machine.tensor_map import TensorMap

SVG = "{http://www.w3.org/2000/svg}"
#: PTX ISA 9.1, 5.5.7: which unit lies where, line by line; then the pattern repeats.
TABLES = {
    0: ["01234567"],
    32: ["01234567", "10325476"],
    64: ["01234567", "10325476", "23016745", "32107654"],
    128: ["01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"],
}
#: The corner of the units, and their size.
LEFT, TOP, UNIT, HEIGHT = 276, 56, 84, 22


def units(picture: show.Picture) -> dict[tuple[int, int], str]:
    """Labels by line and unit, as they are drawn."""
    found = {}
    for group in ET.fromstring(picture.svg).iter(f"{SVG}g"):  # noqa: S314 - our own text
        for text in group:
            column = (float(text.get("x", "0")) - LEFT - UNIT / 2) / UNIT
            row = (float(text.get("y", "0")) - TOP - 15) / HEIGHT
            assert column == int(column)
            assert row == int(row)
            found[int(row), int(column)] = text.text or ""
    return found


@pytest.mark.parametrize("swizzle", TABLES)
@pytest.mark.parametrize("start", [0, 3])
def test_every_unit_in_its_place(swizzle, start):
    """`start` is the line of shared memory that the box begins in."""
    width = (swizzle or 64) // 2
    made = TensorMap(0, "f16", (256, 64), (512,), (width, 16), swizzle)
    found = units(show.tensor_box(made, (32, 8), 128 * start))
    expected, rows = {}, TABLES[swizzle]
    for place, (row, unit) in enumerate(itertools.product(range(16), range(width // 8))):
        line, column = divmod(place, 8)
        turned = rows[(start + line) % len(rows)].index(str(column))
        expected[line, turned] = f"{32 + 8 * unit}, {8 + row}"
    assert found == expected


def test_outer_dimensions_follow_each_other_inner_ones_first():
    made = TensorMap(0, "u8", (32, 5, 4, 4), (32, 160, 640), (16, 2, 3, 2), 0, "zeros", (1, 2, 1, 1))
    labels = [label for _, label in sorted(units(show.tensor_box(made, (16, 1, 0, 2))).items())]
    assert labels[:6] == [f"16, 1, {z}, {w}" for w in (2, 3) for z in (0, 1, 2)]
    wide = TensorMap(0, "u8", (32, 5, 400, 400), (32, 160, 640), (16, 2, 1, 2))
    labels = [label for _, label in sorted(units(show.tensor_box(wide, (16, 1, 100, 200))).items())]
    assert labels[:4] == ["16,1,100,200", "16,2,100,200", "16,1,100,201", "16,2,100,201"], "no room for spaces"


def test_lines_wider_than_the_box_have_dots():
    made = TensorMap(0, "f16", (64, 64), (128,), (16, 12), 128)
    picture = show.tensor_box(made, (0, 0), lines=3)
    found = units(picture)
    assert {place: label for place, label in found.items() if label != "·"} == {
        (0, 0): "0, 0",
        (0, 1): "8, 0",
        (1, 0): "8, 1",
        (1, 1): "0, 1",
        (2, 2): "0, 2",
        (2, 3): "8, 2",
    }
    assert len(found) == 24
    assert "A dot: not part of the box." in picture.svg
    assert "9 more lines below." in picture.svg


@pytest.mark.parametrize(("fill", "loaded"), [("zeros", "zeros"), ("nan", "NaN")])
def test_what_lies_outside_is_hatched_and_told(fill, loaded):
    """A box of 4 units by 2: the edge cuts the second unit of each line in its middle, two lie beyond it."""
    made = TensorMap(0, "f32", (10, 9), (48,), (16, 2), fill=fill)
    picture = show.tensor_box(made, (4, 3))
    assert f"80 of them are outside the tensor and are loaded as {loaded}." in picture.description
    assert f"Hatched: outside the tensor, {loaded} when loaded." in picture.svg
    starts = [float(x) for x in re.findall(r'd="M([\d.]+) [\d.]+L[^"]*" class="g"', picture.svg)]
    assert sorted(start for start in starts if start >= LEFT) == sorted(
        LEFT + UNIT * unit for unit in (1.5, 2, 3, 5.5, 6, 7)
    )
    inside = show.tensor_box(made, (-4, 0)).description
    assert "48 of them are outside" in inside, "four elements before the line and two behind it, twice"


def test_a_whole_box_in_words():
    picture = show.tensor_box(TensorMap(0, "bf16", (64, 8), (128,), (64, 8), 128), (0, 0), 1024)
    assert picture.title == "The box at (0, 0) of a tensor in shared memory: 64 × 8, 128-byte swizzle"
    assert "is at 0x400 in shared memory and has 1024 bytes. In each 128-byte line, the swizzle" in picture.description
    assert "0, 1 at 0x490, unit 1; 0, 2 at 0x520, unit 2" in picture.description
    assert "outside" not in picture.description
    assert 'class="g"' not in picture.svg
    assert "0, 0 means: elements 0 to 7 of the innermost dimension, at 0 in the other." in picture.svg


@pytest.mark.parametrize("at", [(0, 0), (64, 0), (-48, 3), (208, 200), (-1008, 0)])
def test_the_tensor_and_the_box_stay_on_their_side(at):
    """Wherever the box is, the drawing on the left ends before the addresses."""
    for sizes in ((64, 4), (4096, 4), (16, 4096)):
        made = TensorMap(0, "u8", sizes, (4096,), (16, 4))
        root = ET.fromstring(show.tensor_box(made, at).svg)  # noqa: S314 - our own text
        boxes = [
            [float(box.get(name, "0")) for name in ("x", "y", "width", "height")] for box in root.iter(f"{SVG}rect")
        ]
        assert len(boxes) == 3
        for x, y, wide, high in boxes:
            assert x >= 16
            assert x + wide <= 16 + 176 + 5
            assert y >= TOP
            assert y + high <= TOP + 300 + 5


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ({"lines": 0}, OperandError, "1 to 32 lines"),
        ({"coordinates": (0,)}, OperandError, "2 coordinates"),
        ({"address": 64}, AddressError, "at a multiple of 128"),
    ],
)
def test_a_box_that_cannot_be_drawn(how, error, says):
    with pytest.raises(error, match=says):
        show.tensor_box(TensorMap(0, "u8", (16, 4), (16,), (16, 4)), **({"coordinates": (0, 0)} | how))


def test_a_map_of_pixels_is_not_drawn():
    with pytest.raises(OperandError, match="got a map of im2col mode, whose `pixels` lists"):
        show.tensor_box(Im2colMap(0, "u8", (16, 4, 4), (16, 64), (16, 4)), (0, 0, 0))

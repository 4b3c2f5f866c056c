"""The fragment maps show exactly what the layout says, for every lane and register."""

import re
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from quick import some
from rows import rows

import tcemu
from tcemu import show
from tcemu.errors import TcemuError
from tcemu.formats import Container, lookup
from tcemu.instructions import parse
from tcemu.instructions.table import FAMILIES
from tcemu.layouts import Fragment, Layout
from tcemu.show.fragment_map import cells, element, shades_of

SVG = "{http://www.w3.org/2000/svg}"


def _mma(name: str, width: int, m: int, k: int) -> Any:
    """An instruction as far as a map needs it: three fragments by the rule that most shapes of mma.sync share."""
    packed, chunks, high, form = 32 // width, k * width // 128, m // 8, lookup(name)
    a = Layout("(h g) (c t p) -> (g t) (c h p)", h=high, g=8, c=chunks, t=4, p=packed)
    b = Layout("(c t p) g -> (g t) (c p)", g=8, c=chunks, t=4, p=packed)
    d = Layout("(h g) (t p) -> (g t) (h p)", h=high, g=8, t=4, p=2)
    fragments = {
        "a": Fragment("a", a, Container(form, width)),
        "b": Fragment("b", b, Container(form, width)),
        "d": Fragment("d", d, Container(lookup("f32"), 32)),
    }
    return SimpleNamespace(family="mma", shape=(m, 8, k), types={"a": form}, fragments=fragments)


INSTRUCTIONS = {
    "f16 k16": _mma("f16", 16, 16, 16),
    "e4m3 k32": _mma("e4m3", 8, 16, 32),
    "s4 k64": _mma("s4", 4, 16, 64),
    "tf32 k8": _mma("tf32", 32, 16, 8),
    "b1 m8": _mma("b1", 1, 8, 128),
}
FRAGMENTS = {
    f"{role} of {name}": fragment
    for name, instruction in INSTRUCTIONS.items()
    for role, fragment in instruction.fragments.items()
}
every_fragment = pytest.mark.parametrize("fragment", FRAGMENTS.values(), ids=FRAGMENTS)


def _marked(picture: show.Picture, fragment: Fragment) -> set[tuple[int, int]]:
    """Row and column of every element under a marked rectangle, by its place on the sheet."""
    wide, high = element(fragment)
    root = ET.fromstring(picture.svg)  # noqa: S314 - our own text
    frames = [box for box in root.iter(f"{SVG}rect") if box.get("class") == "k"]
    left, top = (float(frames[0].get(side, "0")) for side in "xy")
    marked = set()
    for box in root.iter(f"{SVG}rect"):
        if box.get("class") == "x":
            x, y, width, height = (float(box.get(name, "0")) for name in ("x", "y", "width", "height"))
            rows = range(round((y - top) / high), round((y + height - top) / high))
            columns = range(round((x - left) / wide), round((x + width - left) / wide))
            marked |= {(row, column) for row in rows for column in columns}
    return marked


@every_fragment
def test_a_lane_s_elements_are_marked_and_no_others(fragment: Fragment) -> None:
    for lane in some(range(fragment.lanes), 6):
        held = {fragment.layout.position(lane, slot) for slot in range(fragment.layout.slots)}
        assert _marked(show.fragment_map(fragment, lane=lane), fragment) == held


@every_fragment
def test_a_register_s_elements_are_marked_and_no_others(fragment: Fragment) -> None:
    for register in range(fragment.registers):
        held = {
            fragment.position(lane, register, element)
            for lane in range(fragment.lanes)
            for element in range(fragment.elements_per_register)
        }
        assert _marked(show.fragment_map(fragment, register=register), fragment) == held


@every_fragment
def test_one_register_of_one_lane_is_one_cell(fragment: Fragment) -> None:
    held = {fragment.position(13, 0, element) for element in range(fragment.elements_per_register)}
    assert _marked(show.fragment_map(fragment, lane=13, register=0), fragment) == held


@every_fragment
def test_the_cells_tile_the_matrix(fragment: Fragment) -> None:
    covered = [
        (row, column)
        for cell in cells(fragment)
        for row in range(cell.row, cell.row + cell.rows)
        for column in range(cell.column, cell.column + cell.columns)
    ]
    rows, columns = fragment.shape
    assert sorted(covered) == [(row, column) for row in range(rows) for column in range(columns)]


@every_fragment
def test_every_cell_is_labelled_with_its_lane_and_register(fragment: Fragment) -> None:
    root = ET.fromstring(show.fragment_map(fragment, lane=5).svg)  # noqa: S314 - our own text
    labels = sorted((text.text or "").split() for group in root.iter(f"{SVG}g") for text in group)
    assert labels == sorted([str(cell.lane), f"{fragment.role}{cell.register}"] for cell in cells(fragment))


def test_a_mark_is_more_than_a_colour() -> None:
    """Each marked cell has a thick border, hatching and a bold label."""
    picture = show.fragment_map(INSTRUCTIONS["f16 k16"].fragments["a"], lane=13)
    root = ET.fromstring(picture.svg)  # noqa: S314 - our own text
    boxes = [box for box in root.iter(f"{SVG}rect") if box.get("class") == "x"]
    hatching = [path for path in root.iter(f"{SVG}path") if path.get("class") == "h"]
    bold = [group for group in root.iter(f"{SVG}g") if "b" in group.get("class", "").split()]
    assert len(boxes) == len(hatching) == len(bold[0]) == 4
    assert "stroke-width:2.5" in picture.svg


def test_the_shades_show_the_groups_of_four_lanes() -> None:
    """Of m16n8k16, groupID is the row of A and D, again eight rows down, and the column of B (manual, 9.7.14.5.8)."""
    fragments = parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").fragments
    for role in "abd":
        shades, of_group = dict[int, set[str]](), shades_of(cells(fragments[role]))
        for cell in cells(fragments[role]):
            shades.setdefault((cell.column if role == "b" else cell.row) % 8, set()).add(of_group[cell.lane // 4])
        assert all(len(shades[group]) == 1 and shades[group] != shades[(group + 1) % 8] for group in range(8))
    picture = show.fragment_map(fragments["b"], lane=5)
    root = ET.fromstring(picture.svg)  # noqa: S314 - our own text
    areas = {each.get("class"): each.get("d", "").count("M") for each in root.iter(f"{SVG}path")}
    assert [areas[look] for look in ("fb", "f", "fo", "fg")] == [16, 14, 16, 16], "two cells are marked, not shaded"
    assert "lane // 4" in picture.svg


def test_the_two_halves_of_a_quad_pair_differ() -> None:
    """Lanes 4 to 7 and 20 to 23: the eight lanes of product 1 of m8n8k4 (manual, 9.7.14.5.1)."""
    svg = show.mma_map(parse("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32"), lane=21).svg
    looks = {each.get("class") for each in ET.fromstring(svg).iter(f"{SVG}path")}  # noqa: S314 - our own text
    assert {"fb", "f"} <= looks
    assert not {"fo", "fg"} & looks
    assert "has a shade" in svg
    assert "repeat" not in svg


@pytest.mark.parametrize("instruction", INSTRUCTIONS.values(), ids=INSTRUCTIONS)
def test_the_three_matrices_line_up(instruction: Any) -> None:
    """A's rows are level with D's, B's columns are above D's."""
    root = ET.fromstring(show.mma_map(instruction, lane=30).svg)  # noqa: S314 - our own text
    frames = [box for box in root.iter(f"{SVG}rect") if box.get("class") == "k"]
    a, b, d = ({side: float(box.get(side, "0")) for side in ("x", "y", "width", "height")} for box in frames)
    assert (a["y"], a["height"]) == (d["y"], d["height"])
    assert (b["x"], b["width"]) == (d["x"], d["width"])
    assert a["x"] + a["width"] < d["x"]
    assert b["y"] + b["height"] < d["y"]


@pytest.mark.parametrize(("lane", "rows"), [(None, "0 to 15"), (31, "0 to 15"), (70, "32 to 47"), (127, "48 to 63")])
def test_of_a_warpgroup_the_rows_of_one_warp_are_drawn(lane: int | None, rows: str) -> None:
    picture = show.mma_map(parse("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"), lane=lane)
    first = int(rows.split(maxsplit=1)[0])
    texts = [text.text or "" for text in ET.fromstring(picture.svg).iter(f"{SVG}text")]  # noqa: S314 - our own
    assert f"drawn: warp {first // 16} of warps 0 to 3, rows {rows}" in texts
    lanes = {int(label.split()[0]) for label in texts if re.fullmatch(r"\s*\d+ [ad]\d", label)}
    assert lanes == set(range(2 * first, 2 * first + 32)), "each warp holds 16 rows"


@pytest.mark.parametrize(
    ("opcode", "lane"),
    [
        ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", 21),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 3),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", None),
    ],
)
def test_the_legend_explains_a_cell_of_the_map(opcode: str, lane: int | None) -> None:
    root = ET.fromstring(show.mma_map(parse(opcode), lane=lane).svg)  # noqa: S314 - our own
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    (label,) = (text.partition(" means")[0] for text in texts if " means: register" in text)
    assert label in [text.strip() for text in texts], "the label is in the map"
    assert lane is None or label.startswith(f"{lane} "), "and it is marked"


def test_the_map_in_words() -> None:
    words = show.mma_map(INSTRUCTIONS["f16 k16"], lane=13).description
    assert "Lane 13 holds a0 = row 3 columns 2–3, a1 = row 11 columns 2–3, a2 = row 3 columns 10–11" in words
    assert "b0 = rows 2–3 column 3" in words
    assert "d0 = row 3 column 2" in words
    assert "(h g) (c t p) -> (g t) (c h p)" in words


def test_a_register_that_only_one_matrix_has_is_marked_there() -> None:
    picture = show.mma_map(INSTRUCTIONS["f16 k16"], lane=0, register=3)
    root = ET.fromstring(picture.svg)  # noqa: S314 - our own text
    assert sum(box.get("class") == "x" for box in root.iter(f"{SVG}rect")) == 2
    assert "Lane 0 holds a3 = row 8 columns 8–9; d3 = row 8 column 1." in picture.description


def test_a_broadcast_is_told() -> None:
    twice = Fragment("a", Layout("g (t p) -> (g t) (x p)", g=8, t=4, p=2, x=2), Container(lookup("f16"), 16))
    assert all(cell.copies == 2 for cell in cells(twice))
    assert ">0+ a0<" in show.fragment_map(twice).svg.replace("\N{NO-BREAK SPACE}", "")


def test_four_products_are_drawn_one_at_a_time() -> None:
    mma = tcemu.parse("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32")
    a = mma.fragments["a"]
    assert {cell.lane for cell in cells(a, batch=2)} == {8, 9, 10, 11, 24, 25, 26, 27}
    for lane in range(32):
        picture = show.mma_map(mma, lane=lane)
        assert picture == show.mma_map(mma, lane=lane, batch=lane // 4 % 4)
        assert f"product {lane // 4 % 4} of 4: lane and register of each element" in picture.title
    with pytest.raises(TcemuError, match="batch 4: fragment a has 4 products, counted from 0"):
        show.mma_map(mma, batch=4)


FORMS = {
    instruction.opcode: instruction
    for family in FAMILIES
    if family.name == "mma"
    for _, instruction in family.variants
    if "satfinite" not in instruction.opcode
}
#: One instruction for every set of layouts: the fragments are all that a map depends on.
DIFFERENT = {tuple(str(i.fragments[role]) for role in "abd"): name for name, i in FORMS.items()}


@rows("name", some(DIFFERENT.values(), 10))
@pytest.mark.slow
def test_every_instruction_has_a_map_that_fits_a_page(name: str) -> None:
    instruction = FORMS[name]
    picture = show.mma_map(instruction, lane=13)
    root = ET.fromstring(picture.svg)  # noqa: S314 - our own text
    width, height = (float(root.get(side, "0")) for side in ("width", "height"))
    assert width <= 1000
    assert height <= 950
    assert len(picture.svg) < 60_000
    drawn = sum(box.get("class") == "x" for box in root.iter(f"{SVG}rect"))
    assert drawn == sum(cell.lane == 13 for role in "abd" for cell in _of_lane_13(instruction, role))


#: What more than A, B and D lanes hold of an instruction.
MORE = {
    "e of 16 bits, short": "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "e of 16 bits, long": "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
    "e of 8 bits, short": "mma.sp.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
    "e of 8 bits, long": "mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32",
    "scales": "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0",
    "both": "mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
    "a warpgroup's": "wgmma.mma_async.sp.sync.aligned.m64n16k32.f32.f16.f16",
    "no B": "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32",
}
DRAWN = ("scale_a", "e", "a", "scale_b", "b", "d")


@pytest.mark.parametrize("opcode", MORE.values(), ids=MORE)
@pytest.mark.parametrize("lane", some([0, 13, 30], 1))
def test_all_that_lanes_hold_is_drawn_and_marked(opcode: str, lane: int) -> None:
    """Every fragment has a frame, level with D or above it; a lane's cells of each are marked, and named in words."""
    instruction = tcemu.parse(opcode)
    picture = show.mma_map(instruction, lane=lane)
    root = ET.fromstring(picture.svg)  # noqa: S314 - our own text
    roles = [role for role in DRAWN if role in instruction.fragments]
    frames = [box for box in root.iter(f"{SVG}rect") if box.get("class") == "k"]
    places = dict(zip(roles, ({s: float(box.get(s, "0")) for s in ("x", "y", "width", "height")} for box in frames),
                      strict=True))  # fmt: skip
    for role, place in places.items():
        side, extent = ("x", "width") if role in ("scale_b", "b", "d") else ("y", "height")
        assert (place[side], place[extent]) == (places["d"][side], places["d"][extent])
    expected = 0
    for role in roles:
        fragment = instruction.fragments[role]
        front = [range(size) for size in fragment.shape[:-2]]
        held = {fragment.layout.position(lane, slot) for slot in range(fragment.layout.slots)}
        assert {len(position) for position in held} == {len(front) + 2}
        expected += len(_cells_of(fragment, held))
        assert f"{role}0 = " in picture.description
    assert sum(box.get("class") == "x" for box in root.iter(f"{SVG}rect")) == expected


def _cells_of(fragment: Fragment, held: set[tuple[int, ...]]) -> set[tuple[int, int, int]]:
    """Corner and register of each cell that has one of the elements, in the batch that all of them are in."""
    batch = min(held)[0] if len(fragment.shape) == 3 else 0
    return {
        (cell.row, cell.column, cell.register)
        for cell in cells(fragment, batch)
        if (*((batch,) if len(fragment.shape) == 3 else ()), cell.row, cell.column) in held
    }


def _of_lane_13(instruction: Any, role: str) -> tuple[Any, ...]:
    fragment = instruction.fragments[role]
    return cells(fragment, fragment.layout.position(13, 0)[0] if len(fragment.shape) == 3 else 0)


@pytest.mark.parametrize(
    ("marks", "words"),
    [
        ({"lane": 32}, "lane 32: fragment a has lanes 0 to 31"),
        ({"lane": -1}, "lane -1: fragment a has lanes 0 to 31"),
        ({"register": 4}, "register 4: fragment a has registers 0 to 3"),
    ],
)
def test_a_lane_or_register_that_is_not_there_is_refused(marks: dict[str, int], words: str) -> None:
    instruction = INSTRUCTIONS["f16 k16"]
    with pytest.raises(TcemuError, match=words):
        show.fragment_map(instruction.fragments["a"], **marks)
    with pytest.raises(TcemuError, match=words):
        show.mma_map(instruction, **marks)

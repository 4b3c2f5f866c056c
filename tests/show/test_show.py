"""Laws of every picture: valid, named, told in words, readable in both themes, the same on every day."""

import base64
import itertools
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from quick import some
from rows import rows

import tcemu
from tcemu import show
from tcemu.arithmetic import FusedSum, FusedSums, fused_sum
from tcemu.errors import TcemuError
from tcemu.formats import FORMATS, Container, lookup, unpack
from tcemu.instructions import parse
from tcemu.layouts import Descriptor, Fragment, Layout
from tcemu.show.palette import INKS, ROLES, SURFACES
from tcemu.show.picture import Picture
from tcemu.show.words import compact, value
from tcemu.timing import wavefronts

SVG = "{http://www.w3.org/2000/svg}"
A = Fragment("a", Layout("(h g) (c t p) -> (g t) (c h p)", h=2, g=8, c=2, t=4, p=2), Container(lookup("f16"), 16))
SPARSE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
SCALED = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
MATRIX = np.arange(128, dtype=np.float32).reshape(16, 8)


def _steps(c: float, *products: float) -> FusedSum:
    """Products with 1, as sm_90 adds them up for f16 into f32, taken apart as f32 for their range."""
    form = lookup("f32")
    one, addend, *others = (unpack(form, form.encode(number).item()) for number in (1.0, c, *products))
    return fused_sum(FusedSums(25, None, -133), [(k, other, one) for k, other in enumerate(others)], addend, form)


def _racing(warp: Any) -> None:
    for _ in range(3):
        warp.st_shared(4 * warp.threads, 0)
    warp.ld_shared(4 * (63 - warp.threads))


def _hazards() -> Picture:
    events: list[Any] = []
    result = tcemu.launch(_racing, block=64, shared=256, sanitizer="collect", observers=[events.append])
    return show.hazards(events, result.reports)


MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"


def _ones(opcode: str) -> list[np.ndarray]:
    """A, B and C full of ones."""
    found = parse(opcode)
    m, n, k = found.shape
    return [np.ones(shape, found.types[role].dtype) for role, shape in (("a", (m, k)), ("b", (k, n)), ("c", (m, n)))]


def _powers() -> list[np.ndarray]:
    """2^25 + 1 - 2^25 in D[0][0]."""
    a, b, c = (np.zeros_like(each) for each in _ones(MMA))
    a[0, :3], b[:3, 0] = (2**13, 1, -(2**13)), (2**12, 1, 2**12)
    return [a, b, c]


PICTURES: dict[str, Callable[[], Picture]] = {
    "bits": lambda: show.number_bits("e4m3", 0x3D),
    "bits of f64": lambda: show.number_bits("f64", 0x7FF0000000000001),
    "bits of tf32": lambda: show.number_bits("tf32", 0x3F9E2345),
    "lines": lambda: show.number_lines(["e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "f16"]),
    "linear": lambda: show.number_lines(["e2m1"], scale="linear"),
    "ranges": lambda: show.number_ranges(["f32", "tf32", "bf16", "f16", "ue8m0"]),
    "rounding": lambda: show.rounding("e4m3", 1.3),
    "one output": lambda: show.one_output(MMA, _ones(MMA), targets=["sm_80", "sm_90a"]),
    "one output of fp8, c last": lambda: show.one_output(FP8, _ones(FP8), targets=["sm_89", "sm_90a"]),
    "running error": lambda: show.running_error([32, 64], {"a < b": [0.0, 0.01], "c": [0.0, -0.5]}),
    "where it sits": show.where_it_sits,
    "counted bits": lambda: show.popcount(0xF0F0A5C3, 0xF1F0A5C7),
    "end of s32": lambda: show.end_of_s32(2**31 - 5, 10, -(2**31) + 4, 2**31 - 1),
    "fragment": lambda: show.fragment_map(A, lane=13),
    "register": lambda: show.fragment_map(A, register=2),
    "changes": lambda: show.changes(MATRIX, np.where(MATRIX == 7, 9, MATRIX).astype(np.float32), cause="a < b & c"),
    "no change": lambda: show.changes(MATRIX, MATRIX),
    "descriptor": lambda: show.descriptor(Descriptor(4096, 16, 1024, 128)),
    "descriptor with bits in no field": lambda: show.descriptor(0x4030004000014100),
    "shared tile": lambda: show.shared_tile(Descriptor(4096, 16, 1024, 128), "f16", 64, 64),
    "shared tile on top of itself": lambda: show.shared_tile(Descriptor(0, 64, 256), "b1", 64, 256, lines=36),
    "banks": lambda: show.banks(wavefronts(np.arange(32) * 144, "ldmatrix.sync.aligned.m8n8.x4.shared.b16")),
    "banks in conflict": lambda: show.banks(wavefronts(np.arange(32) * 8, "ld.shared.b32")),
    "sparsity": lambda: show.sparsity(SPARSE, np.ones((16, 32), np.float16), np.full(32, 0x44EE4E90, np.uint32), 9, 3),
    "scales of A": lambda: show.scales(SCALED, "a", 2, 1, 9, 1, np.full(32, 0x7F80817E, np.uint32)),
    "scales of B": lambda: show.scales(SCALED, "b", 0, 3, 5, 1),
    "hazards": _hazards,
    "padded tile": lambda: show.padded_tile(128, 16, 1, 2),
    "swizzled tile": lambda: show.padded_tile(64, 0, 2),
    "element of a shared tile": lambda: show.shared_tile(
        Descriptor(4096, 16, 1024, 128), "f16", 64, 64, at_mn=41, at_k=20, lines=20
    ),
    "before and after": lambda: show.before_and_after([3.0, -1.0, 0.5, -4.0], [3.0, 0.0, 0.5, -3.5], 4, ["a < b & c"]),
    "histograms": lambda: show.histograms({"all < 1": np.linspace(0, 1, 99), "one": [0.5]}, 0, 0.9, 9, "Two", "x & y"),
    "fused sums of two targets": lambda: show.fused_sums_of(MMA, _powers()),
    "rows of a tile": lambda: show.shared_rows(64 * np.arange(16)[:, None] + 16 * np.arange(4), 2, 8),
    "fused sum": lambda: show.fused_sum(_steps(1.5, -5 * 2.0**-27, 0.0, 2.0**-60)),
}

every_picture = rows("make", some(PICTURES.values(), 6), {make: name for name, make in PICTURES.items()}.get)


@every_picture
def test_it_is_an_svg_document_with_a_title_and_a_description(make: Callable[[], Picture]) -> None:
    picture = make()
    root = ET.fromstring(picture.svg)  # noqa: S314 - our own text
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    named = {element.get("id"): element.text for element in root if element.tag in (f"{SVG}title", f"{SVG}desc")}
    assert named[root.get("aria-labelledby")] == picture.title
    assert named[root.get("aria-describedby")] == picture.description
    assert len(picture.description) >= 15


@every_picture
def test_its_ids_are_its_own(make: Callable[[], Picture]) -> None:
    picture = make()
    ids = re.findall(r'\bid="([^"]*)"', picture.svg)
    assert len(ids) == len(set(ids)) == 3
    assert all(name.startswith(picture.key) for name in ids)
    rules = re.findall(r"([^{}]+)\{[^{}]*\}", picture.svg.split("<style>")[1].split("</style>")[0])
    assert all(picture.key in rule for rule in rules), "a style rule reaches out of its picture"


def test_different_pictures_have_different_ids() -> None:
    keys = [make().key for make in PICTURES.values()]
    assert len(set(keys)) == len(keys)


@every_picture
def test_it_is_the_same_every_time(make: Callable[[], Picture]) -> None:
    first, second = make(), make()
    assert first == second
    assert repr(first) == repr(second) == f"<Picture {first.title!r} {first.key}>"


@every_picture
def test_it_stays_small_and_on_its_sheet(make: Callable[[], Picture]) -> None:
    root = ET.fromstring(make().svg)  # noqa: S314 - our own text
    width, height = (float(root.get(side, "0")) for side in ("width", "height"))
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    assert 200 <= width <= 1100
    assert 100 <= height <= 900
    for element in root.iter():
        if element.tag in (f"{SVG}text", f"{SVG}rect"):
            assert 0 <= float(element.get("x", "0")) <= width
            assert 0 <= float(element.get("y", "0")) <= height
    assert len(make().svg) < 80_000


@every_picture
def test_only_classes_that_have_a_style_are_used(make: Callable[[], Picture]) -> None:
    svg = make().svg
    used = {name for names in re.findall(r'class="([^"]*)"', svg) for name in names.split()}
    assert all(f" .{name}{{" in svg for name in used)
    assert "#" not in svg.split("</style>")[1], "a colour outside the palette"


@every_picture
def test_it_says_in_every_medium_what_it_shows(make: Callable[[], Picture]) -> None:
    picture = make()
    bundle = picture._repr_mimebundle_()
    assert bundle["image/svg+xml"] == picture.svg
    assert bundle["text/plain"] == str(picture)
    assert " ".join(str(picture).split()) == " ".join(f"{picture.title} {picture.description}".split())
    assert picture.svg.removesuffix("</svg>") in bundle["text/html"]
    assert "<figure" in picture.html
    assert picture.svg.removesuffix("</svg>") in picture.html


def test_a_page_that_drops_svg_and_styles_keeps_an_image() -> None:
    picture = show.number_bits("e4m3", 0x3D)
    page = picture.portable_html
    encoded = re.search(r'src="data:image/svg\+xml;base64,([^"]*)"', page)
    assert encoded is not None
    assert base64.b64decode(encoded.group(1)).decode() == picture.svg
    assert f'<div class="{picture.key}-live" hidden="hidden">' in page
    assert f"<style>.{picture.key}-live[hidden]{{display:block!important}}" in page


def test_save_writes_the_document(tmp_path: object) -> None:
    picture = show.number_bits("e4m3", 0x3D)
    target = f"{tmp_path}/bits.svg"
    picture.save(target)
    with open(target, encoding="utf-8") as file:  # noqa: PTH123 - a text path is accepted as well
        assert file.read() == picture.svg


# ---------------------------------------------------------------------------------------------- colours


def contrast(first: str, second: str) -> float:
    """WCAG's contrast ratio, from 1 to 21, of two colours given as #rrggbb; text needs 4.5."""
    brighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
@rows("ink, surface", itertools.product(INKS, SURFACES))
def test_text_can_be_read_on_every_surface(theme: str, ink: str, surface: str) -> None:
    ratio = contrast(getattr(INKS[ink], theme), getattr(SURFACES[surface], theme))
    assert ratio >= 4.5, f"{ink} on {surface} in the {theme} theme: {ratio:.2f}"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_borders_and_marks_stand_out_from_the_paper(theme: str) -> None:
    paper = getattr(ROLES["paper"], theme)
    assert contrast(getattr(ROLES["line"], theme), paper) >= 3
    assert contrast(getattr(ROLES["cut"], theme), paper) >= 3


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert contrast("#ffffff", "#777777") == contrast("#777777", "#ffffff")


# ---------------------------------------------------------------------------------------------- bits


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_a_picture_of_its_bits(name: str) -> None:
    form = FORMATS[name]
    for pattern in {0, 1, form.largest_pattern, (1 << form.container) - 1, form.nan_bits or 0, form.infinity_bits or 0}:
        picture = show.number_bits(form, pattern)
        digits = [
            text.text for text in _texts(picture) if text.text in ("0", "1") and "m" in text.get("class", "").split()
        ]
        assert "".join(digits[: form.container]) == f"{pattern:0{form.container}b}"
        assert value(form.decode(pattern).item()) in picture.title
        assert "= =" not in picture.description


@pytest.mark.parametrize(
    ("name", "pattern", "words"),
    [
        ("e4m3", 0x7F, "the only pattern that e4m3 uses for it"),
        ("e4m3", 0x7E, "e4m3 has no infinity, so an exponent field of all ones means numbers too"),
        ("e5m2", 0x7C, "infinity: an exponent field of all ones with a mantissa of 0"),
        ("e5m2", 0x7D, "NaN: an exponent field of all ones with a mantissa that is not 0"),
        ("e2m1", 0x7, "e2m1 has neither infinity nor NaN"),
        ("e4m3", 0x01, "subnormal: the exponent field is 0, so there is no leading 1"),
        ("ue8m0", 127, "no zero"),
        ("s8", 0x80, "two's complement: the highest bit has the weight −2⁷; from −128 to 127"),
        ("u4", 0xF, "unsigned: from 0 to 15"),
        ("s8", 0x00, "value = 0. two's complement"),
        ("s8", 0x80, "value = −128. two's complement"),
        ("s8", 0xB3, "value = −128 + 32 + 16 + 2 + 1 = −77. two's complement"),
        ("b1", 1, "value = 1. one bit"),
        ("tf32", 0x3F801FFF, "padding 1111111111111, ignored by the hardware"),
    ],
)
def test_the_picture_of_bits_says_why(name: str, pattern: int, words: str) -> None:
    assert words in show.number_bits(name, pattern).description


@pytest.mark.parametrize("pattern", [-1, 256])
def test_a_pattern_that_does_not_fit_is_refused(pattern: int) -> None:
    with pytest.raises(TcemuError, match="e4m3 patterns have 8 bits, 0 to 0xff"):
        show.number_bits("e4m3", pattern)


# ---------------------------------------------------------------------------------------------- number lines


@pytest.mark.parametrize("name", ["e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "ue4m3"])
def test_every_positive_value_is_a_tick(name: str) -> None:
    form = FORMATS[name]
    root = ET.fromstring(show.number_lines([name]).svg)  # noqa: S314 - our own text
    ticks = "".join(path.get("d", "") for path in root.iter(f"{SVG}path"))
    positive = [code for code in form.codes().tolist() if 0 < form.decode(code).item() < float("inf")]
    assert ticks.count("M") == len(positive)


def test_number_lines_say_where_a_format_ends() -> None:
    words = show.number_lines(["e2m1", "e4m3", "e5m2"]).description
    assert "e4m3: smallest subnormal 2⁻⁹, smallest normal 2⁻⁶" in words
    assert "largest 448, then NaN" in words
    assert "largest 57344, then infinity and NaN" in words
    assert "largest 6, then nothing" in words


@pytest.mark.parametrize("draw", [show.number_lines, show.number_ranges])
@pytest.mark.parametrize("names", [[], ["s8"], ["e4m3", "b1"]])
def test_only_floats_have_a_number_line(draw: Callable[[list[str]], Picture], names: list[str]) -> None:
    with pytest.raises(TcemuError, match="float formats; got"):
        draw(names)


# ---------------------------------------------------------------------------------------------- rounding


@pytest.mark.parametrize("name", ["e2m1", "e4m3", "e5m2", "f16", "bf16", "f32"])
@pytest.mark.parametrize("number", [1.3, -1.3, 0.0, 2.75, -0.0117, 5.999])
def test_rounding_tells_what_the_codec_does(name: str, number: float) -> None:
    form = FORMATS[name]
    words = show.rounding(name, number).description
    for mode in ("rn", "rna", "rz", "rm", "rp"):
        result = value(form.decode(form.encode(number, mode)).item())
        assert re.search(rf"{mode} \([^)]*\) gives {re.escape(result)}[;.]", words)


#: What ptxas 13.0 accepts as cvt.MODE.FORMAT, with .satfinite where it must be, on sm_100a.
CVT = {
    "f16": ".rn, .rz, .rm and .rp", "bf16": ".rn, .rz, .rm and .rp", "tf32": ".rn, .rna and .rz", "e5m2": ".rn",
    "e4m3": ".rn", "e3m2": ".rn", "e2m3": ".rn", "e2m1": ".rn", "ue8m0": ".rz and .rp",
}  # fmt: skip


@pytest.mark.parametrize("name", CVT)
def test_rounding_says_which_of_them_the_hardware_offers(name: str) -> None:
    picture = show.rounding(name, 1.3)
    assert f"PTX's cvt to {name} offers {CVT[name]} (bold);" in picture.description
    bold = [text.text for text in _texts(picture) if text.get("class") == "m b" and (text.text or "").startswith(".")]
    assert set(bold) == set(re.findall(r"\.r\w+", CVT[name]))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 448.0, -1e9])
def test_rounding_is_drawn_between_two_finite_numbers(number: float) -> None:
    with pytest.raises(TcemuError, match="than the largest e4m3, 448"):
        show.rounding("e4m3", number)


# ---------------------------------------------------------------------------------------------- changes


def test_exactly_the_changed_elements_are_marked() -> None:
    after = MATRIX.copy()
    after[3, 5], after[0, 0] = np.nan, -0.0
    picture = show.changes(MATRIX, after, cause="bit 3")
    assert picture.title == "2 of 128 elements of D changed: bit 3"
    assert "row 0, column 0: 0 (0x00000000) became −0 (0x80000000)." in picture.description
    assert "row 3, column 5: 29 (0x41e80000) became NaN (0x7fc00000)." in picture.description
    boxes = "".join(path.get("d", "") for path in _elements(picture, "path") if path.get("class") == "x")
    assert re.findall(r"M(\d+) (\d+)", boxes) == [("44", "62"), (str(44 + 5 * 62), str(62 + 3 * 24))]
    assert "hatched: the bits changed" in [text.text for text in _texts(picture)]


def test_where_most_elements_changed_all_of_them_are_drawn_before_and_after() -> None:
    before, after = np.arange(4, dtype=np.float32).reshape(2, 2), np.array([[7, 8], [9, 3]], np.float32)
    texts = [text.text for text in _texts(show.changes(before, after))]
    assert [text for text in texts if text in ("before", "after")] == ["after", "before"]
    assert sorted(text for text in texts if text and text.isdigit()) == sorted("01237893" + 4 * "1"), "and numbers"


WRONG, RIGHT = [["5", "6", "7"]], [["5", "0", "1"]]


@pytest.mark.parametrize(
    ("right", "texts", "words"),
    [
        (None, [], "Wrong: row 0, column 1: 6; row 0, column 2: 7."),
        (RIGHT, ["got", "expected"], "Wrong: row 0, column 1: 6, expected 0; row 0, column 2: 7, expected 1."),
    ],
)
def test_got_stands_beside_expected(right: list[list[str]] | None, texts: list[str], words: str) -> None:
    picture = show.marked(WRONG, [[False, True, True]], right=right)
    there = [text.text for text in _texts(picture)]
    assert [text for text in there if text in ("got", "expected")] == texts
    assert "hatched: wrong" in there
    assert picture.description == words


def test_exponents_are_raised_digits() -> None:
    drawn = show.picture.picture("t", "d", 9, 9, [show.svg.text(0, 0, "2⁻¹⁵⁷ < 1 & 10⁷")])
    (text,) = _texts(drawn)
    assert [part.text for part in text] == ["−157", "\N{ZERO WIDTH SPACE}", "7"], "and what follows is lowered again"
    assert "".join(text.itertext()).replace("\N{ZERO WIDTH SPACE}", "") == "2−157 < 1 & 107"


@pytest.mark.parametrize(("content", "style"), [("W" * 40, "m"), ("a legend of forty letters, and some more", "s")])
def test_a_picture_is_as_wide_as_its_longest_line(content: str, style: str) -> None:
    def wide(anchor: str) -> float:
        drawn = show.picture.picture("t", "d", 99, 9, [show.svg.text(20, 9, content, style, anchor)])
        return float(ET.fromstring(drawn.svg).attrib["width"])  # noqa: S314 - our own

    assert wide("start") > 20 + 5 * len(content)
    assert wide("end") == 99, "it goes to the left"


@pytest.mark.parametrize(("columns", "below"), [(8, False), (16, True)])
def test_the_list_of_changes_is_below_a_wide_matrix(columns: int, below: bool) -> None:
    before = np.zeros((4, columns), np.float32)
    drawn = show.changes(before, before + np.eye(4, columns, dtype=np.float32))
    heights = {text.text: float(text.attrib["y"]) for text in _texts(drawn)}
    assert (heights["row 0, column 0"] > heights["hatched: the bits changed"]) == below
    assert float(ET.fromstring(drawn.svg).attrib["width"]) < 1100  # noqa: S314 - our own


def test_changes_refuses_what_cannot_be_compared() -> None:
    with pytest.raises(TcemuError, match=r"got \(16, 8\) and \(16, 7\)"):
        show.changes(MATRIX, MATRIX[:, :7])
    with pytest.raises(TcemuError, match="D after: expected an array of dtype float32"):
        show.changes(MATRIX, MATRIX.astype(np.float64))


# ---------------------------------------------------------------------------------------------- a fused sum


def test_a_fused_sum_cuts_what_lies_below_the_largest_exponent() -> None:
    words = show.fused_sum(_steps(1.0, *[2.0**-26] * 8)).description
    assert "a7 · b7: 2⁻²⁶, exponent −26, cut to 0." in words
    assert words.endswith("becomes the f32 1 (0x3f800000).")


def test_a_fused_sum_keeps_what_lies_above_the_cut() -> None:
    assert show.fused_sum(_steps(1.0, *[2.0**-25] * 8)).description.endswith("≈ 1.00000023842 (0x3f800002).")


def test_truncation_is_toward_zero_on_both_sides() -> None:
    plus, minus = (show.fused_sum(_steps(8.0, sign * 3 * 2.0**-23)).description for sign in (1, -1))
    assert "a0 · b0: ≈ 3.57627868652 × 10⁻⁷, exponent −22, cut to 2⁻²²." in plus
    assert "a0 · b0: ≈ −3.57627868652 × 10⁻⁷, exponent −22, cut to −2⁻²²." in minus


def test_the_floor_of_the_exponent_counts() -> None:
    form = lookup("f32")
    factor, zero = unpack(form, form.encode(2.0**-70).item()), unpack(form, 0)
    picture = show.fused_sum(fused_sum(FusedSums(25, None, -133), [(0, factor, factor)], zero, form))
    assert "largest exponent −133" in picture.title
    assert "a0 · b0: 2⁻¹⁴⁰, exponent −140, unchanged" in picture.description


def test_zeros_are_left_out_and_counted() -> None:
    picture = show.fused_sum(_steps(1.0, 0.0, 0.0, 2.0))
    assert "2 zero terms left out" in picture.svg
    assert "a0 ·" not in picture.svg


def test_a_sum_of_zero_has_no_bits() -> None:
    assert show.fused_sum(_steps(1.0, -1.0)).description.endswith("Their sum 0 becomes the f32 0 (0x00000000).")


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ((0.0, 0.0), "0 terms that are not zero"),
        ((float("inf"), 1.0), "an infinite term"),
        ((float("nan"),), "c is NaN"),
    ],
)
def test_a_sum_without_terms_to_align_is_refused(terms: tuple[float, ...], words: str) -> None:
    with pytest.raises(TcemuError, match=words):
        show.fused_sum(_steps(*terms))


# ---------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1.5, "1.5"),
        (-2.0, "−2"),
        (float("inf"), "+∞"),
        (float("nan"), "NaN"),
        (-7, "−7"),
        (2.0**-40, "≈ 9.09494702 × 10⁻¹³"),
    ],
)
def test_numbers_in_words(number: float, words: str) -> None:
    assert value(number) == words


def test_compact_numbers_fit() -> None:
    numbers = np.random.default_rng(7).normal(size=400) * 10.0 ** np.arange(-200, 200)
    assert max(len(compact(number)) for number in numbers) <= 8


def _texts(picture: Picture) -> list[ET.Element]:
    return _elements(picture, "text")


def _elements(picture: Picture, tag: str) -> list[ET.Element]:
    return list(ET.fromstring(picture.svg).iter(f"{SVG}{tag}"))  # noqa: S314 - our own text

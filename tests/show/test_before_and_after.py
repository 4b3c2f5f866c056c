"""The numbers of a row before and after, histograms of numbers, and sliders that recompute both."""

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import tcemu
from tcemu import microscaling, show, sparse
from tcemu.errors import TcemuError
from tcemu.show import widgets

SVG = "{http://www.w3.org/2000/svg}"
ROW = [0.5, -2.0, 1.5, 1.0, 3.0, 0.25, -0.5, 0.75]
SPARSE = tcemu.parse("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32")
SCALED = tcemu.parse("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0")


def _bars(picture: show.Picture, style: str) -> list[tuple[float, float]]:
    """Top and height of the bars of a style, without the key."""
    found = [rect for rect in ET.fromstring(picture.svg).iter(f"{SVG}rect") if rect.get("class") == style]  # noqa: S314
    return [(float(rect.get("y", 0)), float(rect.get("height", 0))) for rect in found if float(rect.get("y", 0)) > 40]


def test_heights_are_proportional_to_the_numbers() -> None:
    picture = show.before_and_after([1.0, 2.0, -1.0], [0.5, 2.0, -1.0], 3)
    (_, one), (top, two), (zero, minus) = _bars(picture, "k")
    assert two == pytest.approx(2 * one, abs=0.02)
    assert minus == pytest.approx(one, abs=0.02)
    assert zero == pytest.approx(top + two, abs=0.02)
    assert _bars(picture, "fb")[0][1] == pytest.approx(one / 2, abs=0.02)


def test_it_says_what_became_of_each_number() -> None:
    picture = show.before_and_after(ROW, sparse.prune(ROW, "2:4"), 4, ["chunk 0", "chunk 1"])
    assert picture.title == "4 of 8 numbers became zero, none of the others changed"
    assert "3: 1 became 0" in picture.description
    assert picture.description.endswith("Blocks: chunk 0; chunk 1.")
    assert show.before_and_after([1.0], [1.0], 1).description == "Every number is unchanged."


@pytest.mark.parametrize(
    ("before", "after", "block", "words"),
    [
        ([1.0], [1.0, 2.0], 1, "two rows of at most 64 numbers"),
        (np.ones(65), np.ones(65), 1, "at most 64"),
        ([1.0], [1.0], 2, "blocks of 2"),
        ([np.nan], [1.0], 1, "only finite numbers; `before` has others"),
    ],
)
def test_what_it_cannot_draw_is_refused(before, after, block, words) -> None:
    with pytest.raises(TcemuError, match=re.escape(words)):
        show.before_and_after(before, after, block)


def test_a_histogram_counts_what_is_inside_and_what_is_not() -> None:
    picture = show.histograms({"a": [0.05, 0.15, 0.15, 7.0, np.nan], "b": [0.5]}, 0, 1, 10)
    assert picture.description.startswith("a: 5 numbers, mean 1.837, 2 outside; most are from 0.1 to 0.2.")
    assert min(height for _, height in _bars(picture, "fb")) == pytest.approx(36)  # half of the largest


@pytest.mark.parametrize(
    ("rows", "low", "high", "bins", "words"),
    [
        ({}, 0, 1, 5, "one to six arrays"),
        ({"a": [1.0]}, 1, 1, 5, "to a larger one"),
        ({"a": [1.0]}, 0, 1, 1, "in 2 to 120 bins"),
        ({"a": [np.nan]}, 0, 1, 5, "no finite number in 'a'"),
    ],
)
def test_histograms_that_cannot_be_drawn_are_refused(rows, low, high, bins, words) -> None:
    with pytest.raises(TcemuError, match=words):
        show.histograms(rows, low, high, bins)


# ---------------------------------------------------------------------------------------------- sliders


def test_another_element_is_pruned_anew() -> None:
    ways = {"2:4": (lambda row: sparse.prune(row, "2:4"), 4), "1:2": (lambda row: sparse.prune(row, "1:2"), 2)}
    explorer = widgets.change_one_element(ROW, ways, high=4, column=5, value=0.25)
    assert explorer.picture == show.before_and_after(ROW, [0, -2, 1.5, 0, 3, 0, 0, 0.75], 4)
    changed = [*ROW[:5], 2.0, *ROW[6:]]
    assert explorer.set(value=2) == show.before_and_after(changed, [0, -2, 1.5, 0, 3, 2, 0, 0], 4)
    assert explorer.set(way="1:2") == show.before_and_after(changed, [0, -2, 1.5, 0, 3, 0, 0, 0.75], 2)
    assert "4–5" in explorer.picture.svg, "a block says which numbers are in it"
    with pytest.raises(TcemuError, match="there are way, column and value"):
        widgets.change_one_element(ROW, ways, place=1)


def test_metadata_of_lanes_that_the_selector_leaves_out_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    values, metadata = sparse.compress(sparse.prune(rng.normal(size=(16, 32)).astype(np.float16), SPARSE), SPARSE)
    a = SPARSE.fragments["a"].pack(values)
    b, c = SPARSE.fragments["b"].pack(rng.normal(size=(32, 8)).astype(np.float16)), np.zeros((32, 4), np.uint32)
    explorer = widgets.change_metadata(SPARSE, a, b, c, metadata)
    for lane in range(32):
        now = int(metadata[lane]) & 15
        code = next(code for code in ("0b0100", "0b1110") if int(code, 2) != now)
        told = explorer.set(lane=lane, code=code).title
        changes = "8 of 128" if lane % 4 < 2 else "None of 128"  # one row of D
        assert told == f"{changes} elements of D changed: bits 3:0 of lane {lane} are {code[2:]}"


def test_ids_choose_the_scales() -> None:
    matrices = {"a": np.ones((16, 32)), "b": np.ones((32, 8))}
    operands = [
        SCALED.fragments[role].pack(microscaling.quantise(matrix, "mxfp8_e4m3", axis)[0])
        for (role, matrix), axis in zip(matrices.items(), (-1, -2), strict=True)
    ]
    operands.append(np.zeros((32, 4), np.uint32))
    same = np.full(32, 0x7F7F7F80, np.uint32)  # byte 0 is 2, the others are 1
    explorer = widgets.choose_scales(SCALED, operands, same, same)
    assert explorer.picture.title.startswith("None of 128")
    assert explorer.set(thread_a=1, thread_b=3).title.startswith("None of 128")
    assert explorer.set(byte_a=2).title.startswith("128 of 128")
    with pytest.raises(TcemuError, match="whole numbers from 0 to 1"):
        explorer.set(thread_a=2)
    with pytest.raises(TcemuError, match="no scales"):
        widgets.choose_scales(SPARSE, operands, same, same)


def test_a_refusal_is_the_error_as_text() -> None:
    refused = show.refusal(tcemu.parse, "mma.sync.aligned.m16n8k16.row.col.f32.f32.f32.f32")
    assert refused.kind == "IllegalInstruction"
    assert str(refused).startswith("IllegalInstruction: ")
    report = show.Refusal("UndefinedBehaviour", "error of a rule\n  what: lane 0\n  fix: Add a barrier.")
    assert str(report).splitlines()[1:] == ["  what: lane 0", "  fix: Add a barrier."]
    assert "white-space:pre-line" in report._repr_html_()
    with pytest.raises(TcemuError, match="not rejected"):
        show.refusal(tcemu.parse, str(SPARSE))

"""Probes, loads of wmma, outcomes of kernels and refusals: what the pictures say is what the instruction does."""

import re

import numpy as np
import pytest

import tcemu
from tcemu import show
from tcemu.errors import OperandError
from tcemu.show import widgets

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
LOAD = "wmma.load.a.sync.aligned.row.m16n16k16.f16"


def lanes(picture):
    """The lanes that a probe's words name, with their places."""
    said = picture.description.partition(": ")[2].removesuffix(".")
    return {int(lane): places.split(", ") for lane, places in re.findall(r"lane (\d+): ([^;]+)", said)}


@pytest.mark.slow
@pytest.mark.parametrize(("lane", "register"), [(0, 0), (13, 2), (31, 3), (6, 1)])
def test_a_one_in_a_reaches_its_row(lane, register):
    """The manual's groupID is lane / 4, and odd registers of A are eight rows below (PTX ISA 9.7.14.5.8)."""
    group, half = lane // 4, 2 * (register % 2)
    expected = {4 * group + t: [f"d{half}", f"d{half + 1}"] for t in range(4)}
    assert lanes(show.probe(MMA, "a", lane, register)) == expected


def test_a_one_in_b_reaches_its_column():
    """B's column is groupID; D's column is 2 threadID_in_group, or one more (PTX ISA 9.7.14.5.8)."""
    found = lanes(show.probe(MMA, "b", lane=13, register=1))  # column 3
    assert found == {4 * group + 1: ["d1", "d3"] for group in range(8)}


def test_partners_have_the_same_k():
    """Column and row of b1 are those of a2 and a3: k = 2 t + 8, or one more in the high half."""
    found = lanes(show.probe(MMA, "a", lane=13, register=2, element=1, answers="partner"))
    assert found == {4 * group + 1: ["b1.hi"] for group in range(8)}


def test_a_probe_that_is_not_possible_is_refused():
    for wrong in ({"operand": "c"}, {"lane": 32}, {"register": 4}, {"element": 2}, {"answers": "all"}):
        with pytest.raises(OperandError):
            show.probe(MMA, **wrong)
    with pytest.raises(OperandError, match="A, B, C and D in registers"):
        show.probe("ldmatrix.sync.aligned.m8n8.x4.shared.b16")


@pytest.mark.slow
def test_sliders_of_a_probe_stay_within_the_operand():
    probe = widgets.probe_one_element(MMA, lane=13, register=3)
    assert probe.picture == show.probe(MMA, "a", 13, 3)
    assert probe.at(operand="b").values["register"] == 1
    with pytest.raises(OperandError):
        widgets.probe_one_element(MMA, lane=32)


@pytest.mark.parametrize(("first", "stride"), [(0, 48), (784, 48), (784, 16), (1152, 48)])
def test_a_load_reads_what_pointer_and_stride_say(first, stride):
    picture = show.loaded(LOAD, 32, 48, first, stride)
    expected = {first + stride * row + column for row in range(16) for column in range(16)}
    inside = {each for each in expected if each < 32 * 48}
    runs = re.findall(r"row (\d+), columns (\d+) to (\d+)", picture.description)
    assert {48 * int(r) + c for r, a, b in runs for c in range(int(a), int(b) + 1)} == inside
    assert ("beyond" in picture.title) == (inside != expected) == ("hatched: beyond the matrix" in picture.svg)
    boxes = list(re.findall(r'<rect x="40" y="([0-9.]+)" width="240" height="11"', picture.svg))
    assert len(boxes) == len({each // 48 for each in expected - inside}), "a box for each line behind the matrix"


def test_a_columns_load_reads_columns():
    picture = show.loaded("wmma.load.b.sync.aligned.col.m16n16k16.f16", 32, 48, 0, 48)
    assert picture.title.endswith("16 columns of 16 elements")


def test_strides_are_a_list_and_the_pointer_a_slider():
    tile = widgets.tile_that_is_loaded(LOAD, 32, 48, first=16)
    assert tile.values == {"first": 16, "ldm": "48"}
    assert tile.at(ldm="32").picture == show.loaded(LOAD, 32, 48, 16, 32)
    with pytest.raises(OperandError, match="64 rows and columns"):
        show.loaded(LOAD, 65, 48)


def reverse(warp, out, barrier):
    warp.st_shared(4 * warp.threads, warp.threads)
    if barrier:
        warp.bar_sync()
    warp.st_global(out.at(warp.threads // 16, warp.threads % 16), warp.ld_shared(4 * (63 - warp.threads)))


def test_an_outcome_marks_what_is_wrong():
    right = np.arange(63, -1, -1, dtype=np.uint32).reshape(4, 16)
    out = np.zeros((4, 16), np.uint32)
    with_barrier = widgets.outcome_of_a_kernel(lambda warp, out: reverse(warp, out, True), (out,), right,
                                               block=64, shared=256)  # fmt: skip
    without = widgets.outcome_of_a_kernel(lambda warp, out: reverse(warp, out, False), (out,), right,
                                          block=64, shared=256)  # fmt: skip
    assert {with_barrier.at(seed=seed).picture.description for seed in range(8)} == {"No value is wrong."}
    assert any("Wrong" in without.at(seed=seed).picture.description for seed in range(8))
    assert not out.any()


def test_a_map_by_target_is_the_targets():
    """m8n32k16 of integers: Turing keeps pairs of a row, later chips pairs of a column (wmma_fragments of ptxas)."""
    sums = widgets.fragment_by_target("wmma.load.c.sync.aligned.row.m8n32k16.s32", lane=5)
    assert "c0 = row 2 column 1, c1 = row 3 column 1" in sums.picture.description
    turing = sums.at(target="sm_75").picture
    assert turing.title.endswith("on sm_75")
    assert "c0 = row 1 column 2, c1 = row 1 column 3" in turing.description
    assert "sm_70" not in sums._controls["target"].options  # integers need sm_72


def test_a_refusal_is_text():
    refused = show.refusal(tcemu.parse, "mma.sync.aligned.m16n8k17.row.col.f32.f16.f16.f32")
    assert refused.kind == "IllegalInstruction"
    assert str(refused).startswith("IllegalInstruction: ")
    assert "m16n8k16" in str(refused)
    assert "<strong>IllegalInstruction</strong>" in refused._repr_html_()
    with pytest.raises(OperandError, match="not rejected"):
        show.refusal(tcemu.parse, MMA)

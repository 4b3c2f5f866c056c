"""Pictures of tcgen05: bits of the instruction descriptor, scale factors, allocations, as the manual has them."""

import re

import pytest
from rows import rows

import tcemu
from tcemu import show
from tcemu.errors import LayoutError, OperandError
from tcemu.layouts import instruction_descriptor
from tcemu.machine import events


@rows(
    "bits kind ws parts",
    [
        (0x08100010, "f16", False, ["bits 28 to 24: M / 16 = 8, M = 128", "bits 22 to 17: N / 8 = 8, N = 64",
                                    "bits 5 to 4: type of D: f32 (1)", "bits 9 to 7: type of A: f16 (0)"]),
        (0x08100010, "f16", True, ["bits 31 to 30: B may be shifted: 0"]),
        (instruction_descriptor(256, 128, kind="mxf4nvf4", scale_type="ue8m0", sfa_id=2), "mxf4nvf4", False,
         ["bits 28 to 27: M / 128 = 2, M = 256", "bits 30 to 29: scale ID of A: 2",
          "bit 23: type of scales: ue8m0 (1)"]),
    ],
)  # fmt: skip
def test_each_field_says_what_it_is(bits, kind, ws, parts):
    drawn = show.instruction_descriptor(bits, kind, ws=ws)
    for part in parts:
        assert part in drawn.description
    boxes = re.findall(r'class="m( b)?[^"]*"[^>]*>([01])<', drawn.svg)
    assert int("".join(digit for _, digit in boxes), 2) == bits


def test_bits_that_are_no_descriptor_are_refused():
    with pytest.raises(LayoutError, match="bit 23"):
        show.instruction_descriptor(0x08100010 | 1 << 23)


@rows("number scales first row", [(128, 1, 3, 0), (128, 4, 0, 127), (256, 2, 2, 200), (8, 1, 0, 7)])
def test_a_scale_is_where_the_manual_has_it(number, scales, first, row):
    """Row m: lane m mod 32 of each quarter, column m div 32, from the byte of the scale ID on."""
    drawn = show.scale_factors_in_tensor_memory(number, scales, row, first)
    lane, column = row % 32, row // 32
    last = f"s {first} to {first + scales - 1}" if scales > 1 else f" {first}"
    others = f"{lane + 32}, {lane + 64} and {lane + 96}"
    assert drawn.title == f"Scales of row {row}: lane {lane}, column {column}, byte{last}, and again in lanes {others}"
    assert len(re.findall(rf">{row}<", drawn.svg)) >= scales


@pytest.mark.parametrize("given", [(7, 1, 0, 0), (128, 3, 0, 0), (128, 4, 0, 1), (128, 1, 128, 0), (128, 2, 0, 3)])
def test_scales_that_there_are_not(given):
    with pytest.raises(LayoutError, match=r"scales: 8 to 256 rows|the row must be one of"):
        show.scale_factors_in_tensor_memory(*given)


def _allocates(warp):
    for count in (256, 128):
        warp.tcgen05_alloc(0, count)
        warp.bar_warp_sync()
        d = int(warp.ld_shared(0)[0, 0])
        warp.nanosleep(20)
        warp.bar_warp_sync()
        warp.tcgen05_dealloc(d, count)


@pytest.mark.parametrize("shared", [64, 150000])
def test_allocations_are_those_of_the_launch(shared):
    """With much shared memory, each block has an SM of its own: more of them are drawn only if columns would meet."""
    heard = []
    tcemu.launch(
        _allocates, grid=3, block=32, shared=shared, target="sm_100a", seed=3, observers=[heard.append], sanitizer="off"
    )
    drawn = show.allocations(heard)
    made = [each for each in heard if isinstance(each, events.TensorAllocated)]
    assert drawn.title.startswith("Tensor Memory: 6 allocations, at most ")
    assert int(re.search(r"at most (\d+)", drawn.title)[1]) <= 512
    for each in made:
        assert f"block {each.block} holds columns {each.start} to {each.start + each.columns - 1}" in drawn.description


def test_events_without_allocations_are_refused():
    with pytest.raises(OperandError, match="none of these events is of"):
        show.allocations([])

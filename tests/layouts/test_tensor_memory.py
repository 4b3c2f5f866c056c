"""The bits that tcgen05 takes, against the tables of the manual (PTX ISA 9.1, 9.7.16.1, 9.7.16.4 and 9.7.16.8.1)."""

import pytest

from tcemu.errors import LayoutError
from tcemu.layouts import (
    Descriptor,
    instruction_descriptor,
    lanes_of_warp,
    tcgen05_descriptor,
    tensor_memory_address,
)

#: Table 40: the swizzling mode in bits 63:61.
MODES = {0: 0, 128: 2, 64: 4, 32: 6}


@pytest.mark.parametrize("swizzle", MODES)
def test_a_tile_is_described_field_by_field_as_the_manual_says(swizzle):
    bits = tcgen05_descriptor(Descriptor(start=0x12340, lbo=0x210, sbo=0x430, swizzle=swizzle))
    assert bits & 0x3FFF == 0x1234
    assert bits >> 16 & 0x3FFF == 0x21
    assert bits >> 32 & 0x3FFF == 0x43
    assert bits >> 46 & 0b111 == 0b001
    assert bits >> 49 & 0b111 == 0
    assert bits >> 52 & 0x1FF == 0
    assert bits >> 61 == MODES[swizzle]


def test_the_base_offset_stays_where_it_is():
    assert tcgen05_descriptor(Descriptor(512, 16, 1024, 128, base_offset=5)) >> 49 & 7 == 5


@pytest.mark.parametrize(
    ("given", "bits"),
    [  # Table 42, kind::f16: D in 5:4, A in 9:7, B in 12:10, transposes 15 and 16, N / 8 from 17, M / 16 from 24
        ({"m": 64, "n": 8}, 1 << 4 | 1 << 17 | 4 << 24),
        ({"m": 128, "n": 256}, 1 << 4 | 32 << 17 | 8 << 24),
        ({"m": 128, "n": 64, "d": "f16"}, 8 << 17 | 8 << 24),
        ({"m": 128, "n": 64, "a": "bf16", "b": "bf16"}, 1 << 4 | 1 << 7 | 1 << 10 | 8 << 17 | 8 << 24),
        ({"m": 64, "n": 64, "transpose_a": True}, 1 << 4 | 1 << 15 | 8 << 17 | 4 << 24),
        ({"m": 64, "n": 64, "transpose_b": True}, 1 << 4 | 1 << 16 | 8 << 17 | 4 << 24),
    ],
)
def test_an_instruction_is_described_as_the_manual_says(given, bits):
    assert instruction_descriptor(**given) == bits


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"m": 100, "n": 64}, "m must be a multiple of 16"),
        ({"m": 64, "n": 512}, "n must be a multiple of 8 up to 504"),
        ({"m": 64, "n": 64, "a": "e4m3"}, "a of kind::f16 must be f16 or bf16"),
        ({"m": "64", "n": 64}, "m must be a whole number"),
    ],
)
def test_what_the_fields_cannot_hold_is_refused(given, says):
    with pytest.raises(LayoutError, match=says):
        instruction_descriptor(**given)


def test_an_address_has_the_lane_above_the_column():
    assert tensor_memory_address(0, 511) == 0x1FF
    assert tensor_memory_address(127, 0) == 0x7F0000
    for lane, column in ((128, 0), (0, 512), (-1, 0)):
        with pytest.raises(LayoutError, match="lanes 0 to 127 and columns 0 to 511"):
            tensor_memory_address(lane, column)


def test_each_warp_of_a_warpgroup_reaches_a_quarter_of_the_lanes():
    quarters = [(0, 31), (32, 63), (64, 95), (96, 127)]
    assert [(lanes_of_warp(warp)[0], lanes_of_warp(warp)[-1]) for warp in range(8)] == 2 * quarters

"""What a descriptor finds in a tile, as a picture, and the sliders around it."""

from itertools import product

import numpy as np
import pytest

import tcemu
from tcemu import show
from tcemu.errors import LayoutError, OperandError
from tcemu.layouts import Descriptor, copy_tile
from tcemu.show import widgets
from tcemu.show.explorers import memory

SWIZZLES, MAJORS = (0, 32, 64, 128), ("K", "MN")
NUMBERS = np.random.default_rng(1)
#: Odd numbers: no product is zero, so that a wrong operand shows.
A = (2 * NUMBERS.integers(-4, 4, (64, 64)) + 1).astype(np.float16)
B = (2 * NUMBERS.integers(-4, 4, (8, 64)) + 1).astype(np.float16)


def tile(swizzle=128, major="K"):
    return Descriptor.for_tile("f16", 64, 64, swizzle=swizzle, major=major)


@pytest.mark.parametrize(("swizzle", "major"), list(product(SWIZZLES, MAJORS)))
def test_the_tile_s_own_descriptor_finds_everything(swizzle, major):
    own = tile(swizzle, major)
    for k in range(0, 64, 16):
        drawn = show.tile_read(own, own.advance("f16", k=k, major=major), "f16", 64, 16, major, at_k=k, of_k=64)
        assert drawn.title == "What the descriptor finds: none of 128 units are wrong"
        assert drawn.description.startswith("Every unit holds the elements that it should.")


def test_a_wrong_lbo_finds_other_rows():
    """Without a swizzle LBO leads from k = 0 to k = 8. 16 bytes per row: an LBO of 32 bytes leads two rows down."""
    drawn = show.tile_read(tile(0), Descriptor(0, 32, 128), "f16", 64, 16, of_k=64)
    assert drawn.title == "What the descriptor finds: 64 of 128 units are wrong"
    assert drawn.description.startswith("Of mn, k: (0, 8) should be there, and (2, 0) is; (8, 8) should be there")
    assert drawn.description.endswith("and 56 more units. start 0, LBO 32, SBO 128, no swizzle (0x0000000800020000)")


def test_what_is_outside_the_tile_is_said():
    drawn = show.tile_read(tile(0), Descriptor(8192, 1024, 128), "f16", 64, 16, of_k=64)
    assert "(0, 0) should be there, and nothing of the tile is" in drawn.description
    assert "A dash: not part of the tile." in drawn.svg


@pytest.mark.parametrize(("mn", "options"), [(12, {}), (64, {"at_k": 56, "of_k": 64}), (64, {"at_k": -16})])
def test_what_cannot_be_drawn_is_refused(mn, options):
    with pytest.raises(LayoutError, match="a tile of whole units"):
        show.tile_read(tile(), tile(), "f16", mn, 16, **options)
    with pytest.raises(LayoutError, match="8 bits or more"):
        show.tile_read(Descriptor(0), Descriptor(0), "b1", 8, 256)


def test_a_range_of_k_can_be_marked_in_shared_memory():
    """Row 1 of the 128-byte swizzle swaps neighbouring units: unit 2 of the row is at 0x80 + 3 * 16."""
    drawn = show.shared_tile(tile(), "f16", 64, 64, at_k=range(16, 32))
    assert "Units with k = 16–31, as mn, k: 0, 16–23 at 0x20" in drawn.description
    assert "1, 16–23 at 0xb0, unit 3 of its line; 1, 24–31 at 0xa0, unit 2 of its line" in drawn.description
    for wrong in (range(16, 72), range(0), range(-1, 3)):
        with pytest.raises(LayoutError, match="at_k"):
            show.shared_tile(tile(), "f16", 64, 64, at_k=wrong)


# ------------------------------------------------------------------------------------------------ sliders


def test_the_fields_of_a_descriptor_change_the_product():
    fields = widgets.descriptor_of_a_tile(A, B, swizzle=0)
    assert fields.values == {"swizzle_field": "none", "start": 0, "lbo": 64, "sbo": 8}
    assert "wgmma with this descriptor: none of 512" in fields.picture.description
    shared = np.zeros(16384, np.uint8)
    columns = Descriptor.for_tile("f16", 8, 64, swizzle=128, start=8192)
    copy_tile(A, shared, tile(0))
    copy_tile(B, shared, columns)
    wgmma = tcemu.parse("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16")
    d = tcemu.run(wgmma, np.zeros((128, 4), np.uint32), Descriptor(0, 128, 128), columns, 0, 1, 1, 0, 0, shared=shared)
    wrong = (wgmma.fragments["d"].unpack(d) != A[:, :16].astype(np.float32) @ B[:, :16].astype(np.float32).T).sum()
    assert wrong
    assert f"wgmma with this descriptor: {wrong} of 512" in fields.set(lbo=8).description
    assert widgets.descriptor_of_a_tile(A, B, swizzle=0, lbo=8).picture == fields.picture


@pytest.mark.parametrize(("swizzle", "major"), list(product(memory._SWIZZLES, MAJORS)))
def test_the_recipes_along_k(swizzle, major):
    """Of the recipes, only the step to the element is always right; 2 k bytes are right inside a line along K."""
    steps = widgets.step_along_k(A, B, swizzle=swizzle, major=major, step=1)
    assert "none of 512" in steps.picture.description
    inside = major == "K" and memory._SWIZZLES[swizzle] > 32
    assert ("none of 512" in steps.set(advance="start + 2 k bytes").description) == inside
    assert "none of 512" not in steps.set(advance="LBO + 2 k bytes").description


def test_an_unknown_control_is_refused():
    for make in (widgets.descriptor_of_a_tile, widgets.step_along_k):
        with pytest.raises(OperandError, match="no control is called 'speed'"):
            make(A, B, speed=3)

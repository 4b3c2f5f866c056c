"""Pictures of Tensor Memory and of tcgen05's descriptor: what they say, and that they follow their sliders."""

import re
from itertools import combinations

import pytest

from tcemu import show
from tcemu.layouts import Descriptor
from tcemu.show import widgets


def test_a_cell_that_another_warp_holds_is_out_of_reach():
    reached, beyond = show.tensor_memory(1, 40, 100), show.tensor_memory(0, 40, 100)
    assert reached.title.endswith("warp 1 can load it")
    assert beyond.title.endswith("warp 0 cannot load it")
    assert "out of reach" in beyond.svg
    assert "out of reach" not in reached.svg
    assert "0x00280064" in reached.title


def test_the_descriptor_names_every_field_and_the_constant():
    drawn = show.descriptor_of_tcgen05(Descriptor(4096, 16, 1024, 64))
    for part in ("start address 0x100, 0x100 × 16 = 4096 bytes", "bits 48 to 46 0b001 0x1", "swizzle 0x4, 64 bytes"):
        assert part in drawn.description


@pytest.mark.parametrize("draw", [show.descriptor, show.descriptor_of_tcgen05])
@pytest.mark.parametrize("swizzle", [0, 128])
def test_labels_of_neighbouring_fields_do_not_touch(draw, swizzle):
    svg = draw(Descriptor(262128, 262128, 262128, swizzle, base_offset=7)).svg
    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="middle"(?: class="b")?>([^<]*)</text>', svg)
    labels = [(float(x), y, 7 * len(words)) for x, y, words in found]
    assert len(labels) >= 9
    for (x, y, width), (other_x, other_y, other_width) in combinations(labels, 2):
        assert y != other_y or abs(x - other_x) >= (width + other_width) / 2 + 4


def test_the_sliders_compute():
    cell = widgets.cell_of_tensor_memory(warp=1, lane=40, column=100)
    assert "0x00280065" in cell.at(column=101).picture.title
    tile = widgets.descriptor_of_two_generations(start=4096)
    assert tile.at(of="wgmma").picture.title == f"Matrix descriptor {Descriptor(4096, 16, 1024, 128).encode():#018x}"
    assert tile.at(sbo=2048).picture.title != tile.picture.title

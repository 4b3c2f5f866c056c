"""Sliders around the pictures. A widget only calls a function that returns a Picture.

Every number can be set by a slider and by a box beside it, by mouse and keyboard. A saved notebook keeps the first
picture, so that it can be read without a kernel. An Explorer is a widget of ipywidgets with a trait for each control;
anywidget is imported when the first one is made.
"""

from tcemu.show.explorers.compressed import (
    change_metadata,
    change_one_element,
    choose_scales,
    metadata_of_a_chunk,
    metadata_of_a_lane,
    scales_of_a_block,
)
from tcemu.show.explorers.explorer import Choice, Explorer, Range
from tcemu.show.explorers.fragments import (
    flip_one_bit,
    fragment_by_target,
    fragment_of_a_form,
    probe_one_element,
    swap_registers,
    tile_that_is_loaded,
    who_holds_what,
)
from tcemu.show.explorers.kernels import (
    order_of_a_kernel,
    outcome_of_a_kernel,
)
from tcemu.show.explorers.memory import (
    address_of_an_element,
    cell_of_tensor_memory,
    conflicts_of_ldmatrix,
    descriptor_of_a_tile,
    descriptor_of_two_generations,
    registers_of_tcgen05_ld,
    row_from_elsewhere,
    step_along_k,
)
from tcemu.show.explorers.numbers import (
    bits_of_a_number,
    end_of_s32,
    pair_of_words,
    rounding_of_a_number,
)
from tcemu.show.explorers.sums import (
    promoted_sum,
    term_of_a_sum,
)

__all__ = [
    "Choice", "Explorer", "Range", "address_of_an_element", "bits_of_a_number", "cell_of_tensor_memory",
    "change_metadata", "change_one_element", "choose_scales", "conflicts_of_ldmatrix", "descriptor_of_a_tile",
    "descriptor_of_two_generations", "end_of_s32", "flip_one_bit", "fragment_by_target", "fragment_of_a_form",
    "metadata_of_a_chunk", "metadata_of_a_lane", "order_of_a_kernel", "outcome_of_a_kernel", "pair_of_words",
    "probe_one_element", "promoted_sum", "registers_of_tcgen05_ld", "rounding_of_a_number", "row_from_elsewhere",
    "scales_of_a_block", "step_along_k", "swap_registers", "term_of_a_sum", "tile_that_is_loaded", "who_holds_what",
]  # fmt: skip

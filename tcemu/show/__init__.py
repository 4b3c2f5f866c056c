"""Pictures: pure functions of data that return a Picture. tcemu.show.widgets puts sliders around them."""

from tcemu.show.alignment import fused_sum, fused_sum_of, fused_sums_of
from tcemu.show.allocations import allocations
from tcemu.show.banks import banks, padded_tile
from tcemu.show.bits import descriptor, descriptor_of_tcgen05, number_bits, popcount, register_bits
from tcemu.show.fragment_map import fragment_map
from tcemu.show.hardware import tensor_memory, where_it_sits
from tcemu.show.hazards import hazards
from tcemu.show.instruction_bits import instruction_descriptor
from tcemu.show.matrices import changes, loaded, marked
from tcemu.show.mma_map import mma_map
from tcemu.show.number_lines import end_of_s32, number_lines, number_ranges, rounding
from tcemu.show.outputs import ElementSums, element_sums, one_output
from tcemu.show.picture import Picture
from tcemu.show.prediction import Prediction, predict
from tcemu.show.probe import probe
from tcemu.show.refusal import Refusal, refusal
from tcemu.show.scale_factors import scale_factors_in_tensor_memory
from tcemu.show.scales import scales
from tcemu.show.series import before_and_after, histograms, running_error
from tcemu.show.shared_tile import shared_rows, shared_tile
from tcemu.show.sparsity import sparsity
from tcemu.show.tables import Table, arithmetic_table, format_table, legal_table, shape_table, speed_table, target_table
from tcemu.show.tabs import Tabs, tabs
from tcemu.show.tile_read import tile_read
from tcemu.show.timeline import timeline

__all__ = [
    "ElementSums", "Picture", "Prediction", "Refusal", "Table", "Tabs", "allocations", "arithmetic_table", "banks",
    "before_and_after", "changes", "descriptor", "descriptor_of_tcgen05", "element_sums", "end_of_s32",
    "format_table", "fragment_map", "fused_sum", "fused_sum_of", "fused_sums_of", "hazards", "histograms",
    "instruction_descriptor", "legal_table", "loaded", "marked", "mma_map", "number_bits", "number_lines",
    "number_ranges", "one_output", "padded_tile", "popcount", "predict", "probe", "refusal", "register_bits",
    "rounding", "running_error", "scale_factors_in_tensor_memory", "scales", "shape_table", "shared_rows",
    "shared_tile", "sparsity", "speed_table", "tabs", "target_table", "tensor_memory", "tile_read", "timeline",
    "where_it_sits",
]  # fmt: skip

"""Pictures: pure functions of data that return a Picture. tcemu.show.widgets puts sliders around them."""

from tcemu.show.alignment import fused_sum, fused_sum_of, fused_sums_of
from tcemu.show.arithmetic_table import arithmetic_table
from tcemu.show.banks import banks
from tcemu.show.before_and_after import before_and_after
from tcemu.show.bits import number_bits
from tcemu.show.descriptor_bits import descriptor, descriptor_of_tcgen05
from tcemu.show.differences import changes
from tcemu.show.element_sums import ElementSums, element_sums
from tcemu.show.end_of_s32 import end_of_s32
from tcemu.show.fragment_map import fragment_map
from tcemu.show.hazards import hazards
from tcemu.show.histograms import histograms
from tcemu.show.loaded import loaded
from tcemu.show.marked import marked
from tcemu.show.mma_map import mma_map
from tcemu.show.neighbours import rounding
from tcemu.show.number_line import number_lines, number_ranges
from tcemu.show.one_output import one_output
from tcemu.show.padded_tile import padded_tile
from tcemu.show.picture import Picture
from tcemu.show.popcount import popcount
from tcemu.show.prediction import Prediction, predict
from tcemu.show.probe import probe
from tcemu.show.refusal import Refusal, refusal
from tcemu.show.register_bits import register_bits
from tcemu.show.running_error import running_error
from tcemu.show.scales import scales
from tcemu.show.shape_table import legal_table, shape_table, target_table
from tcemu.show.shared_rows import shared_rows
from tcemu.show.shared_tile import shared_tile
from tcemu.show.sparsity import sparsity
from tcemu.show.speed_table import speed_table
from tcemu.show.table import Table, format_table
from tcemu.show.tabs import Tabs, tabs
from tcemu.show.tensor_memory import tensor_memory
from tcemu.show.tile_read import tile_read
from tcemu.show.timeline import timeline
from tcemu.show.where_it_sits import where_it_sits

__all__ = [
    "ElementSums",
    "Picture",
    "Prediction",
    "Refusal",
    "Table",
    "Tabs",
    "arithmetic_table",
    "banks",
    "before_and_after",
    "changes",
    "descriptor",
    "descriptor_of_tcgen05",
    "element_sums",
    "end_of_s32",
    "format_table",
    "fragment_map",
    "fused_sum",
    "fused_sum_of",
    "fused_sums_of",
    "hazards",
    "histograms",
    "legal_table",
    "loaded",
    "marked",
    "mma_map",
    "number_bits",
    "number_lines",
    "number_ranges",
    "one_output",
    "padded_tile",
    "popcount",
    "predict",
    "probe",
    "refusal",
    "register_bits",
    "rounding",
    "running_error",
    "scales",
    "shape_table",
    "shared_rows",
    "shared_tile",
    "sparsity",
    "speed_table",
    "tabs",
    "target_table",
    "tensor_memory",
    "tile_read",
    "timeline",
    "where_it_sits",
]

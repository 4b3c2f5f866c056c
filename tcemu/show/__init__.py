"""Pictures: pure functions of data that return a Picture. tcemu.show.widgets puts sliders around them."""

from tcemu.show.alignment import fused_sum, fused_sum_of, fused_sums_of
from tcemu.show.arithmetic_table import arithmetic_table
from tcemu.show.banks import banks
from tcemu.show.bits import number_bits
from tcemu.show.descriptor_bits import descriptor
from tcemu.show.differences import changes
from tcemu.show.fragment_map import fragment_map, fragment_table
from tcemu.show.hazards import hazards
from tcemu.show.loaded import loaded
from tcemu.show.marked import marked
from tcemu.show.mma_map import mma_map
from tcemu.show.neighbours import rounding
from tcemu.show.number_line import number_lines, number_ranges
from tcemu.show.padded_tile import padded_tile
from tcemu.show.picture import Picture
from tcemu.show.prediction import Prediction, predict
from tcemu.show.probe import probe
from tcemu.show.refusal import Refusal, refusal
from tcemu.show.register_bits import register_bits
from tcemu.show.scales import scales
from tcemu.show.shared_tile import shared_tile
from tcemu.show.sparsity import sparsity
from tcemu.show.table import Table, format_table
from tcemu.show.tensor_box import tensor_box
from tcemu.show.timeline import timeline

__all__ = [
    "Picture",
    "Prediction",
    "Refusal",
    "Table",
    "arithmetic_table",
    "banks",
    "changes",
    "descriptor",
    "format_table",
    "fragment_map",
    "fragment_table",
    "fused_sum",
    "fused_sum_of",
    "fused_sums_of",
    "hazards",
    "loaded",
    "marked",
    "mma_map",
    "number_bits",
    "number_lines",
    "number_ranges",
    "padded_tile",
    "predict",
    "probe",
    "refusal",
    "register_bits",
    "rounding",
    "scales",
    "shared_tile",
    "sparsity",
    "tensor_box",
    "timeline",
]

"""Pictures: pure functions of data that return a Picture. The sliders around them are in tcemu.show.widgets."""

from tcemu.show.alignment import fused_sum
from tcemu.show.bits import number_bits
from tcemu.show.differences import changes
from tcemu.show.fragment_map import fragment_map, fragment_table, mma_map
from tcemu.show.neighbours import rounding
from tcemu.show.number_line import number_lines, number_ranges
from tcemu.show.picture import Picture

__all__ = [
    "Picture",
    "changes",
    "fragment_map",
    "fragment_table",
    "fused_sum",
    "mma_map",
    "number_bits",
    "number_lines",
    "number_ranges",
    "rounding",
]

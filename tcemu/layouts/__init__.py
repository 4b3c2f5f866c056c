"""Fragment layouts as one-line patterns, fragments, tiles in shared memory, and scale factors in blocks.

A fragment is a layout, a number format, and how elements share registers.
"""

from tcemu.layouts.blocked import blocked_offset, from_blocked, order_of_scales, to_blocked
from tcemu.layouts.descriptor import Descriptor
from tcemu.layouts.diagnosis import Fault, diagnose
from tcemu.layouts.fitting import Fit, fit
from tcemu.layouts.fragment import Fragment
from tcemu.layouts.instruction_descriptor import instruction_descriptor
from tcemu.layouts.layout import Layout
from tcemu.layouts.tensor_memory import (
    lanes_of_warp,
    tcgen05_descriptor,
    tensor_memory_address,
)
from tcemu.layouts.tiles import copy_tile, read_tile

__all__ = [
    "Descriptor", "Fault", "Fit", "Fragment", "Layout", "blocked_offset", "copy_tile", "diagnose", "fit",
    "from_blocked", "instruction_descriptor", "lanes_of_warp", "order_of_scales", "read_tile", "tcgen05_descriptor",
    "tensor_memory_address", "to_blocked",
]  # fmt: skip

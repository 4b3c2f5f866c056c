"""Events: what the machine reports to its observers, as it happens.

An observer is a callable that takes one event. The machine reports what happened, in which warp and on which line of
the kernel; observers (the sanitizer, a recorder, a timeline) judge whether it was right. Every event knows its `block`;
events of a warp carry a `by`: block, warp, active lanes and site. Addresses are in bytes: in shared memory from the
start of the block's shared memory, in global memory within the launch's address space. Observers must not change
events.

The modules are the chapters; their names can all be imported from here.
"""

from __future__ import annotations

from tcemu.machine.events.barriers import *  # noqa: F403
from tcemu.machine.events.batches import *  # noqa: F403
from tcemu.machine.events.blocks import *  # noqa: F403
from tcemu.machine.events.copies import *  # noqa: F403
from tcemu.machine.events.grids import *  # noqa: F403
from tcemu.machine.events.memory import *  # noqa: F403
from tcemu.machine.events.origins import *  # noqa: F403
from tcemu.machine.events.tcgen05 import *  # noqa: F403
from tcemu.machine.events.wgmma import *  # noqa: F403

__all__ = ["barriers", "batches", "blocks", "copies", "grids", "memory", "origins", "tcgen05", "wgmma"]  # noqa: F405

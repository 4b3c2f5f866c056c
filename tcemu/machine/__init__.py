"""The machine around the tensor cores: registers, memories, warps, barriers, asynchronous groups and launches.

A kernel is a Python function that the machine calls once for each warp. `launch.py` runs a grid of warps, `warp.py`
is the object that a kernel receives, one module for each chapter of the PTX manual executes its instructions, and
`events.py` lists the events that observers receive.
"""

from tcemu.machine import events
from tcemu.machine.launch import Launch, Parting
from tcemu.machine.warp import Warp

__all__ = ["Launch", "Parting", "Warp", "events"]

"""THE TABLE of ordinary instructions, those of a single thread: spelling, types, meaning, how it is known.

A meaning is written once, over the operators of integers and a few methods, and runs on two backends: arrays of numpy
(`ARRAYS`), and the text of native code for a warp (`tcemu.native.warp`).

>>> from tcemu import alu
>>> add = alu.find("add.rn.f32")
>>> one, two = (alu.ARRAYS.constant(each, 32) for each in (0x3F800000, 0x40000000))
>>> hex(add.meaning(alu.ARRAYS, one, two)[0])
'0x40400000'
"""

from tcemu.alu.arrays import ARRAYS
from tcemu.alu.row import KNOWN, Ordinary, Row
from tcemu.alu.table import find, opcodes, rows

__all__ = ["ARRAYS", "KNOWN", "Ordinary", "Row", "find", "opcodes", "rows"]

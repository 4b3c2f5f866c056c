"""Rules about a kernel's variables: what they hold before anything is assigned to them, and where they end."""

from __future__ import annotations

from tcemu.machine.events import Strayed, Undefined
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.report import lanes_of

#: What an instruction does with a value, by its use.
_DOES = {
    "value": "uses a value that was computed from",
    "kept": "uses a value that was computed from",
    "copied": "stores the value of",
    "address": "has an address that comes from",
    "condition": "depends on a condition that comes from",
}
#: What stores parameters and results.
_PASSED = "a return, or an argument of a call,"
_REMEDY = (
    "Give the variable or array a value where it is declared: float sum = 0; float sums[8] = {}; A loop or a condition "
    "that assigns it must reach each element, in each thread, before it is read. A product of matrices needs something "
    "to add to: wmma::fill_fragment, zeros, or scale-d = 0 in the first wgmma. A pointer to a variable is of no use "
    "once its function has returned."
)
_INSIDE = (
    "Check the index, and the size of the array. What lies beside it in shared memory is another variable, which a "
    "store changes."
)
_COLUMNS = " Compare the address and the columns of tcgen05.ld with those that tcgen05.mma or tcgen05.st writes."


class Variables:
    """The variables of one block."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self.handlers: Handlers = {Undefined: self._used, Strayed: self._strayed}

    def _used(self, event: Undefined) -> None:
        what = "a variable" + " or a cell of Tensor Memory" * event.cells
        user = _PASSED if event.opcode.startswith("st.param") else event.opcode
        message = f"{user} {_DOES[event.use]} {what} to which nothing had been assigned"
        lanes = tuple(lanes_of(event.by.active))
        weight = "warning" if event.use == "copied" else None
        remedy = _REMEDY + _COLUMNS * event.cells
        self._block.report(
            "uninitialised-registers", event.by, message, what=what, lanes=lanes, remedy=remedy, weight=weight
        )

    def _strayed(self, event: Strayed) -> None:
        what = f"{event.variable}, which is bytes {event.first} to {event.end - 1} of shared memory"
        message = f"{event.opcode} has an address that was computed from that of {what}, and lies outside it"
        lanes = tuple(lanes_of(event.by.active))
        self._block.report("out-of-range", event.by, message, what=event.variable, lanes=lanes, remedy=_INSIDE)

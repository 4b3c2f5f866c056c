"""Registers and Tensor Memory: tcgen05.ld, tcgen05.st and tcgen05.wait (PTX ISA 9.1, 9.7.16.8).

Both are asynchronous: a tcgen05.wait of the same thread waits for them. Those of one warp end in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, ArithmeticUnknown, OperandError, briefly, is_whole, span
from tcemu.instructions import Instruction
from tcemu.layouts.tcgen05_ld_st import cells
from tcemu.layouts.tensor_memory import LANES, lanes_of_warp
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import Area, By, Tcgen05, Tcgen05Ended, Tcgen05Issued, Tcgen05Waited
from tcemu.machine.pending import Task
from tcemu.machine.registers import POISON, WARP, Registers
from tcemu.machine.tensor_memory import WHOLE, TensorMemory

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]
Kind = Literal["ld", "st"]


class Unwaited:
    """The tcgen05.ld and tcgen05.st of a block's warps that no wait has covered, with their tasks."""

    def __init__(self, block: Block) -> None:
        self.open: dict[tuple[int, Kind], list[tuple[Task, Tcgen05]]] = {}

    def begin(self, core: Core, kind: Kind, task: Task, operation: Tcgen05) -> None:
        """Begin one; those of a warp are pipelined."""
        self.open.setdefault((core.index, kind), []).append((task, operation))
        core.block.pending.add(task)

    def wait(self, core: Core, kind: Kind) -> tuple[Tcgen05, ...]:
        """End those of a warp."""
        moves = self.open.pop((core.index, kind), [])
        core.block.pending.finish(task for task, _ in moves)
        return tuple(operation for _, operation in moves)


class Cells(NamedTuple):
    """The cells that the registers of a warp hold, (32, n) or (32, n, 2): their lanes and columns, and all of them."""

    lanes: Array
    columns: Array
    area: Area
    #: whether the address left the lane out
    laneless: bool


class _Shape:
    """A shape of tcgen05.ld and tcgen05.st: which cells it moves, seen from an address."""

    def __init__(self, instruction: Instruction) -> None:
        words = instruction.words
        self.instruction, self.shape, self.num = instruction, words["shape"], int(words["num"][1:])
        self.packed = bool(words.get("pack") or words.get("unpack"))
        #: lanes of Tensor Memory that it reaches
        self.reach = 32 if self.shape == "32x32b" else 16
        self.bits = 0xFFFF if self.packed else WHOLE
        self._cells_at: dict[tuple[int, int, int | None, bool], Cells] = {}

    def at(self, core: Core, by: By, operand: Any, split: Any = None) -> Cells:
        """The cells from an address on; the warp may use all of them. Ends the launch if it may not.

        The manual requires lanes of the warp's own quarter. Kernels of front ends may leave the quarter out: DeepGEMM
        gives lane 0 in all warps, and its products on a B200 are right. The sanitizer says so in a hint; for kernels in
        Python it is a fault.
        """
        instruction, memory = self.instruction, core.block.state(TensorMemory)
        if split is not None and (not is_whole(split) or split < 0):
            raise OperandError(
                f"{instruction}: immHalfSplitoff is an immediate, a number of columns; got {briefly(split)}"
            )
        address = operand if type(operand) is int else int(core.integers(instruction, "taddr", operand)[0])
        quarter = int(lanes_of_warp(core.index)[0])
        laneless = core.at is not None and quarter > 0 and address >> 16 < WARP
        if laneless:
            address += quarter << 16
        key = core.block.number, address, split, laneless
        cells = self._cells_at.get(key)
        if cells is None:
            cells = self._cells_at[key] = self._cells(core, address, split, laneless)
        self._check_lanes(core, by, address)
        memory.check(core, by, instruction, cells.area)
        return cells

    def _cells(self, core: Core, address: int, split: int | None, laneless: bool) -> Cells:
        lanes, columns = cells(self.shape, self.num, self.packed, split)
        lanes, columns = lanes + (address >> 16), columns + (address & 0xFFFF)
        area = Area(core.block.number, np.unique(lanes), np.unique(columns), "taddr", self.bits)
        return Cells(lanes, columns, area, laneless)

    def _check_lanes(self, core: Core, by: By, address: int) -> None:
        """A warp reaches its own quarter, and shapes of 16 lanes its first or second half."""
        own, lane = lanes_of_warp(core.index), address >> 16
        if lane in own[:: self.reach]:
            return
        first = " or ".join(str(each) for each in own[:: self.reach])
        whose = f"which warp {lane // 32} of a warpgroup reaches" if lane < LANES else "which does not exist"
        message = (
            f"{self.instruction}: warp {core.index} reaches lanes {span(own[0], own[-1])} of Tensor Memory, so bits "
            f"31:16 of the address must be {first}; got lane {lane}, {whose}. Add lane << 16 to what tcgen05.alloc "
            f"returned (PTX ISA {self.instruction.section})"
        )
        core.fault(by, self.instruction, "tensor", AddressError(message, "quarter", "tensor"))


@executes("tcgen05.ld", "tcgen05.ld.red")
def ld(instruction: Instruction) -> Act:
    """tcgen05.ld (9.7.16.8.3): registers (32, n) from Tensor Memory, which hold the values after tcgen05.wait::ld.

    The registers of a front end hold them at once: compilers move what uses them before the wait, which they do not
    know, and rely on the assembler, which makes each use wait.

    tcgen05.ld.red has one more register, the smallest or largest of those of its lane.
    """
    shape, reduces = _Shape(instruction), instruction.family == "tcgen05.ld.red"
    count = instruction.operands[0].registers

    def parts(registers: Registers) -> Any:
        """What the instruction returns: registers, and the reduced one."""
        bank = registers.bank
        return (bank.view(range(count)), bank.view([count])) if reduces else registers

    def act(core: Core, taddr: Any, split: Any = None) -> Any:
        by = core.begin(instruction)
        if by is None:
            return parts(core.blank(count + reduces))
        cells, memory = shape.at(core, by, taddr, split), core.block.state(TensorMemory)
        own, into = core.into is None, core.into
        registers = into if into is not None else core.adopted(np.full((WARP, count + reduces), POISON, np.uint32))
        operation = Tcgen05("ld", instruction, by, reads=(cells.area,), registers=registers, laneless=cells.laneless)
        registers.begin(veiled=core.block.pending.policy != "early")
        core.tell(Tcgen05Issued, operation)
        least: list[Array] = []

        def end() -> None:
            words, defined = memory.seen((cells.lanes, cells.columns))
            if shape.packed:
                words, defined = _joined(words), _joined(defined)
            missing = defined == 0
            if reduces:
                least.append(_reduced(core, by, instruction, words, missing))
                missing = np.column_stack([missing, missing.any(axis=1)])
            registers.end(np.column_stack([words, *least]) if own and reduces else words)
            core.blind = missing
            if own and missing.any():
                registers.bank.unwritten = missing
                registers.bank.source = (
                    f"{instruction} loaded from {_extent(cells, missing[:, :count])} of Tensor Memory"
                )
            core.tell(Tcgen05Ended, operation)

        task = Task(("tcgen05", core.index), end)
        core.block.state(Unwaited).begin(core, "ld", task, operation)
        if own:
            return parts(registers)
        core.block.pending.finish([task])
        return (registers, *least) if reduces else registers

    return act


def _reduced(core: Core, by: By, instruction: Instruction, words: Array, missing: Array) -> Array:
    """The smallest or largest register of each lane (32,), from registers (32, n); poison where one is undefined.

    How the hardware orders NaNs and zeros of both signs is not known: the launch ends with them.
    """
    kind, largest = instruction.words["type"], instruction.words["op"] == "max"
    values = words.view({"f32": np.float32, "s32": np.int32, "u32": np.uint32}[kind])
    values = np.abs(values) if instruction.words.get("abs") else values
    complete = ~missing.any(axis=1)
    reduced = values.max(axis=1) if largest else values.min(axis=1)
    if kind == "f32":
        signs = np.signbit(values)
        zeros = (reduced == 0) & ((values == 0) & signs).any(axis=1) & ((values == 0) & ~signs).any(axis=1)
        for what, where in (("a NaN", np.isnan(values).any(axis=1)), ("zeros of both signs", zeros)):
            if (where & complete).any():
                lane = int(np.flatnonzero(where & complete)[0])
                message = (
                    f"lane {lane} loads {what}, and which of its values {instruction} then gives has not been published"
                )
                core.grid.fail(ArithmeticUnknown(f"{message} ({by})"))
    return np.where(complete, reduced.view(np.uint32), np.uint32(POISON))


@executes("tcgen05.st")
def st(instruction: Instruction) -> Act:
    """tcgen05.st (9.7.16.8.4): registers (32, n) to Tensor Memory, which holds them after tcgen05.wait::st."""
    shape = _Shape(instruction)
    count = instruction.sources[-1].registers

    def act(core: Core, taddr: Any, *operands: Any) -> None:
        values = operands[-1]
        words = _words(core, instruction, values, count)
        by = core.begin(instruction)
        if by is None:
            return
        cells, memory = shape.at(core, by, taddr, *operands[:-1]), core.block.state(TensorMemory)
        registers = values if isinstance(values, Registers) else None
        operation = Tcgen05("st", instruction, by, writes=(cells.area,), registers=registers, laneless=cells.laneless)
        core.tell(Tcgen05Issued, operation)
        held = np.stack([words & 0xFFFF, words >> 16], axis=2) if shape.packed else words

        def end() -> None:
            memory.write((cells.lanes, cells.columns), held, shape.bits)
            core.tell(Tcgen05Ended, operation)

        core.block.state(Unwaited).begin(core, "st", Task(("tcgen05", core.index), end), operation)

    return act


@executes("tcgen05.wait")
def wait(instruction: Instruction) -> Act:
    """tcgen05.wait::ld and ::st (9.7.16.8.5): waits for all tcgen05.ld or tcgen05.st of the warp so far."""
    kind: Kind = "ld" if instruction.words["wait"] == "wait::ld" else "st"

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is not None:
            core.tell(Tcgen05Waited, by, kind, core.block.state(Unwaited).wait(core, kind))

    return act


def _extent(cells: Cells, chosen: Array) -> str:
    """``lanes 16 to 31 and columns 0 to 7``: the cells of some registers, bool (32, n)."""
    lanes, columns = cells.lanes[chosen], cells.columns[chosen]
    spans = [span(int(each.min()), int(each.max())) for each in (lanes, columns)]
    return f"lanes {spans[0]} and columns {spans[1]}"


def _joined(halves: Array) -> Array:
    """Registers from the low halves of two cells each, (32, n, 2)."""
    low = halves & np.uint32(0xFFFF)
    return np.asarray(low[..., 0] | low[..., 1] << np.uint32(16))


def _words(core: Core, instruction: Instruction, operand: Any, count: int) -> Array:
    """The registers of st as uint32 (32, n)."""
    array = core.values(operand)
    if array.dtype.kind == "f" and array.dtype.itemsize == 4:
        array = array.view(np.uint32)
    if array.dtype.kind in "iu" and array.shape == (WARP,) and count == 1:
        array = array[:, None]
    if array.dtype.kind not in "iu" or array.shape not in ((), (WARP, count)):
        raise OperandError(
            f"{instruction} takes registers (32, {count}) of uint32, or one number for all; got dtype {array.dtype}, "
            f"shape {array.shape} (PTX ISA {instruction.section})"
        )
    return np.broadcast_to(array, (WARP, count)).astype(np.uint32)

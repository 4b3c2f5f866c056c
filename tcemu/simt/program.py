"""A function that can run: its registers, blocks and operations; and the functions that it calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tcemu.assembly import Function, Immediate, Module, Operand, Register
from tcemu.assembly import Instruction as Text
from tcemu.errors import TcemuError
from tcemu.instructions import Instruction, parse
from tcemu.instructions.elements import order_of
from tcemu.instructions.table import FAMILIES
from tcemu.machine.addresses import BLOCK, SHARED
from tcemu.machine.events import AccessRow, AccessTable, By, Site, Sourced
from tcemu.machine.sites import FrontSite
from tcemu.simt import control, engine, memory, operations, tensor_operands
from tcemu.simt.ahead import guarded
from tcemu.simt.behind import Ways
from tcemu.simt.beside import Beside, blocks_with
from tcemu.simt.blocks import blocks_of
from tcemu.simt.bounds import Bounds
from tcemu.simt.contraction import contract
from tcemu.simt.dataflow import Flow
from tcemu.simt.effects import effects_of
from tcemu.simt.engine import Runner
from tcemu.simt.errors import Unsupported
from tcemu.simt.events import Operation
from tcemu.simt.kept import kept
from tcemu.simt.layout import Layout
from tcemu.simt.lines import Sites
from tcemu.simt.loading import Loading
from tcemu.simt.lowering import ORIGIN, STACKED, WINDOW, Lowering
from tcemu.simt.register_file import Slot
from tcemu.simt.spins import others, spins
from tcemu.simt.steps import Access, Block
from tcemu.simt.stretches import Stretches
from tcemu.simt.swaps import begins_swaps
from tcemu.simt.touches import Touches
from tcemu.simt.unset import Unset

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame

#: The first words of the machine's instructions.
_MACHINE = frozenset(family.mnemonic for family in FAMILIES)
#: The first words of the instructions of textures and surfaces.
_TEXTURES = {"tex", "tld4", "txq", "istypep", "suld", "sust", "sured", "suq"}
#: Families that only ask: if nobody looks at the answer, they do nothing, and need not have waited, either.
_ASKING = ("mbarrier.try_wait", "mbarrier.test_wait")
#: Families that a loop repeats until other lanes have done something.
_POLLS = ("mbarrier.try_wait", "mbarrier.test_wait", "atom", "nanosleep")


class Code:
    """A kernel and the functions that it may call, ready to run.

    `memory` is whether segments access memory themselves: not if the schedule may switch before each access.
    """

    def __init__(self, module: Module, kernel: Function, target: str, memory: bool, fuses: bool = True) -> None:
        """`fuses` is whether products and sums are fused as ptxas does it (`contraction`)."""
        self.module, self.target, self.memory = module, target, memory
        self.layout = Layout.of(module, kernel)
        self.sites = Sites(module)
        texts = {name: begins_swaps(each) for name, each in self.layout.functions.items()}
        texts = {name: guarded(contract(each)[0] if fuses else each) for name, each in texts.items()}
        self.programs = {name: Program(self, each) for name, each in texts.items()}
        self.kernel = self.programs[kernel.name]
        #: the functions by the numbers that stand for their addresses
        self.by_pointer = {number: self.programs[name] for name, number in self.layout.pointers.items()}

    @cached_property
    def keeps_variables(self) -> bool:
        """Whether a function keeps variables in local memory."""
        return any(each.variables_kept for each in self.programs.values())

    def find(self, name: str) -> Program:
        """A function of the module by its name or alias."""
        return self.programs[self.module.aliases.get(name, name)]


class Program:
    """One function of a kernel."""

    def __init__(self, code: Code, function: Function) -> None:
        self.code, self.function, self.layout = code, function, code.layout
        self.lowering = Lowering(function, code.layout, code.memory)
        self.slots, self.local_bytes = self.lowering.slots, self.lowering.local_bytes
        #: its variables in local memory: where they start, and their sizes
        kept = [each for each in function.variables.values() if each.space == "local"]
        self.variables_kept = [(self.lowering.local[each.name], each.size or 0) for each in kept]
        #: the line of each instruction
        self.sites: list[FrontSite] = [code.sites.of(each, function) for each in function.body]
        self.blocks = blocks_of(self.lowering, self._bind, self._place)
        #: the block that each instruction is in, or, where it is alone, is
        self.block_of = _blocks_of_instructions(self.blocks, len(function.body))
        #: the loads and stores of segments, by the number of the instruction
        self.accesses = {step.number: step for block in self.blocks for step in block.steps if isinstance(step, Access)}
        self._window, self._origin, self.stacked = (self.slots.by_name[name] for name in (WINDOW, ORIGIN, STACKED))
        self._mark()

    def _mark(self) -> None:
        """Note at the lines what the analysis of the whole function tells about them."""
        blocks = list(self.blocks)
        waiting = list(spins(self))
        for number in waiting:
            self.sites[number].spins = True
            for place in list(others(self, number, waiting)):  # they get a site of their own for the same line
                operation = blocks[place].operation
                if operation is not None:
                    site = self.sites[operation.number] = copy(self.sites[operation.number])
                    site.spins = False
                    blocks[place] = replace(blocks[place], operation=replace(operation, site=site))
        self.blocks = tuple(blocks)
        for site, store in kept(self).items():
            site.stores = store

    @cached_property
    def counted(self) -> list[list[str]]:
        """The opcodes that each block executes itself; those of operations, the machine counts."""
        ends = [*(block.first for block in self.blocks[1:]), len(self.function.body)]
        return [
            [] if block.operation is not None else [each.opcode for each in self.function.body[block.first : end]]
            for block, end in zip(self.blocks, ends, strict=True)
        ]

    @cached_property
    def table(self) -> AccessTable:
        """The accesses of native code, for observers."""
        return AccessTable({
            number: AccessRow(
                self.sites[number], parse(self.opcode(number), self.code.target), step.space, step.writes, step.size,
                step.count,
            )
            for number, step in self.accesses.items()
            if step.space in ("shared", "global", "generic")
        }, self.sourced)  # fmt: skip

    @cached_property
    def logs(self) -> int:
        """The most bytes of records that going once through all blocks makes."""
        return sum(8 * row.words for row in self.table.rows.values())

    @property
    def last(self) -> Site:
        """The line of the last instruction."""
        return self.sites[-1]

    @cached_property
    def runner(self) -> Runner:
        """Runs a segment."""
        return engine.runner(self.blocks)

    @cached_property
    def ways(self) -> Ways:
        """Where its blocks lead."""
        labels = {label for table in self.function.branch_targets.values() for label in table}
        return Ways(self.blocks, {self.block_of[self.function.labels[each]] for each in labels})

    @cached_property
    def beside(self) -> tuple[Beside, ...]:
        """What is followed beside it: registers that may lack a value, and addresses that may leave their variable."""
        effects = [tuple(effects_of(self, number)) for number in range(len(self.blocks))]
        return tuple(each for each in (kind(self, effects) for kind in (Unset, Loading, Bounds)) if each)

    @cached_property
    def operating(self) -> dict[int, tuple[Beside, ...]]:
        """By block, who of these follows its operation."""
        blocks = range(len(self.blocks))
        found = {at: tuple(each for each in self.beside if at in each.operations) for at in blocks}
        return {at: those for at, those in found.items() if those}

    @cached_property
    def watched_blocks(self) -> tuple[Block, ...]:
        """Its blocks, with the steps of these."""
        return blocks_with(self, self.beside) if self.beside else self.blocks

    @cached_property
    def watched_runner(self) -> Runner:
        """Runs a segment, with these steps."""
        return engine.runner(self.watched_blocks) if self.beside else self.runner

    @property
    def filled(self) -> tuple[Slot, ...]:
        """The registers without a name of the text's that `fill` fills in."""
        return self._window, self._origin, self.stacked

    @cached_property
    def touches(self) -> Touches | None:
        """What it does with registers that wait for the result of a wgmma; None: nothing."""
        return Touches(self) or None

    @cached_property
    def flow(self) -> Flow:
        """Whose results its instructions read."""
        return Flow(self)

    @cached_property
    def stretches(self) -> Stretches:
        """Its ordinary instructions between two others."""
        return Stretches(self)

    def sourced(self, by: By, number: int) -> Sourced:
        """The event that says whose results an instruction reads."""
        since = partial(self.stretches.between, number=number)
        return Sourced(by, self.function.name, number, self.flow.sources.get(number, ()), since)

    def instruction(self, text: Text) -> Instruction | None:
        """The machine's instruction; None if the executor does it."""
        head = text.opcode.partition(".")[0]
        return parse(text.opcode, self.code.target) if head in _MACHINE and head not in control.BINDERS else None

    def opcode(self, number: int) -> str:
        """The opcode of an instruction."""
        return self.function.body[number].opcode

    def _place(self, text: Text) -> str:
        """Where an instruction is, for an error: its line, and that of the PTX text."""
        site = self.code.sites.of(text, self.function)
        where = f"line {text.text_line} of {self.code.module.name}"
        if text.line is None:
            return f"{self.function.short}: {where}"
        called = f", called at {site.inlined[-1]}" if site.inlined else ""
        return f"{self.function.short}: {site}{called} ({where})"

    # ------------------------------------------------------------------------------------------ operations

    def _bind(self, number: int, text: Text, access: Access | None) -> Operation:
        try:
            return self._operation(number, text, access)
        except TcemuError as error:
            raise Unsupported(f"{self._place(text)}: {text.opcode}: {error}") from None

    def _operation(self, number: int, text: Text, access: Access | None = None) -> Operation:
        site, guard = self.sites[number], self.lowering.guard(text)
        if access is not None:
            instruction = parse(text.opcode, self.code.target)
            strong = not access.writes and order_of(instruction).order != "weak"
            return Operation(text.opcode, number, site, guard, memory.operation(access, instruction), polls=strong)
        head = text.opcode.partition(".")[0]
        bind = control.BINDERS.get(head)
        if bind is not None:
            return Operation(text.opcode, number, site, guard, bind(self, number, text))
        if head not in _MACHINE:
            why = "has no textures or surfaces" if head in _TEXTURES else "does not execute this instruction"
            raise Unsupported(f"tcemu {why}")
        instruction = parse(text.opcode, self.code.target)
        tensor_operands.check(instruction, text, self.function.registers, self.code.target)
        if instruction.family.startswith(_ASKING) and self._ignored(text.operands[0]):
            return Operation(text.opcode, number, site, guard, control.nothing(self, number, text))
        act, write = operations.bind(instruction, text, self.lowering)
        polls = instruction.family.startswith(_POLLS)
        barrier = any(each.role == "barrier" for each in instruction.operands)
        members = self._members(instruction, text, barrier)
        return Operation(
            text.opcode, number, site, guard, act, write, members, bool(instruction.membermask), polls, barrier
        )

    def _ignored(self, result: Operand) -> bool:
        """Whether nothing in the function reads a result: its name does not occur again."""
        name = re.compile(rf"(?<![\w$%]){re.escape(str(result))}(?![\w$])")
        return sum(len(name.findall(str(each))) for each in self.function.body) == 1

    def operation_of(self, step: Access) -> Operation:
        """An access as an operation: native code cannot do it for these addresses."""
        return self._operation(step.number, self.function.body[step.number], step)

    def _members(self, instruction: Instruction, text: Text, barrier: bool) -> Callable[[Frame], int] | None:
        """The lanes that must execute an instruction together; barriers without .aligned count each lane separately."""
        if instruction.membermask:
            return self._named(text.operands[-1])
        return _all if instruction.aligned or (instruction.sync and not barrier) else None

    def _named(self, mask: Operand) -> Callable[[Frame], int]:
        """The lanes that a membermask names: in any of the active lanes."""
        if isinstance(mask, Immediate):
            fixed = mask.value & 0xFFFFFFFF
            return lambda frame: fixed & frame.run.core.present
        if not isinstance(mask, Register):
            raise Unsupported(f"{mask} is no membermask")
        slot = self.slots.by_name[mask.name]

        def named(frame: Frame) -> int:
            values = frame.lanes(slot)
            active = values if frame.run.active is None else values[frame.run.active]
            return int(np.bitwise_or.reduce(active)) & frame.run.core.present

        return named

    # ------------------------------------------------------------------------------------------ registers

    def fill(self, frame: Frame) -> None:
        """Fill in what the registers of a frame hold from its start: special registers and addresses."""
        run, lowering = frame.run, self.lowering
        for name, slot in lowering.specials.items():
            value = run.special(name)
            if slot.bits == 1:
                frame.masks[slot.row] = 0xFFFFFFFF * bool(value)
            else:
                frame.lanes(slot)[:] = value
        for symbol, slot in lowering.addresses.items():
            local = lowering.local.get(symbol.name)
            shared = self.layout.shared.get(symbol.name)
            if local is not None:
                start = frame.base + local
            else:
                start = run.pointers[symbol.name] if shared is None else run.origin + shared
            frame.lanes(slot)[:] = start + symbol.offset
        frame.lanes(self._window)[:] = SHARED + run.core.block.slot * BLOCK - run.origin
        frame.lanes(self._origin)[:] = run.origin
        frame.lanes(self.stacked)[:] = run.local.window


def _all(frame: Frame) -> int:
    return frame.run.core.present


def _blocks_of_instructions(blocks: Any, count: int) -> Mapping[int, int]:
    block_of, block = {}, 0
    for number in range(count + 1):
        while block + 1 < len(blocks) and blocks[block + 1].first <= number:
            block += 1
        block_of[number] = block
    return block_of

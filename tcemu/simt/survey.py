"""What executes what: each instruction of a kernel, and of the functions that it calls, by who executes it.

Unlike a launch, which raises at the first instruction that tcemu does not execute, a survey lists them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcemu.assembly import Function, Instruction, Module
from tcemu.errors import TcemuError
from tcemu.machine.events import Site
from tcemu.simt import control
from tcemu.simt.blocks import ENDINGS
from tcemu.simt.kernel import target_of
from tcemu.simt.layout import Layout
from tcemu.simt.lines import Sites
from tcemu.simt.lowering import Lowering
from tcemu.simt.program import Code, Program
from tcemu.simt.steps import Access

#: Who executes an instruction: the machine with all lanes of a warp; each lane for itself, with registers or with
#: memory; the executor, where lanes branch and call. "unsupported": nobody.
Who = Literal["machine", "memory", "ordinary", "control", "unsupported"]


@dataclass(frozen=True, slots=True)
class Executed:
    """An instruction and who executes it; of an unsupported one, `why` nobody does."""

    function: Function
    instruction: Instruction
    site: Site
    who: Who
    why: str = ""


def survey(module: Module, kernel: Function, target: str | None = None) -> tuple[Executed, ...]:
    """The instructions of a kernel and of the functions that it may call, in the order of the text.

    >>> from tcemu import assembly
    >>> from tcemu.simt.survey import survey
    >>> module = assembly.parse('''
    ... .version 8.0
    ... .target sm_80
    ... .visible .entry k(.param .u32 n) {
    ...     .reg .b32 %r<3>;
    ...     ld.param.u32 %r1, [n];
    ...     add.s32 %r2, %r1, 1;
    ...     bar.sync 0;
    ...     tanh.approx.f64 %r1, %r2;
    ...     ret;
    ... }''')
    >>> [each.who for each in survey(module, module.functions["k"])]
    ['memory', 'ordinary', 'machine', 'unsupported', 'control']
    """
    layout = Layout.of(module, kernel)
    surveyed = [_Survey(module, each, layout, target or target_of(module)) for each in layout.functions.values()]
    executed_by_all = [executed for each in surveyed for executed in each.executed()]
    return tuple(sorted(executed_by_all, key=lambda each: each.instruction.text_line))


class _Survey(Program):
    """A function whose instructions are examined one by one."""

    def __init__(self, module: Module, function: Function, layout: Layout, target: str) -> None:
        self.function, self.layout = function, layout
        self.code = _Code(module, target)
        self.lowering = Lowering(function, layout, memory=True)
        self.slots, self.local_bytes = self.lowering.slots, self.lowering.local_bytes
        self.sites = [self.code.sites.of(each, function) for each in function.body]

    def executed(self) -> list[Executed]:
        """Its instructions."""
        executed = []
        for number, instruction in enumerate(self.function.body):
            try:
                who, why = self._who(number, instruction), ""
            except TcemuError as error:
                who, why = "unsupported", str(error)
            executed.append(Executed(self.function, instruction, self.sites[number], who, why))
        return executed

    def _who(self, number: int, instruction: Instruction) -> Who:
        head = instruction.opcode.partition(".")[0]
        if head in ENDINGS:
            return "control"
        steps = self.lowering.steps(number, instruction)
        if steps is None:
            self._operation(number, instruction)
            return "control" if head in control.BINDERS else "machine"
        for each in steps:
            if isinstance(each, Access) and each.machine:
                self._operation(number, instruction, each)
        return "memory" if head in ("ld", "ldu", "st") else "ordinary"


class _Code(Code):
    """What a function asks of the kernel that it belongs to."""

    def __init__(self, module: Module, target: str) -> None:
        self.module, self.target, self.sites = module, target, Sites(module)

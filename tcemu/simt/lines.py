"""Where instructions come from: lines of CUDA C++, Triton's Python or, if the text has none, of the PTX text."""

from __future__ import annotations

from tcemu.assembly import Function, Instruction, Line, Module
from tcemu.machine.events import Site
from tcemu.machine.sites import FrontSite


class Sites:
    """The sites of a module's instructions, each made once."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._made: dict[tuple[Line | int, str], Site] = {}

    def of(self, instruction: Instruction, function: Function) -> Site:
        """The line of an instruction, with the lines that called what the compiler has inlined there."""
        key = instruction.line or instruction.text_line, function.name
        site = self._made.get(key)
        if site is None:
            site = self._made[key] = self._site(instruction, function)
        return site

    def _site(self, instruction: Instruction, function: Function) -> Site:
        line = instruction.line
        if line is None or not line.line:
            return FrontSite(self._module.name, instruction.text_line, function.short)
        calls: list[Site] = []
        outer = line.inlined
        while outer is not None:
            calls.append(Site(outer.file, outer.line, outer.function or function.short))
            outer = outer.inlined
        return FrontSite(line.file, line.line, line.function or function.short, tuple(calls))

"""Where instructions come from: lines of CUDA C++, Triton's Python or, if the text has none, of the PTX text."""

from __future__ import annotations

from tcemu.assembly import Function, Instruction, Line, Module
from tcemu.machine import sites
from tcemu.machine.events import Site


class Sites:
    """The sites of a module's instructions, each made once."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._made: dict[tuple[Line | int, str], Site] = {}

    def of(self, instruction: Instruction, function: Function) -> Site:
        """The line of an instruction, with the lines that called what the compiler has inlined there."""
        key = instruction.line or instruction.text_line, function.name
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = _fixed(self._site(instruction, function))
        return found

    def _site(self, instruction: Instruction, function: Function) -> Site:
        line = instruction.line
        if line is None or not line.line:
            return Site(self._module.name, instruction.text_line, function.short)
        calls: list[Site] = []
        outer = line.inlined
        while outer is not None:
            calls.append(Site(outer.file, outer.line, outer.function or function.short))
            outer = outer.inlined
        return Site(line.file, line.line, line.function or function.short, tuple(calls))


def _fixed(site: Site) -> Site:
    """A line of a front end: nobody needs to look for its callers among Python's frames."""
    found = sites._Called(*site)  # noqa: SLF001 - until sites has a public one
    found.callers = site.inlined
    return found

"""Where instructions come from: lines of CUDA C++, Triton's Python or, if the text has none, of the PTX text."""

from __future__ import annotations

import re

from tcemu.assembly import Function, Instruction, Line, Module
from tcemu.machine.events import Site
from tcemu.machine.sites import FrontSite

#: CUDA's own headers, whose lines say nothing to the author of a kernel: what calls them does.
_CUDA = re.compile(
    r"[\\/](?:nvidia|usr[\\/]local[\\/]cuda[^\\/]*|tcemu[\\/]cuda)[\\/](?:.*[\\/])?include[\\/]|\b__nv_\w+\.h$"
)


class Sites:
    """The sites of a module's instructions, each made once."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._made: dict[tuple[Line | int, str], FrontSite] = {}

    def of(self, instruction: Instruction, function: Function) -> FrontSite:
        """The line of an instruction, with the lines that called what the compiler has inlined there."""
        key = instruction.line or instruction.text_line, function.name
        site = self._made.get(key)
        if site is None:
            site = self._made[key] = self._site(instruction, function)
        return site

    def _site(self, instruction: Instruction, function: Function) -> FrontSite:
        line = instruction.line
        if line is None or not line.line:
            return FrontSite(self._module.name, instruction.text_line, function.short)
        calls: list[Site] = []
        inner: Line | None = line
        while inner is not None:
            calls.append(Site(inner.file, inner.line, inner.function or function.short))
            inner = inner.inlined
        own = [each for each in calls if not _CUDA.search(each.file)] or calls
        site = FrontSite(*own[0][:3], tuple(own[1:]))
        site.within = tuple(each.function for each in calls if each not in own)
        return site

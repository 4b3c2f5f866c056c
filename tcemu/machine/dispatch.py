"""Finds the function that executes an instruction: bound once for each opcode and target, then found in a cache.

The module of a chapter registers a binder for each family that it executes; to be found, it only has to be in this
folder. A binder takes an instruction and returns a function, which does the work for a warp on operands in PTX's order:

    @executes("membar")
    def membar(instruction: Instruction) -> Act:
        scope = ...                                     once for each opcode
        def act(core: Core) -> None: ...                each time it is executed
        return act

The function of an instruction with a destination that may be left out, d|p, returns both. `Bound.act` returns the other
one alone, `Bound.both` both. Where the one that may be left out costs time to make, a binder returns two functions, in
this order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, NamedTuple

from tcemu.errors import IllegalInstruction, OperandError, listing, shown
from tcemu.instructions import Instruction, parse
from tcemu.instructions.table import FAMILIES, family_of
from tcemu.machine.other_names import hint_for
from tcemu.machine.uniform import agreeing

if TYPE_CHECKING:
    from tcemu.machine.core import Core

#: Executes an instruction: called with the core of a warp and the operands in PTX's order.
Act = Callable[..., Any]
Binder = Callable[[Instruction], Act | tuple[Act, Act]]

_BINDERS: dict[str, Binder] = {}


class Bound(NamedTuple):
    """An instruction of one target, and the function that executes it."""

    instruction: Instruction
    act: Act
    #: The least and the greatest number of operands.
    least: int
    most: int
    #: Returns both destinations, d and p; None if the instruction does not have two.
    both: Act | None = None

    def miscounted(self, count: int) -> OperandError:
        """The error for a wrong number of operands."""
        names = [f"[{each.role}]" if each.optional else each.role for each in self.instruction.sources]
        return OperandError(
            f"{self.instruction} takes {listing(names, 'and') if names else 'no operands'}; got {count} "
            f"operand{'s' * (count != 1)} (PTX ISA {self.instruction.section})"
        )


def executes(*families: str) -> Callable[[Binder], Binder]:
    """Register a binder for families by name."""

    def register(binder: Binder) -> Binder:
        for name in families:
            _BINDERS[name] = binder
        return binder

    return register


def bind(instruction: str | Instruction, target: str) -> Bound:
    """The instruction on `target`, ready to be executed.

    Raises what tcemu.parse raises, and IllegalInstruction if the machine does not execute the instruction.
    """
    if not isinstance(instruction, str | Instruction):  # which may have no hash
        raise IllegalInstruction(
            f"an instruction must be a string, e.g. 'ld.shared.v4.b32'; got {type(instruction).__name__}"
        )
    return _bind(instruction, target)


@lru_cache(maxsize=4096)
def _bind(instruction: str | Instruction, target: str) -> Bound:
    _load_chapters()
    parsed = _parsed(instruction, target)
    family = family_of(parsed)
    binder = _BINDERS.get(family.name) or (_BINDERS["*"] if family.execute is not None else None)
    if parsed.unsupported or binder is None:
        reason = parsed.unsupported or "this version of tcemu does not execute it"
        raise IllegalInstruction(f"{parsed}: {reason} (PTX ISA {parsed.section})")
    made, sources, both = binder(parsed), parsed.sources, None
    if isinstance(made, tuple):
        act, both = (agreeing(parsed, each) for each in made)
    else:
        act = agreeing(parsed, _unhinted(parsed, made) if sources and sources[-1].role == "cache_policy" else made)
        needed = [not each.optional for each in parsed.operands if not each.read]
        if len(needed) == 2:
            act, both = act if all(needed) else _one(act, needed.index(True)), act
    return Bound(parsed, act, sum(not each.optional for each in sources), len(sources), both)


def _parsed(instruction: str | Instruction, target: str) -> Instruction:
    """The instruction. The error for C++ in place of an opcode says what a kernel writes here."""
    try:
        return parse(instruction, target)
    except IllegalInstruction:
        known = {family.mnemonic for family in FAMILIES}
        if isinstance(instruction, Instruction) or instruction.strip().partition(".")[0] in known:
            raise
        hint = hint_for(instruction)
        if not hint:
            raise
        raise IllegalInstruction(f"{shown(instruction)}: {hint}") from None


@cache
def _load_chapters() -> None:
    """Import the modules of this folder; those that execute instructions register their binders."""
    for module in iter_modules([str(Path(__file__).parent)]):
        import_module(f"{__package__}.{module.name}")


def _one(act: Act, place: int) -> Act:
    """The same for one of its two destinations."""
    return lambda core, *operands: act(core, *operands)[place]


def _unhinted(instruction: Instruction, act: Act) -> Act:
    """The same without its last operand, a cache policy: this machine has no caches."""

    def unhinted(core: Core, *operands: Any) -> Any:
        core.integers(instruction, "cache_policy", operands[-1])
        return act(core, *operands[:-1])

    return unhinted

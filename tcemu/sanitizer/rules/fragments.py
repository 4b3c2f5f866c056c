"""The rule about wmma fragments: one is used only with the shape, type, role and architecture it was loaded for.

The rule, the smallest kernel that breaks it, and the section that checks it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tcemu.errors import TcemuError
from tcemu.instructions import Instruction, target_named
from tcemu.machine.events import Accessed, Issued
from tcemu.machine.registers import Origin
from tcemu.sanitizer.block import Block, ForAccesses, ForInstructions, Handlers, exchanges, section
from tcemu.sanitizer.report import Report
from tcemu.sanitizer.rules import Rule, breaks, rules

rules(
    Rule(
        "wmma-mixed",
        "a wmma fragment of another shape, type, role or architecture",
        "9.7.14.4",
        "The manual does not say how a wmma fragment is spread over registers. Only wmma instructions of the same "
        "shape, type, role and layout, on the same architecture, agree on it.",
        "Load the fragment with the wmma.load that matches this instruction, on the target that executes it.",
    ),
)

WMMA_LOAD = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16"
WMMA = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"


@breaks("wmma-mixed", block=32, target="sm_80")
def a_fragment_of_a_as_b(warp: Any, g: Any) -> None:
    a = warp.run(WMMA_LOAD, g, 16)
    c = warp.registers(8, fill=0)
    warp.run(WMMA, a, a, c)  # <- reported


_POINTER = "Keep the pointer, or start each tile at a multiple of the fragment's size in bytes."
_STRIDE = "Keep the stride, or make it a multiple of the fragment's size in bytes."


def _opaque(instruction: Instruction) -> bool:
    """Whether the layout of its fragments is unspecified."""
    return instruction.family.startswith("wmma.")


def _takes_fragments(instruction: Instruction, _: bool) -> bool:
    return _opaque(instruction) and any(each.fragment is not None for each in instruction.sources)


#: By target, opcode, and the roles of operands that fit with the identity of their origins: these origins, which keeps
#: them alive, so that no other gets their identity. Whether they fit does not depend on the launch.
_fine: dict[tuple[object, ...], list[Origin | None]] = {}
#: The most of them.
_MOST = 1024


@section
class Fragments:
    """The wmma instructions of a block."""

    def __init__(self, block: Block) -> None:
        self._block = block
        #: the latest opcode with origins of all its operands that fit, and these
        self._latest: tuple[str, list[Origin | None]] = "", []
        self.handlers: Handlers = {
            Issued: ForInstructions(self._issued, _takes_fragments),
            Accessed: ForAccesses(self._accessed, exchanges),
        }

    def _issued(self, event: Issued) -> None:
        instruction, target, operands = event.instruction, self._block.target, event.operands
        origins = [registers.origin for _, registers in operands]
        if self._latest == (instruction.opcode, origins):
            return
        key = target, instruction.opcode, *[(role, id(registers.origin)) for role, registers in operands]
        if key not in _fine:
            wrong = [
                (role, registers.origin)
                for role, registers in operands
                if registers.origin is not None and not _fits(instruction, role, registers.origin, target)
            ]
            for role, origin in wrong:
                self._report(event, role, origin)
            if wrong:
                return
            if len(_fine) == _MOST:
                _fine.clear()
            _fine[key] = origins
        if len(operands) == len(instruction.sources):  # otherwise others of its operands may have these origins
            self._latest = instruction.opcode, origins

    def _accessed(self, event: Accessed) -> None:
        """Give a hint about lines and pointers that GPUs take and the manual does not allow."""
        first, end = event.extent
        if not (first | end - event.size) % _COARSE or not _opaque(event.instruction):
            return  # the first line and the last one, an odd number of strides apart, are aligned, so all are
        second = event.addresses.item(1)
        wanted = _alignment(event.instruction, event.size)
        if first % wanted or second % wanted:  # all lines are as far apart as these two
            at = int(event.addresses[event.addresses % wanted != 0][0])
            self._hint(
                event,
                f"accesses a line at {at}, which is not a multiple of {wanted}. It works: CUDA's guide requires a "
                f"stride that is a multiple of 16 bytes, and padded tiles rely on it; the manual requires every line "
                f"to be aligned to the size of the fragment",
                _STRIDE,
            )
        elif first % (size := _size(event.instruction)):
            problem = f"has a pointer, {first}, that is not a multiple of {size}, the size of the fragment in bytes"
            self._hint(event, f"{problem}. It works on GPUs, which need 16, but the manual requires it", _POINTER)

    def _hint(self, event: Accessed, problem: str, remedy: str) -> None:
        message, what = f"{event.instruction} {problem}", f"{event.space} memory"
        self._block.hint(Report("misaligned", message, event.by, what, remedy=remedy, weight="hint"))

    def _report(self, event: Issued, role: str, origin: Origin) -> None:
        instruction, here, (made, made_role, target) = event.instruction, self._block.target, origin
        message = (
            f"{instruction} on {here} expects the fragment {_words_of(instruction, role)}; these registers "
            f"come from {made} on {target} and hold the fragment {_words_of(made, made_role)}"
        )
        self._block.report("wmma-mixed", event.by, message, what=f"registers of {role}")


def _fits(instruction: Instruction, role: str, origin: Origin, here: str) -> bool:
    """Whether registers of this origin hold the fragment that an operand on target `here` expects, as far as is known.

    Only wmma's fragments must be: the layouts of others are known.
    """
    made, made_role, target = origin
    if role not in "abcd" or not _opaque(made):
        return True
    wanted, taken = _fragment(instruction, role, here), _fragment(made, made_role, target)
    return wanted is None or taken is None or wanted == taken


#: The largest wmma fragment, in bytes per lane.
_COARSE = 32


@lru_cache(maxsize=1024)
def _alignment(instruction: Instruction, size: int) -> int:
    """The alignment, a power of two, that the manual requires for lines of `size` bytes."""
    return min(_size(instruction), size)


def _size(instruction: Instruction) -> int:
    """The bytes of a fragment in a lane."""
    fragment = instruction.fragments[instruction.words["matrix"]]
    return fragment.registers * fragment.container.register_bits // 8


@lru_cache(maxsize=1024)
def _fragment(instruction: Instruction, role: str, target: str) -> tuple[Any, ...] | None:
    """What identifies a fragment: its side of the product, its format and its layout; None if they are unknown."""
    try:
        fragment = instruction.on(target_named(target)).fragments[role]
    except (KeyError, TcemuError):
        return None
    side = "accumulator" if role in "cd" else role
    return (
        side,
        _lines(instruction, role),
        fragment.format.name,
        str(fragment.layout),
        fragment.layout.shape,
        fragment.registers,
    )


def _lines(instruction: Instruction, role: str) -> str:
    """The row or col qualifier with which a fragment of A or B is loaded or multiplied; empty for C and D."""
    return instruction.words.get(f"{role}layout", instruction.words.get("layout", "")) if role in "ab" else ""


def _words_of(instruction: Instruction, role: str) -> str:
    """A description of a fragment for the report."""
    form = instruction.types.get(role)
    parts = [f"{role} of {instruction.shape}", *([form.name] if form else []), _lines(instruction, role)]
    return ", ".join(part for part in parts if part)

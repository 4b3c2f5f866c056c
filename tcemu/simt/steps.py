"""What a segment of straight code consists of: steps, which both executors know, native code and the reference.

A step is an instruction whose operands are slots of registers. `number` is its index in the function's body.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from tcemu.simt.register_file import Slot, Source

if TYPE_CHECKING:
    from tcemu.simt.events import Operation

#: A function (ops, *values) -> value or values, as in the table of tcemu.alu.
Meaning = Callable[..., Any]
#: The memories that steps address; "param" is that of a kernel's parameters, and "const" a part of global memory that
#: no kernel writes. "unset" says which bytes of local memory lack a value; addresses elsewhere have no such bytes.
Space = Literal["generic", "shared", "global", "const", "local", "param", "unset"]


class Guard(NamedTuple):
    """``@%p`` or, if `negated`, ``@!%p``."""

    slot: Slot
    negated: bool


@dataclass(frozen=True, slots=True)
class Compute:
    """Results from sources, lane by lane. None stands for a result that nobody wants."""

    number: int
    meaning: Meaning
    sources: tuple[Source, ...]
    results: tuple[Slot | None, ...]
    guard: Guard | None


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store of `count` elements of `bits` at address + offset, each in a register of its own.

    A loaded element is extended to its register, with its sign if it is `signed`; of a register that is stored, the
    low bits are. A load into None only reads.
    """

    number: int
    space: Space
    writes: bool
    bits: int
    count: int
    signed: bool
    address: Source
    offset: int
    registers: tuple[Source | None, ...]
    guard: Guard | None
    #: whether the machine does it: a strong access, or any if the schedule may switch before it
    machine: bool = False
    #: what its memory begins at, if that is not always 0
    origin: Source | None = None

    @property
    def size(self) -> int:
        """Bytes of a lane; its address is a multiple of them."""
        return self.bits * self.count // 8


@dataclass(frozen=True, slots=True)
class Branch:
    """To another block, in the lanes of the guard; the others go on."""

    number: int
    target: int
    guard: Guard | None


@dataclass(frozen=True, slots=True)
class Leave:
    """ret or, if it `exits`, exit, in the lanes of the guard; the others go on."""

    number: int
    exits: bool
    guard: Guard | None


Step: TypeAlias = Compute | Access
Ending: TypeAlias = Branch | Leave


@dataclass(frozen=True)
class Block:
    """Steps that are executed one after the other; `ending` says what follows, None: the next block.

    A block with an `operation` has nothing else: the executor leaves the segment there.
    """

    first: int
    steps: tuple[Step, ...] = ()
    ending: Ending | None = None
    operation: Operation | None = None

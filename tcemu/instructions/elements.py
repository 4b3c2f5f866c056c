"""What an instruction moves for each lane, and how it orders memory, read from the words of its opcode.

elements_of(parse("ld.shared.v4.b32"))          4 elements of 32 bits, 16 bytes, 4 registers of uint32
order_of(parse("atom.acquire.cta.shared.add.u32"))   Order("acquire", "cta")
space_of(parse("ld.shared::cta.b32"))           "shared"
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from tcemu.errors import TableError

if TYPE_CHECKING:
    from tcemu.instructions.instruction import Instruction

Kind = Literal["b", "u", "s", "f"]
#: The state space of an address; a generic address is in the space whose window it points into.
StateSpace = Literal["generic", "shared", "shared::cluster", "global", "local", "const", "param"]

#: Bits of the types whose names do not end in them: packed floats, and floats of 8 bits.
_BITS = {"f16x2": 32, "bf16x2": 32, "e4m3x4": 32, "e5m2x4": 32, "e4m3": 8, "e5m2": 8}
#: Elements for each .vec qualifier.
_COUNTS = {"": 1, "v2": 2, "v4": 4, "v8": 8}


@dataclass(frozen=True)
class Elements:
    """Elements of one type, side by side in memory, each in a register of its own (128 bits in two)."""

    #: "b32", "f16x2".
    type: str
    count: int
    bits: int
    kind: Kind

    @property
    def signed(self) -> bool:
        """Whether a narrow element is sign-extended when it is loaded into a register."""
        return self.kind == "s"

    @property
    def bytes(self) -> int:
        """Bytes that a lane moves; its address is a multiple of this number."""
        return self.count * self.bits // 8

    @property
    def scalar(self) -> int:
        """Bytes of a scalar: to the memory model, vectors and packed types are several scalars (PTX ISA 8.2)."""
        return self.bits // 8 // (int(self.type[-1]) if self.type[-2:-1] == "x" else 1)

    @property
    def registers(self) -> int:
        """Registers per lane."""
        return self.count * (2 if self.bits == 128 else 1)

    @property
    def held(self) -> tuple[int, int]:
        """Registers per lane, and bits per register."""
        return self.registers, 8 * self.register.itemsize

    @property
    def register(self) -> np.dtype[Any]:
        """The dtype of a register: uint32, or uint64 for elements of 64 and 128 bits."""
        return np.dtype(np.uint64 if self.bits >= 64 else np.uint32)

    @property
    def element(self) -> np.dtype[Any]:
        """The integer dtype of an element in memory; for 128 bits, the dtype of its halves."""
        return np.dtype(f"<{'i' if self.signed else 'u'}{min(self.bits, 64) // 8}")


def elements_of(instruction: Instruction) -> Elements:
    """What a lane moves or computes with, from the words .vec and .type. Raises TableError if there are none."""
    word = instruction.words.get("type")
    if word is None:
        raise TableError(f"{instruction} has no .type, so it moves no elements")
    return elements(word, instruction.words.get("vec", ""))


@cache
def elements(word: str, vec: str = "") -> Elements:
    """The elements of a type ("b32", "f16x2") and of a vector ("", "v2", "v4", "v8")."""
    kind: Any = word[0] if word[0] in "bus" and word[1].isdigit() else "f"
    return Elements(word, _COUNTS[vec], _BITS.get(word) or int(word.lstrip("bfsu")), kind)


#: Registers of a lane for each .num of tcgen05.ld and tcgen05.st.
_OF_SHAPE = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}


def tensor_registers(instruction: Instruction) -> int:
    """How many registers of a lane tcgen05.ld or tcgen05.st moves; packing does not change the number."""
    words = instruction.words
    return _OF_SHAPE[words["shape"]] * int(words["num"][1:])


class Order(NamedTuple):
    """A memory order and its scope (PTX ISA 9.1, 8.3 to 8.5).

    `order` is "weak", "volatile", "relaxed", "acquire", "release", "acq_rel" or "sc"; `scope` is "cta", "cluster",
    "gpu" or "sys", and empty for a weak access.
    """

    order: str
    scope: str


#: The scopes by the names that membar gives them.
_SCOPES = {"gl": "gpu"}


def order_of(instruction: Instruction) -> Order:
    """How it orders memory: as its opcode says, or else the manual's default."""
    words, facts = instruction.words, instruction.facts
    order = words.get("order") or facts.order
    scope = words.get("scope") or ("sys" if order == "volatile" else facts.scope)
    return Order(order, _SCOPES.get(scope, scope))


_SPACES: dict[str, StateSpace] = {
    "": "generic", "shared": "shared", "shared::cta": "shared", "shared::cluster": "shared::cluster",
    "global": "global", "local": "local", "const": "const", "param": "param", "param::entry": "param",
}  # fmt: skip


def space_of(instruction: Instruction) -> StateSpace:
    """The state space of its address, from the word .ss."""
    return _SPACES[instruction.words.get("ss", "")]

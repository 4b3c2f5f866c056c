"""The operands of instructions and the initial values of variables, as PTX text writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Register:
    """A register of the function, ``%r1``; its type is in Function.registers.

    >>> from tcemu import assembly
    >>> str(assembly.Register("%r1"))
    '%r1'
    """

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, without the %: "tid.x", "laneid", "clock64".

    >>> from tcemu import assembly
    >>> str(assembly.Special("tid.x"))
    '%tid.x'
    """

    name: str

    def __str__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant: an integer, which may be negative, or the bits of an f32 or f64.

    Decimal constants (1.5) are f64 in PTX, also for an f32 instruction.

    >>> from tcemu import assembly
    >>> str(assembly.Immediate(0x3F800000, "f32"))
    '0f3F800000'
    """

    value: int
    kind: Literal["int", "f32", "f64"] = "int"

    def __str__(self) -> str:
        return {"int": f"{self.value}", "f32": f"0f{self.value:08X}", "f64": f"0d{self.value:016X}"}[self.kind]


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, parameter or function; in an initial value perhaps ``generic(name)``.

    >>> from tcemu import assembly
    >>> str(assembly.Symbol("table", 16))
    'table+16'
    """

    name: str
    offset: int = 0
    generic: bool = False

    def __str__(self) -> str:
        name = f"generic({self.name})" if self.generic else self.name
        return f"{name}{self.offset:+d}" if self.offset else name


@dataclass(frozen=True, slots=True)
class Masked:
    """In an initial value, ``0xff00(name)``: those bits of the address, shifted down to bit 0.

    >>> from tcemu import assembly
    >>> str(assembly.Masked(0xFF00, assembly.Symbol("table")))
    '0xff00(table)'
    """

    mask: int
    symbol: Symbol

    def __str__(self) -> str:
        return f"{self.mask:#x}({self.symbol})"


@dataclass(frozen=True, slots=True)
class Label:
    """A place in the body, or a table of places: a key of Function.labels, branch_targets, call_targets, prototypes.

    >>> from tcemu import assembly
    >>> str(assembly.Label("$L__BB0_2"))
    '$L__BB0_2'
    """

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Negated:
    """``!%p``: the opposite of a predicate.

    >>> from tcemu import assembly
    >>> str(assembly.Negated(assembly.Register("%p1")))
    '!%p1'
    """

    register: Register

    def __str__(self) -> str:
        return f"!{self.register}"


@dataclass(frozen=True, slots=True)
class Parts:
    """``%r1.h10`` of a video instruction: halves (h) or bytes (b) of a register, the last one first.

    >>> from tcemu import assembly
    >>> str(assembly.Parts(assembly.Register("%r1"), "h10"))
    '%r1.h10'
    """

    register: Register
    selector: str

    def __str__(self) -> str:
        return f"{self.register}.{self.selector}"


@dataclass(frozen=True, slots=True)
class Minus:
    """``-%r1`` or ``-%r1.h0`` of vmad: a register or a part of one, with the other sign.

    >>> from tcemu import assembly
    >>> str(assembly.Minus(assembly.Register("%r1")))
    '-%r1'
    """

    of: Register | Parts

    def __str__(self) -> str:
        return f"-{self.of}"


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``: a result that nobody wants.

    >>> from tcemu import assembly
    >>> str(assembly.Sink())
    '_'
    """

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b}``: several registers or constants that are one operand.

    >>> from tcemu import assembly
    >>> str(assembly.Vector((assembly.Register("%f1"), assembly.Register("%f2"))))
    '{%f1, %f2}'
    """

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"{{{listed(self.items)}}}"


@dataclass(frozen=True, slots=True)
class Pair:
    """``d|p``: two results of one instruction.

    >>> from tcemu import assembly
    >>> str(assembly.Pair(assembly.Register("%p1"), assembly.Sink()))
    '%p1|_'
    """

    first: Register | Sink
    second: Register | Sink

    def __str__(self) -> str:
        return f"{self.first}|{self.second}"


@dataclass(frozen=True, slots=True)
class Memory:
    """``[base+offset]``, or ``[base, {coordinates}]`` of a tensor map.

    >>> from tcemu import assembly
    >>> str(assembly.Memory(assembly.Register("%rd1"), 8))
    '[%rd1+8]'
    """

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()

    def __str__(self) -> str:
        offset = f"{self.offset:+d}" if self.offset else ""
        coordinates = f", {{{listed(self.coordinates)}}}" if self.coordinates else ""
        return f"[{self.base}{offset}{coordinates}]"


@dataclass(frozen=True, slots=True)
class Arguments:
    """``(a, b)`` of a call: its results or its arguments.

    >>> from tcemu import assembly
    >>> str(assembly.Arguments((assembly.Symbol("param0"),)))
    '(param0)'
    """

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"({listed(self.items)})"


Operand: TypeAlias = (
    Register | Special | Immediate | Symbol | Masked | Label | Negated | Parts | Minus | Sink | Vector | Pair | Memory
    | Arguments
)  # fmt: skip
#: The initial value of a variable: one element, or a tuple of initial values for each dimension.
Initial: TypeAlias = "Immediate | Symbol | Masked | tuple[Initial, ...]"


def listed(items: tuple[Operand, ...]) -> str:
    """``a, b``: operands, one after the other."""
    return ", ".join(map(str, items))

"""What PTX text says, as values: modules, functions, instructions, variables, source lines; operands.py has operands.

Names are unique within a function: where an inner scope declares a register, variable or label again, the parser
renames it (``%r1#2``), so that nothing that reads a function needs to know about scopes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tcemu.assembly.names import demangle
from tcemu.assembly.operands import Immediate, Initial, Masked, Operand, Register, Symbol, listed

# ---------------------------------------------------------------------------------------------- instructions


@dataclass(frozen=True, slots=True)
class Line:
    """A place in the source (.loc). `function` is demangled; `inlined` is the call that the compiler inlined here.

    `function` is "" if the PTX does not name it, as for lines of the kernel itself.

    >>> from tcemu import assembly
    >>> str(assembly.Line("gemm.cu", 12))
    'gemm.cu:12'
    """

    file: str
    line: int
    column: int = 0
    function: str = ""
    inlined: Line | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: `guard` is the predicate of ``@%p``, or of ``@!%p`` if `negated`.

    >>> from tcemu import assembly
    >>> str(assembly.Instruction("bar.sync", (assembly.Immediate(0),)))
    'bar.sync 0;'
    """

    opcode: str
    operands: tuple[Operand, ...] = ()
    guard: Register | None = None
    negated: bool = False
    line: Line | None = None
    text_line: int = 0

    def __str__(self) -> str:
        guard = f"@{'!' if self.negated else ''}{self.guard} " if self.guard else ""
        operands = f" {listed(self.operands)}" if self.operands else ""
        return f"{guard}{self.opcode}{operands};"


# ---------------------------------------------------------------------------------------------- declarations


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable or parameter. Sizes are in bytes; size is 0 if the launch decides (``.extern .shared .b8 s[]``).

    `count` is the number of elements of `type`, over all dimensions and vector elements. `pointer` says, for a
    parameter that is declared with .ptr, which memory it points to: "generic" if none is named.

    >>> from tcemu import assembly
    >>> values = assembly.Immediate(5), assembly.Immediate(7)
    >>> table = assembly.Variable("table", "const", "u32", 4, 8, 2, values, dimensions=(2,))
    >>> [(at, size, value.value) for at, size, value in table.elements()]
    [(0, 4, 5), (4, 4, 7)]
    """

    name: str
    space: str
    type: str
    align: int
    size: int
    count: int = 1
    initial: Initial | None = None
    extern: bool = False
    pointer: str | None = None
    dimensions: tuple[int, ...] = ()
    text_line: int = 0

    def elements(self) -> Iterator[tuple[int, int, Immediate | Symbol | Masked]]:
        """The initial value, element by element: offset and size in bytes, and the value. What is left out is 0."""
        if self.initial is not None:
            size = width(self.type) // 8
            yield from ((at * size, size, value) for at, value in _flat(self.initial, self.dimensions))


def _flat(
    initial: Initial, dimensions: tuple[int, ...], first: int = 0
) -> Iterator[tuple[int, Immediate | Symbol | Masked]]:
    """The elements of an initial value with their indices; each of its tuples may be shorter than its dimension."""
    if not isinstance(initial, tuple):
        yield first, initial
        return
    inner = dimensions[1:]
    step = 1
    for extent in inner:
        step *= extent
    for each in initial:
        yield from _flat(each, inner, first)
        first += step if isinstance(each, tuple) else 1


@dataclass(frozen=True, slots=True)
class Prototype:
    """``.callprototype``: what an indirect call passes and gets.

    >>> from tcemu import assembly
    >>> assembly.Prototype().parameters
    ()
    """

    parameters: tuple[Variable, ...] = ()
    returns: tuple[Variable, ...] = ()
    directives: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel (`entry`) or device function.

    `registers` has those that are used, with their types. `labels` says for each label which instruction of the body
    follows it (len(body) at the end). `directives` has .maxntid and its like, without the dot. `branch_targets` has the
    labels of each .branchtargets, `call_targets` the functions of each .calltargets. A function without a body is
    not `defined`: the text only declares it.

    >>> from tcemu import assembly
    >>> assembly.Function("_Z4gemmILi64EEvPfi").demangled
    'gemm<64>(float*, int)'
    """

    name: str
    entry: bool = False
    parameters: tuple[Variable, ...] = ()
    returns: tuple[Variable, ...] = ()
    registers: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, Variable] = field(default_factory=dict)
    body: tuple[Instruction, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)
    directives: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    branch_targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    call_targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prototypes: Mapping[str, Prototype] = field(default_factory=dict)
    defined: bool = True
    text_line: int = 0

    @property
    def demangled(self) -> str:
        """The name in C++: "gemm<64>(float*, int)"."""
        return str(demangle(self.name))

    @property
    def parameter_types(self) -> tuple[str, ...] | None:
        """The types of the parameters in C++, ("float*", "int"); None if the name does not say them."""
        return demangle(self.name).parameters

    @property
    def short(self) -> str:
        """The name in C++ without the types of the parameters: "gemm<64>"."""
        return demangle(self.name).short


@dataclass(frozen=True, slots=True)
class Module:
    """PTX text: its version and target ("sm_90a"), source files by number, variables and functions by name.

    `options` are the other words of .target, such as "debug"; `aliases` says which function an alias means.

    >>> from tcemu import assembly
    >>> assembly.parse(".version 8.0 .target sm_80 .address_size 64").target
    'sm_80'
    """

    version: str = ""
    target: str = ""
    files: Mapping[int, str] = field(default_factory=dict)
    variables: Mapping[str, Variable] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    address_size: int = 64
    aliases: Mapping[str, str] = field(default_factory=dict)
    name: str = "kernel.ptx"

    @property
    def kernels(self) -> tuple[Function, ...]:
        """The functions that can be launched, in the order of the text."""
        return tuple(each for each in self.functions.values() if each.entry and each.defined)


# ---------------------------------------------------------------------------------------------- types

_WIDTHS = (
    {"pred": 1, "texref": 64, "samplerref": 64, "surfref": 64}
    | {f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)}
    | {"b128": 128, "f16": 16, "bf16": 16, "f32": 32, "tf32": 32, "f64": 64}
    | {"f16x2": 32, "bf16x2": 32, "f32x2": 64, "u16x2": 32, "s16x2": 32, "u8x4": 32, "s8x4": 32, "b8x4": 32}
    | {"e4m3": 8, "e5m2": 8, "ue8m0x2": 16}
    | {f"{kind}x2": 8 if kind == "e2m1" else 16 for kind in ("e4m3", "e5m2", "e2m1", "e2m3", "e3m2")}
    | {f"{kind}x4": 16 if kind == "e2m1" else 32 for kind in ("e4m3", "e5m2", "e2m1", "e2m3", "e3m2")}
)


def width(type: str) -> int:  # noqa: A002 - PTX's word
    """The bits of a type.

    >>> from tcemu import assembly
    >>> assembly.width("f16x2"), assembly.width("b128"), assembly.width("pred")
    (32, 128, 1)
    """
    return _WIDTHS[type]


TYPES = frozenset(_WIDTHS)

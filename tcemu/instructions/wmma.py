"""wmma.load, wmma.mma and wmma.store (PTX ISA 9.1, 9.7.14.4): fragments whose layout the manual leaves unspecified.

    a = tcemu.run("wmma.load.a.sync.aligned.row.m16n16k16.global.f16", pointer, stride, memory=bytes)
    d = tcemu.run("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", a, b, c)
    tcemu.run("wmma.store.d.sync.aligned.row.m16n16k16.global.f32", pointer, d, stride, memory=bytes)

A pointer (...) is in bytes, a stride (...) in elements; the default stride is the length of a row (or column). All
lanes of a warp give the same, so there is one per warp; tcemu.instructions.memory.uniform checks this in a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError
from tcemu.formats import Format, lookup
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Fragments, Instruction, Shape
from tcemu.instructions.lessons import PRODUCTS
from tcemu.instructions.memory import Memory, integers
from tcemu.instructions.mma import ANY_LAYOUT, ROUNDING, SATFINITE
from tcemu.instructions.multiply import broadcast, container, execute, take, types_of
from tcemu.instructions.rows import Rows, in_spaces, multiply, pairs, vocabulary
from tcemu.instructions.spelling import Spelling, Words
from tcemu.layouts import Fragment, Layout
from tcemu.layouts.wmma import TURING_S32_M8N32, modern, volta

Array = npt.NDArray[Any]

LOAD_SECTION, STORE_SECTION, MMA_SECTION = "9.7.14.4.3", "9.7.14.4.4", "9.7.14.4.5"
_SHAPES = "m16n16k16 m8n32k16 m32n8k16"
_BOTH, _ROW, _COL = ("row", "col"), ("row",), ("col",)

# ---------------------------------------------------------------------------------------------------- the tables


def _memory(matrix: str, shapes: str, types: str, ptx: str, since: str, layouts: tuple[str, ...] = _BOTH) -> list[Rows]:
    """Loads or stores in every state space."""
    slots: dict[str, Iterable[str]] = {
        "matrix": matrix.split(),
        "shape": shapes.split(),
        "layout": layouts,
        "type": types.split(),
    }
    return in_spaces(slots, "global shared", ptx, since)


_OPERAND_ROWS = [
    *_memory("a b", _SHAPES, "f16", "6.3", "sm_70"),
    *_memory("a b", _SHAPES, "s8 u8", "6.3", "sm_72"),
    *_memory("a b", _SHAPES, "bf16", "7.0", "sm_80"),
    *_memory("a b", "m16n16k8", "tf32", "7.0", "sm_80"),
    *_memory("a b", "m8n8k4", "f64", "7.0", "sm_80"),
    *_memory("a", "m8n8k32", "s4 u4", "6.3", "sm_75", _ROW),
    *_memory("b", "m8n8k32", "s4 u4", "6.3", "sm_75", _COL),
    *_memory("a", "m8n8k128", "b1", "6.3", "sm_75", _ROW),
    *_memory("b", "m8n8k128", "b1", "6.3", "sm_75", _COL),
]


def _accumulators(matrix: str) -> list[Rows]:
    return [
        *_memory(matrix, _SHAPES, "f16 f32", "6.3", "sm_70"),
        *_memory(matrix, _SHAPES, "s32", "6.3", "sm_72"),
        *_memory(matrix, "m8n8k32 m8n8k128", "s32", "6.3", "sm_75"),
        *_memory(matrix, "m16n16k8", "f32", "7.0", "sm_80"),
        *_memory(matrix, "m8n8k4", "f64", "7.0", "sm_80"),
    ]


LOAD_ROWS, STORE_ROWS = [*_OPERAND_ROWS, *_accumulators("c")], _accumulators("d")

MMA_ROWS = [
    # the f16 forms spell only D and C
    Rows({"shape": _SHAPES.split(), **ANY_LAYOUT, "dtype": ("f16", "f32"), "ctype": ("f16", "f32")}, "6.3", "sm_70"),
    multiply(_SHAPES, ["s32 s8 s8 s32", "s32 u8 u8 s32"], "6.3", "sm_72", {**ANY_LAYOUT, **SATFINITE}),
    multiply("m8n8k32", ["s32 s4 s4 s32", "s32 u4 u4 s32"], "6.3", "sm_75", SATFINITE),
    multiply("m8n8k128", pairs("s32", "b1"), "6.3", "sm_75", {"op": ("xor",)}),
    multiply("m8n8k128", pairs("s32", "b1"), "7.1", "sm_80", {"op": ("and",)}),
    multiply(_SHAPES, pairs("f32", "bf16"), "7.0", "sm_80", ANY_LAYOUT),
    multiply("m16n16k8", pairs("f32", "tf32"), "7.0", "sm_80", ANY_LAYOUT),
    multiply("m8n8k4", pairs("f64", "f64"), "7.0", "sm_80", {**ANY_LAYOUT, **ROUNDING}),
]

# ---------------------------------------------------------------------------------------------------- fragments


class _Asked(NamedTuple):
    """A fragment to look up; `order` is "row" or "col" for A and B, `elements` is the number in a register."""

    role: str
    shape: Shape
    type: str
    order: str
    elements: int


def _once(asked: _Asked) -> Layout:
    return modern(asked.role, asked.shape, asked.elements, 1)


def _repeated(asked: _Asked) -> Layout:
    """f16 operands of every shape fill sixteen slots of a lane; elements are repeated if there are too few."""
    extent = asked.shape.m if asked.role == "a" else asked.shape.n
    return modern(asked.role, asked.shape, asked.elements, 32 * 16 // (extent * asked.shape.k))


class _Row(NamedTuple):
    """A layout (None if unpublished), and the chips, roles, shapes and types (empty: all) that have it."""

    chips: frozenset[int]
    roles: str
    shapes: str
    types: str
    layout: Callable[[_Asked], Layout] | None

    def applies_to(self, asked: _Asked) -> bool:
        words = (asked.role, self.roles), (str(asked.shape), self.shapes), (asked.type, self.types)
        return all(not accepted or word in accepted.split() for word, accepted in words)


_VOLTA, _TURING, _OTHERS = frozenset({70, 72}), frozenset({75}), frozenset[int]()
#: The first row of a chip that matches a fragment applies; without one, the chip is like the others.
_LAYOUTS = (
    _Row(_VOLTA, "a b", "m16n16k16", "f16", lambda asked: volta(asked.role, asked.order)),
    _Row(_VOLTA, "c d", "m16n16k16", "f16 f32", lambda asked: volta(asked.role, asked.type)),
    _Row(_VOLTA, "", "", "", None),
    _Row(_TURING, "c d", "m8n32k16", "s32", lambda _: TURING_S32_M8N32),
    _Row(_OTHERS, "a b", "", "f16", _repeated),
    _Row(_OTHERS, "", "", "", _once),
)
_CHIPS = tuple(dict.fromkeys(row.chips for row in _LAYOUTS if row.chips))


@cache
def _fragment(role: str, shape: Shape, type_: str, order: str, chips: frozenset[int]) -> Fragment | None:
    """The fragment on some chips, or None if it has not been published."""
    holder = container(lookup(type_), None)
    asked = _Asked(role, shape, type_, order, holder.elements)
    layout = next(row.layout for row in _LAYOUTS if row.chips in (chips, _OTHERS) and row.applies_to(asked))
    return None if layout is None else Fragment(role, layout(asked), holder)


def _fragments(types: Mapping[str, Format], shape: Shape, orders: Mapping[str, str]) -> tuple[Fragments, Any]:
    """The fragments from sm_80 on, and those of chips that differ."""

    def on(chips: frozenset[int]) -> Fragments | None:
        fragments = {
            role: _fragment(role, shape, form.name, orders.get(role, ""), chips) for role, form in types.items()
        }
        known = {role: fragment for role, fragment in fragments.items() if fragment}
        return known if len(known) == len(fragments) else None

    others = ((chips, on(chips)) for chips in _CHIPS)
    elsewhere = tuple((chips, None if known is None else {"fragments": known}) for chips, known in others)
    return on(_OTHERS) or {}, elsewhere


def _make_mma(words: Words, rows: Rows, opcode: str) -> Instruction:
    shape, types = Shape.read(words["shape"]), types_of(words)
    fragments, elsewhere = _fragments(types, shape, {"a": words["alayout"], "b": words["blayout"]})
    return Instruction(
        opcode, "wmma.mma", MMA_SECTION, shape, rows.gate, types, fragments, words, rows.facts, elsewhere
    )


def _make_memory(name: str, section: str) -> Any:
    def make(words: Words, rows: Rows, opcode: str) -> Instruction:
        shape, role = Shape.read(words["shape"]), words["matrix"]
        types = {role: lookup(words["type"])}
        fragments, elsewhere = _fragments(types, shape, {role: words["layout"]})
        return Instruction(opcode, name, section, shape, rows.gate, types, fragments, words, rows.facts, elsewhere)

    return make


# ---------------------------------------------------------------------------------------------------- memory


#: Beyond any memory, but small enough that addresses computed from it do not overflow.
_FAR = 1 << 48
#: A stride is a multiple of this many bytes: the requirement of CUDA's guide for ldm. An H200 takes such pointers, too.
_GUIDE = 16


class Rule(NamedTuple):
    """What a load or store requires of the rows (or columns) of its matrix."""

    #: how many there are, and the elements of each
    lines: int
    length: int
    bytes: int
    #: the pointer is a multiple of this many bytes, and the stride of these
    size: int
    align: int


def rule_of(instruction: Instruction) -> Rule:
    """The rule of a load or store.

    The manual requires every line to be aligned to the size of the fragment. If a line is shorter than that, its
    default stride would break the rule, so the manual must mean the size of the line. CUDA's guide requires 16 bytes
    only, padded tiles rely on it, and the sanitizer gives a hint. So it does about a pointer that is not aligned to the
    size of the fragment, 32 bytes: kernels that give multiples of 16 got the right products on an H200.
    """
    fragment = instruction.fragments[instruction.words["matrix"]]
    lines, length = fragment.shape if instruction.words["layout"] == "row" else fragment.shape[::-1]
    bytes_, size = length * fragment.container.width // 8, fragment.registers * fragment.container.register_bits // 8
    return Rule(lines, length, bytes_, min(size, _GUIDE), min(size, bytes_, _GUIDE))


class _Lines:
    """Where the rows (or columns) of the matrix of a load or store are: checked pointers and strides."""

    def __init__(
        self, instruction: Instruction, memory: Memory, pointer: npt.ArrayLike, stride: npt.ArrayLike | None
    ) -> None:
        self.fragment = instruction.fragments[instruction.words["matrix"]]
        self.by_rows = instruction.words["layout"] == "row"
        self.lines, self.length, self.bytes, self.size, self.align = rule_of(instruction)
        self.pointer = np.clip(integers(instruction, pointer, "the pointer"), -_FAR, _FAR)
        self.stride = integers(instruction, self.length if stride is None else stride, "the stride")
        self._check_stride(instruction, self.fragment.container.width)
        self.memory, self.instruction = memory, instruction

    def _check_stride(self, instruction: Instruction, bits: int) -> None:
        stride = np.clip(self.stride, -_FAR, _FAR)
        self.step = stride * bits // 8
        rows = "row" if self.by_rows else "column"
        for wrong, why in (
            (self.stride < self.length, f"is less than {self.length}, the length of a {rows}: undefined"),
            (
                stride * bits % (8 * self.align) != 0,
                f"elements are not a multiple of {self.align} bytes: every {rows} must start at one",
            ),
        ):
            if wrong.any():
                at = int(self.stride[wrong].flat[0])
                raise OperandError(f"{instruction}: stride {at} {why} (PTX ISA 9.7.14.4.2)")

    def addresses(self, pointer: Array, step: Array) -> Array:
        """Byte addresses (warps, lines)."""
        return np.asarray(pointer[:, None] + step[:, None] * np.arange(self.lines, dtype=np.int64))

    def check(self, pointer: Array, step: Array, first: int) -> Array:
        """The addresses, if aligned and inside the memory; otherwise raises AddressError. Warps count from `first`."""
        addresses = self.addresses(pointer, step)
        rule = f"it starts at a multiple of {self.size} bytes, by the manual at one of the fragment's size"
        self.memory.check(pointer[:, None], self.bytes, self.size, "pointer", rule, first)
        rule = f"each {'row' if self.by_rows else 'column'} does, the first being at the pointer"
        self.memory.check(addresses, self.bytes, self.align, "line", rule, first)
        return addresses

    def elements(self, lines: Array) -> Array:
        """Patterns (warps, rows * columns) from the bytes (warps, lines, bytes) of all lines."""
        width = self.fragment.container.width
        if width < 8:
            shifts = np.arange(0, 8, width, dtype=np.uint8)
            patterns = (lines[..., None] >> shifts & np.uint8((1 << width) - 1)).reshape(
                len(lines), self.lines, self.length
            )
        else:
            patterns = np.ascontiguousarray(lines).view(self.fragment.container.storage)
        patterns = patterns if self.by_rows else patterns.swapaxes(1, 2)
        return np.ascontiguousarray(patterns).reshape(len(lines), -1)

    def bytes_of(self, patterns: Array) -> Array:
        """Bytes (warps, lines, bytes) from patterns (warps, rows * columns) of accumulators, which fill whole bytes."""
        matrix = patterns.reshape(-1, *self.fragment.shape)
        lines = np.ascontiguousarray(matrix if self.by_rows else matrix.swapaxes(1, 2))
        return lines.view(np.uint8).reshape(len(lines), self.lines, self.bytes)

    def warps(self, registers: Array | None = None) -> tuple[tuple[int, ...], dict[str, Any]]:
        """The broadcast warps, and for each operand a function that takes a slice of them."""
        parts = {"pointer": (self.pointer, self.pointer.shape), "step": (self.step, self.step.shape)}
        if registers is not None:
            parts["registers"] = (registers, registers.shape[:-2])
        parts["which"] = (self.memory.numbers, self.memory.own)
        shape = broadcast(self.instruction, {name: each for name, (_, each) in parts.items()})
        return shape, {name: take(array, each, shape) for name, (array, each) in parts.items()}


_CHUNK = 1024


def _load(instruction: Instruction, _: Any, operands: Sequence[npt.ArrayLike], memories: Mapping[str, Any]) -> Array:
    """Load the matrix at a pointer into a fragment."""
    if len(operands) not in (1, 2):
        raise OperandError(f"{instruction} takes a pointer and optionally a stride; got {len(operands)} operands")
    lines = _Lines(instruction, Memory(instruction, memories), operands[0], operands[1] if len(operands) == 2 else None)
    warps, parts = lines.warps()
    fragment = lines.fragment
    out = np.empty((prod(warps), fragment.lanes * fragment.registers), fragment.container.register_dtype)
    for start in range(0, len(out), _CHUNK):
        some = slice(start, start + _CHUNK)
        at = lines.check(parts["pointer"](some), parts["step"](some), start)
        lines_read = lines.memory.load(at, lines.bytes, parts["which"](some) if lines.memory.own else None)
        out[some] = fragment.write(lines.elements(lines_read))
    return out.reshape(*warps, fragment.lanes, fragment.registers)


def _store(instruction: Instruction, _: Any, operands: Sequence[npt.ArrayLike], memories: Mapping[str, Any]) -> None:
    """Store the fragment's matrix at a pointer; the memory changes in place."""
    if len(operands) not in (2, 3):
        raise OperandError(
            f"{instruction} takes a pointer, registers of D and optionally a stride; got {len(operands)} operands"
        )
    lines = _Lines(instruction, Memory(instruction, memories), operands[0], operands[2] if len(operands) == 3 else None)
    warps, parts = lines.warps(lines.fragment.check(operands[1]))
    chunks = [slice(start, start + _CHUNK) for start in range(0, prod(warps), _CHUNK)]
    for some in chunks:  # check everything before storing the first byte
        lines.check(parts["pointer"](some), parts["step"](some), some.start)
    for some in chunks:
        at = lines.addresses(parts["pointer"](some), parts["step"](some))
        patterns = lines.fragment.read(parts["registers"](some))
        lines.memory.store(at, lines.bytes_of(patterns), parts["which"](some) if lines.memory.own else None)


# ---------------------------------------------------------------------------------------------------- the families

_BYTES = frozenset({"shared", "memory"})
LOAD = Family(
    "wmma.load",
    LOAD_SECTION,
    Spelling("wmma.load.{matrix}.sync.aligned.{layout}.{shape}[.{ss}].{type}", vocabulary(LOAD_ROWS)),
    tuple(LOAD_ROWS),
    _make_memory("wmma.load", LOAD_SECTION),
    _load,
    mnemonic="wmma",
    distinguishing=frozenset({"load"}),
    signature="{matrix} = pointer stride?",
    about="loads a matrix from memory into a fragment, by one warp",
    memories=_BYTES,
)
STORE = Family(
    "wmma.store",
    STORE_SECTION,
    Spelling("wmma.store.{matrix}.sync.aligned.{layout}.{shape}[.{ss}].{type}", vocabulary(STORE_ROWS)),
    tuple(STORE_ROWS),
    _make_memory("wmma.store", STORE_SECTION),
    _store,
    mnemonic="wmma",
    distinguishing=frozenset({"store"}),
    signature="= pointer {matrix} stride?",
    about="stores a matrix from a fragment into memory, by one warp",
    memories=_BYTES,
)
MMA = Family(
    "wmma.mma",
    MMA_SECTION,
    Spelling(
        "wmma.mma[.{op}.popc].sync.aligned.{alayout}.{blayout}.{shape}[.{rounding}].{dtype}[.{atype}.{btype}].{ctype}[.{satfinite}]",
        vocabulary(MMA_ROWS),
    ),
    tuple(MMA_ROWS),
    _make_mma,
    execute,
    PRODUCTS,
    mnemonic="wmma",
    distinguishing=frozenset({"mma"}),
    computes=True,
    matrices=True,
    about="D = A B + C by one warp, on fragments with wmma's own layouts",
)

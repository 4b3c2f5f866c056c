"""mma.sync: D = A B + C by one warp (PTX ISA 9.1, 9.7.14.5.14), every dense form.

    d = tcemu.run("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a, b, c)

Registers are arrays (..., 32, registers), uint32 (uint64 for f64). Every legal opcode is a row below.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import Operation, compute
from tcemu.errors import OperandError
from tcemu.formats import Container, Format, lookup
from tcemu.instructions.family import Family, Refusal
from tcemu.instructions.instruction import Instruction, Shape
from tcemu.instructions.spelling import Spelling, Words
from tcemu.instructions.targets import Gate
from tcemu.layouts import Fragment, Layout
from tcemu.layouts.mma import ordinary, quad_pairs

Array = npt.NDArray[Any]

SECTION = "9.7.14.5.14"
TEMPLATE = (
    "mma.sync.aligned.{shape}.{alayout}.{blayout}[.{kind}][.{satfinite}][.{rounding}]"
    ".{dtype}.{atype}.{btype}.{ctype}[.{op}.popc]"
)

# ---------------------------------------------------------------------------------------------------- the table


@dataclass(frozen=True)
class _Rows:
    """Legal forms that share a gate: the product of everything in it. Types are "d a b c"."""

    shapes: str
    types: Iterable[str]
    ptx: str
    since: str
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: Bits of a register for one element of A and B, where it is not the format's own container.
    width: int | None = None
    #: Four 8x8x4 products on quad pairs instead of one on the warp.
    quad_pairs: bool = False

    def expand(self) -> Iterator[tuple[Words, _Rows]]:
        for shape, types, *options in product(self.shapes.split(), self.types, *self.options.values()):
            slots = dict(zip(("dtype", "atype", "btype", "ctype"), types.split(), strict=True))
            words = {"shape": shape, "alayout": "row", "blayout": "col", **slots, **dict(zip(self.options, options, strict=True))}
            yield {slot: word for slot, word in words.items() if word}, self


def _pairs(accumulators: str, a: str, b: str | None = None) -> list[str]:
    """Every "d a b c" with equal accumulators and any pair of operand types."""
    return [f"{d} {x} {y} {d}" for d, x, y in product(accumulators.split(), a.split(), (b or a).split())]


_ANY_LAYOUT = {"alayout": ("row", "col"), "blayout": ("row", "col")}
_SATFINITE = {"satfinite": ("", "satfinite")}
_ROUNDING = {"rounding": ("", "rn", "rz", "rm", "rp")}
_F8F6F4 = {"kind": ("kind::f8f6f4",)}
_FP8, _FP6_FP4 = "e4m3 e5m2", "e3m2 e2m3 e2m1"
_SMALL = [types for types in _pairs("f16 f32", f"{_FP8} {_FP6_FP4}") if types not in _pairs("f16 f32", _FP8)]
_BLACKWELL, _RTX_BLACKWELL = "sm_100f sm_110f sm_120f", "sm_120f"

ROWS = (
    # ---- f16, bf16, tf32
    _Rows("m8n8k4", ["f16 f16 f16 f16", "f32 f16 f16 f16", "f32 f16 f16 f32"], "6.4", "sm_70", _ANY_LAYOUT, quad_pairs=True),
    _Rows("m16n8k8", _pairs("f16 f32", "f16"), "6.5", "sm_75"),
    _Rows("m16n8k16", _pairs("f16 f32", "f16"), "7.0", "sm_80"),
    _Rows("m16n8k8 m16n8k16", _pairs("f32", "bf16"), "7.0", "sm_80"),
    _Rows("m16n8k4 m16n8k8", _pairs("f32", "tf32"), "7.0", "sm_80"),
    # ---- fp8, and the 6- and 4-bit floats in bytes
    _Rows("m16n8k32", _pairs("f32", _FP8), "8.4", "sm_89"),
    _Rows("m16n8k32", _pairs("f16", _FP8), "8.7", "sm_89"),
    _Rows("m16n8k16", _pairs("f16 f32", _FP8), "8.7", "sm_89"),
    _Rows("m16n8k32", _pairs("f32", _FP8), "8.6", _BLACKWELL, _F8F6F4, width=8),
    _Rows("m16n8k32", _pairs("f16", _FP8), "8.7", _BLACKWELL, _F8F6F4, width=8),
    _Rows("m16n8k16", _pairs("f16 f32", _FP8), "8.7", _BLACKWELL, _F8F6F4, width=8),
    _Rows("m16n8k32", _SMALL, "8.7", _RTX_BLACKWELL, _F8F6F4, width=8),
    # ---- f64
    _Rows("m8n8k4", _pairs("f64", "f64"), "7.0", "sm_80", _ROUNDING),
    _Rows("m16n8k4 m16n8k8 m16n8k16", _pairs("f64", "f64"), "7.8", "sm_90", _ROUNDING),
    # ---- integers
    _Rows("m8n8k16", _pairs("s32", "s8 u8"), "6.5", "sm_75", _SATFINITE),
    _Rows("m16n8k16 m16n8k32", _pairs("s32", "s8 u8"), "7.0", "sm_80", _SATFINITE),
    _Rows("m8n8k32", _pairs("s32", "s4 u4"), "6.5", "sm_75", _SATFINITE),
    _Rows("m16n8k32 m16n8k64", _pairs("s32", "s4 u4"), "7.0", "sm_80", _SATFINITE),
    # ---- single bits
    _Rows("m8n8k128", _pairs("s32", "b1"), "7.0", "sm_75", {"op": ("xor",)}),
    _Rows("m16n8k128 m16n8k256", _pairs("s32", "b1"), "7.0", "sm_80", {"op": ("xor",)}),
    _Rows("m8n8k128 m16n8k128 m16n8k256", _pairs("s32", "b1"), "7.1", "sm_80", {"op": ("and",)}),
)

REFUSALS = (
    Refusal(
        {"shape": ("m8n8k4",), "atype": ("bf16", "tf32"), "btype": ("bf16", "tf32")},
        "m8n8k4 multiplies f16 and f64 only. The assembler takes it with bf16 and tf32, but emits no instruction for it: "
        "D would keep what it held before.",
    ),
)

#: Where the pattern stands in a container that is wider than it: e2m1 in bits 5:2 of its byte (9.7.14.5.14).
_SHIFT_IN_BYTE = {"e2m1": 2}

# ---------------------------------------------------------------------------------------------------- its instructions


def _instruction(words: Words, rows: _Rows) -> Instruction:
    shape = Shape(*(int(number) for number in words["shape"][1:].replace("n", " ").replace("k", " ").split()))
    types = {role: lookup(words[f"{role}type"]) for role in "dabc"}
    return Instruction(
        opcode=SPELLING.write(words),
        family="mma",
        section=SECTION,
        shape=shape,
        types=types,
        fragments={role: _fragment(role, form, shape, words, rows) for role, form in types.items()},
        gate=Gate(rows.ptx, tuple(rows.since.split())),
        qualifiers=tuple((slot, words[slot]) for slot in ("rounding", "satfinite", "op") if slot in words),
    )


def _fragment(role: str, form: Format, shape: Shape, words: Words, rows: _Rows) -> Fragment:
    operand = role in "ab"
    width = rows.width if rows.width and operand else form.container
    container = Container(form, width, _SHIFT_IN_BYTE.get(form.name, 0) if width != form.container else 0)
    layout: Layout
    if rows.quad_pairs:
        layout = quad_pairs(role, words[f"{role}layout"] if operand else form.name)
    else:
        layout = ordinary(role, shape, container.elements)
    return Fragment(role, layout, container)


def _vocabulary() -> dict[str, tuple[str, ...]]:
    """The words of each slot, in the order of their first row."""
    slots: dict[str, dict[str, None]] = {}
    for rows in ROWS:
        for words, _ in rows.expand():
            for slot, word in words.items():
                slots.setdefault(slot, {})[word] = None
    return {slot: tuple(words) for slot, words in slots.items()}


SPELLING = Spelling(TEMPLATE, _vocabulary())

# ---------------------------------------------------------------------------------------------------- executing one

#: Warps that are unpacked at a time: enough to hide the calls, few enough to stay in the cache.
_CHUNK = 1024


def execute(instruction: Instruction, operation: Operation, operands: Sequence[npt.ArrayLike]) -> Array:
    """D of A, B and C: registers (..., 32, registers) each; the axes in front are warps and broadcast."""
    if len(operands) != 3:
        raise OperandError(f"{instruction} takes registers of A, B and C, and returns D; got {len(operands)} operands")
    a, b, c = (instruction.fragments[role].check(given) for role, given in zip("abc", operands, strict=True))
    try:
        warps = a.shape[:-2]
        if not warps == b.shape[:-2] == c.shape[:-2]:
            warps = np.broadcast_shapes(warps, b.shape[:-2], c.shape[:-2])
    except ValueError:
        shapes = ", ".join(f"{role} {array.shape[:-2]}" for role, array in zip("abc", (a, b, c), strict=True))
        raise OperandError(f"{instruction}: the axes in front of lanes and registers do not broadcast: {shapes}") from None
    target = instruction.fragments["d"]
    d = np.empty((prod(warps), target.lanes * target.registers), target.container.register_dtype)
    flat = [_flat(array, warps) for array in (a, b, c)]
    for start in range(0, len(d), _CHUNK):
        some = slice(start, start + _CHUNK)
        d[some] = _execute(instruction, operation, *(take(some) for take in flat))
    return d.reshape(*warps, target.lanes, target.registers)


def _execute(instruction: Instruction, operation: Operation, a: Array, b: Array, c: Array) -> Array:
    """The three paragraphs of every instruction, on flat registers (warps, 32 * registers)."""
    fragments, (m, n, k) = instruction.fragments, instruction.shape
    words = operation.packed
    k = k // 32 if words else k

    # READ: by layout
    a = fragments["a"].read(a, words=words).reshape(-1, m, k)
    b = fragments["b"].read(b, words=words).reshape(-1, k, n)
    c = fragments["c"].read(c).reshape(-1, m, n)

    # COMPUTE: by the arithmetic row
    d = compute(operation, a, b, c)

    # WRITE: by layout
    return fragments["d"].write(d.reshape(-1, fragments["d"].layout.scatter.size))


def _flat(registers: Array, warps: tuple[int, ...]) -> Any:
    """A function from a slice of the broadcast warps to their registers, (warps, lanes * registers); nothing is repeated."""
    own = registers.shape[:-2]
    flat = registers.reshape(prod(own), -1)
    if own == warps:
        return flat.__getitem__
    index = np.broadcast_to(np.arange(len(flat)).reshape(own), warps).reshape(-1)
    return lambda some: flat[index[some]]


FAMILY = Family(
    name="mma",
    section=SECTION,
    spelling=SPELLING,
    variants=tuple((words, _instruction(words, rows)) for rows in ROWS for words, rows in rows.expand()),
    execute=execute,
    refusals=REFUSALS,
)

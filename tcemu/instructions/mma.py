"""mma.sync: D = A B + C by one warp (PTX ISA 9.1, 9.7.14.5.14), every dense form.

    d = tcemu.run("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a, b, c)

Registers are arrays (..., 32, registers) of uint32, or uint64 for f64. The rows below have every legal opcode.
"""

from __future__ import annotations

from tcemu.formats import Format
from tcemu.instructions.family import Family, Refusal
from tcemu.instructions.instruction import Instruction, Shape
from tcemu.instructions.lessons import LAYOUTS, PRODUCTS
from tcemu.instructions.multiply import container, execute, types_of
from tcemu.instructions.rows import Rows, multiply, pairs, vocabulary
from tcemu.instructions.spelling import Spelling, Words
from tcemu.layouts import Fragment
from tcemu.layouts.mma import ordinary, quad_pairs

SECTION = "9.7.14.5.14"
TEMPLATE = (
    "mma.sync.aligned.{shape}.{alayout}.{blayout}[.{kind}][.{satfinite}][.{rounding}]"
    ".{dtype}.{atype}.{btype}.{ctype}[.{op}.popc]"
)

ANY_LAYOUT = {"alayout": ("row", "col"), "blayout": ("row", "col")}
SATFINITE = {"satfinite": ("", "satfinite")}
ROUNDING = {"rounding": ("", "rn", "rz", "rm", "rp")}
F8F6F4 = {"kind": ("kind::f8f6f4",)}
FP8, FP6_FP4 = "e4m3 e5m2", "e3m2 e2m3 e2m1"
#: Pairs in which at least one type is a 6- or 4-bit float.
SMALL = [types for types in pairs("f16 f32", f"{FP8} {FP6_FP4}") if types not in pairs("f16 f32", FP8)]
BLACKWELL, RTX_BLACKWELL = "sm_100f sm_110f sm_120f", "sm_120f"

ROWS = (
    # ---- f16, bf16, tf32
    multiply(
        "m8n8k4", ["f16 f16 f16 f16", "f32 f16 f16 f16", "f32 f16 f16 f32"], "6.4", "sm_70", ANY_LAYOUT, quads=True
    ),
    multiply("m16n8k8", pairs("f16 f32", "f16"), "6.5", "sm_75"),
    multiply("m16n8k16", pairs("f16 f32", "f16"), "7.0", "sm_80"),
    multiply("m16n8k8 m16n8k16", pairs("f32", "bf16"), "7.0", "sm_80"),
    multiply("m16n8k4 m16n8k8", pairs("f32", "tf32"), "7.0", "sm_80"),
    # ---- fp8, and the 6- and 4-bit floats in bytes
    multiply("m16n8k32", pairs("f32", FP8), "8.4", "sm_89"),
    multiply("m16n8k32", pairs("f16", FP8), "8.7", "sm_89"),
    multiply("m16n8k16", pairs("f16 f32", FP8), "8.7", "sm_89"),
    multiply("m16n8k32", pairs("f32", FP8), "8.6", BLACKWELL, F8F6F4, width=8),
    multiply("m16n8k32", pairs("f16", FP8), "8.7", BLACKWELL, F8F6F4, width=8),
    multiply("m16n8k16", pairs("f16 f32", FP8), "8.7", BLACKWELL, F8F6F4, width=8),
    multiply("m16n8k32", SMALL, "8.7", RTX_BLACKWELL, F8F6F4, width=8),
    # ---- f64
    multiply("m8n8k4", pairs("f64", "f64"), "7.0", "sm_80", ROUNDING),
    multiply("m16n8k4 m16n8k8 m16n8k16", pairs("f64", "f64"), "7.8", "sm_90", ROUNDING),
    # ---- integers
    multiply("m8n8k16", pairs("s32", "s8 u8"), "6.5", "sm_75", SATFINITE),
    multiply("m16n8k16 m16n8k32", pairs("s32", "s8 u8"), "7.0", "sm_80", SATFINITE),
    multiply("m8n8k32", pairs("s32", "s4 u4"), "6.5", "sm_75", SATFINITE),
    multiply("m16n8k32 m16n8k64", pairs("s32", "s4 u4"), "7.0", "sm_80", SATFINITE),
    # ---- single bits
    multiply("m8n8k128", pairs("s32", "b1"), "7.0", "sm_75", {"op": ("xor",)}),
    multiply("m16n8k128 m16n8k256", pairs("s32", "b1"), "7.0", "sm_80", {"op": ("xor",)}),
    multiply("m8n8k128 m16n8k128 m16n8k256", pairs("s32", "b1"), "7.1", "sm_80", {"op": ("and",)}),
)

REFUSALS = (
    Refusal(
        {"shape": ("m8n8k4",), "atype": ("bf16", "tf32"), "btype": ("bf16", "tf32")},
        "m8n8k4 multiplies f16 and f64 only. The assembler accepts it with bf16 and tf32 but emits no instruction "
        "for it: D would keep its old value.",
    ),
    *PRODUCTS,
    *LAYOUTS,
)


def _instruction(words: Words, rows: Rows, opcode: str) -> Instruction:
    shape, types = Shape.read(words["shape"]), types_of(words)
    fragments = {role: _fragment(role, form, shape, words, rows) for role, form in types.items()}
    return Instruction(opcode, "mma", SECTION, shape, rows.gate, types, fragments, words, rows.facts)


def _fragment(role: str, form: Format, shape: Shape, words: Words, rows: Rows) -> Fragment:
    holder = container(form, rows.facts.width if role in "ab" else None)
    if rows.facts.quads:
        return Fragment(role, quad_pairs(role, words[f"{role}layout"] if role in "ab" else form.name), holder)
    return Fragment(role, ordinary(role, shape, holder.elements), holder)


FAMILY = Family(
    "mma",
    SECTION,
    Spelling(TEMPLATE, vocabulary(ROWS)),
    tuple(ROWS),
    _instruction,
    execute,
    REFUSALS,
    computes=True,
    matrices=True,
    about="D = A B + C by one warp",
)

"""What people write although no instruction has it, and why none does: words that an error about an opcode explains."""

from __future__ import annotations

from tcemu.instructions.family import Refusal

_SAME_WIDTH = "A and B must have elements of the same width: extend the 4-bit operand to 8 bits."
_EIGHT, _FOUR = ("s8", "u8"), ("s4", "u4")

#: Operand types and accumulators that no tensor core combines.
PRODUCTS = (
    Refusal(
        {"dtype": ("bf16", "f16", "tf32"), "atype": ("bf16", "tf32")},
        "Tensor cores sum products of bf16 and tf32 in f32, so D and C are f32. Round the finished sums: "
        "cvt.rn.bf16x2.f32 packs two.",
    ),
    Refusal(
        {"dtype": ("bf16", "tf32", "e4m3", "e5m2")},
        "No tensor core sums in this type: D is f32, or f16 for products of f16 and 8-bit floats. Round the finished "
        "sums, for example with cvt.rn.bf16x2.f32, which packs two.",
    ),
    Refusal(
        {"dtype": ("f32", "f16", "s8", "u8"), "atype": (*_EIGHT, *_FOUR, "b1")},
        "Tensor cores sum products of integers in s32, so D and C are s32. Convert the finished sums.",
    ),
    Refusal(
        {"atype": ("f32",)},
        "No tensor core multiplies f32. Round A and B to tf32 with cvt.rna.tf32.f32: it has the range of f32 and 10 "
        "bits of mantissa, and the sums are f32.",
    ),
    Refusal({"atype": _EIGHT, "btype": _FOUR}, _SAME_WIDTH),
    Refusal({"atype": _FOUR, "btype": _EIGHT}, _SAME_WIDTH),
)

_ONE_LAYOUT = (
    "Only m8n8k4 of f16 has other layouts than .row for A and .col for B. For {}, load the fragments with "
    "ldmatrix .trans, which transposes elements of 16 bits."
)

#: Layouts and mixtures that only Volta's m8n8k4 has.
LAYOUTS = (
    Refusal({"blayout": ("row",)}, _ONE_LAYOUT.format("a B that is stored by rows")),
    Refusal({"alayout": ("col",)}, _ONE_LAYOUT.format("an A that is stored by columns")),
    Refusal(
        {"shape": ("m16n8k8", "m16n8k16"), "dtype": ("f32",), "atype": ("f16",), "ctype": ("f16",)},
        "C has the type of D. Only m8n8k4 can have another, but that shape was made for the V100 and is slow on later "
        "GPUs.",
    ),
)

#: n of integer products by warpgroups.
INTEGER_N = (
    Refusal(
        {
            "shape": tuple(f"m64n{n}k{k}" for n in range(40, 257, 16) for k in (32, 64, 256)),
            "atype": (*_EIGHT, "b1"),
        },
        "Of integers and single bits, n is 8, 16, 24 or a multiple of 16 from 32 to 256.",
    ),
)

_PAIRS = (
    "With elements of 16 bits, .trans keeps both bytes of one together, so it does not transpose a matrix of bytes."
)

#: Matrices of bytes and of words.
MOVES = (
    Refusal(
        {"shape": ("m8n8", "m16n16", "m16n8"), "type": ("b8",), "trans": ("trans",)},
        f"{_PAIRS} ldmatrix .m16n16 and stmatrix .m16n8 do, on Blackwell. Elsewhere, store the tile K-major, so that "
        "nothing has to be transposed, or transpose the bytes in registers with prmt.",
    ),
    Refusal(
        {"shape": ("m8n8",), "type": ("b8",), "trans": ("",)},
        "A row of .m8n8 has 16 bytes, whatever they hold: for elements of 8 bits write .b16, which then holds two. "
        "The .b8 forms transpose.",
    ),
    Refusal(
        {"type": ("b32",), "trans": ("trans",)},
        "ldmatrix, stmatrix and movmatrix move elements of 16 bits: .trans would tear the halves of a 32-bit element "
        "apart. Without it, .b16 moves them in pairs.",
        {"trans": ""},
    ),
)

"""Exercises of notebook 07: integers of 8 and 4 bits, and single bits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Crafted, Function, Kernel, Values
from tcemu.course.record import Exercise, Given
from tcemu.formats import Container, lookup
from tcemu.instructions import matmul

Array = npt.NDArray[Any]

S8 = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
CLAMPED = "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32"
U8 = "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32"
B1 = "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc"

# ---------------------------------------------------------------------------------------------- s4 in a register


def _draw_s4(rng: np.random.Generator) -> Mapping[str, Any]:
    """Eight s4 numbers, in no order, some of them negative."""
    negative, others = -1 - rng.permutation(8)[:3], rng.permutation(8)[:5]
    return {"numbers": rng.permutation(np.concatenate([negative, others])).astype(np.int64)}


def _packed(given: Given) -> int:
    return int(Container(lookup("s4"), width=4).pack(lookup("s4").encode(given.numbers))[0])


def _joined(numbers: Iterable[int], width: int = 4, mask: int | None = 15) -> int:
    """Numbers side by side from the low bits up; without a mask, as Python's | joins negative numbers."""
    word = 0
    for place, number in enumerate(numbers):
        word |= (number if mask is None else number & mask) << width * place
    return word & 0xFFFFFFFF


def _wrong_packings(given: Given) -> Iterator[tuple[str, int]]:
    numbers = given.numbers.tolist()
    yield "The first number belongs in the lowest bits; you started from the highest.", _joined(numbers[::-1])
    yield "Mask each number with 15: the sign bits of a negative one cover all that is above it.", (
        _joined(numbers, mask=None)
    )
    yield "Mask each number with 15: when you add them up, each negative one takes 1 from its neighbour.", (
        sum(number << 4 * place for place, number in enumerate(numbers)) & 0xFFFFFFFF
    )
    pairs = [numbers[place ^ 1] for place in range(8)]
    yield "The two halves of each byte are exchanged: the first of two numbers is in the low half.", _joined(pairs)
    yield "You gave each number a byte; s4 has four bits to a number, and eight numbers to a register.", (
        _joined(numbers[:4], 8, 255)
    )
    sign = [(8 if number < 0 else 0) | abs(number) & 7 for number in numbers]
    yield "You wrote sign and magnitude; s4 is two's complement.", _joined(sign)
    yield "You added 8 to each number; s4 is two's complement.", _joined([number + 8 for number in numbers])
    yield "You packed the magnitudes: the signs are lost.", _joined([abs(number) for number in numbers])


def _draw_registers(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"registers": rng.integers(0, 1 << 32, 16, dtype=np.uint64).astype(np.uint32)}


def _nibbles(registers: Array) -> Array:
    """The eight s4 of each register, as int64 (registers, 8)."""
    codes = Container(lookup("s4"), width=4).unpack(registers[:, None])
    return lookup("s4").decode(codes).astype(np.int64).reshape(len(registers), 8)


def _bytes(numbers: Array) -> Array:
    """Four numbers as the bytes of a register."""
    found: Array = np.ascontiguousarray(numbers.astype(np.int8)).view(np.uint32).reshape(-1)
    return found


def _evens_and_odds(numbers: Array) -> Array:
    return np.stack([_bytes(numbers[:, ::2]), _bytes(numbers[:, 1::2])])


def _wrong_halves(given: Given) -> Iterator[tuple[str, Array]]:
    signed, words = _nibbles(given.registers), given.registers
    evens, odds = words & np.uint32(0x0F0F0F0F), words >> np.uint32(4) & np.uint32(0x0F0F0F0F)
    yield "The signs are lost: a negative s4 needs ones in the upper half of its byte.", np.stack([evens, odds])
    yield "You exchanged the two registers: the even places come first.", _evens_and_odds(signed)[::-1]
    yield "The numbers are sixteen times too large: shift them down, and let the sign bit fill the upper half.", (
        np.stack([(words & np.uint32(0x0F0F0F0F)) << np.uint32(4), words & np.uint32(0xF0F0F0F0)])
    )
    yield "These are the lower four numbers and the upper four; here it is the even ones and the odd ones.", (
        np.stack([_bytes(signed[:, :4]), _bytes(signed[:, 4:])])
    )
    low = np.where(evens & np.uint32(8), evens | np.uint32(0xFFFFFFF0), evens)
    high = np.where(odds & np.uint32(8), odds | np.uint32(0xFFFFFFF0), odds)
    yield "You extended the sign of the lowest byte only.", np.stack([low, high])


# ---------------------------------------------------------------------------------------------- one output, exactly


def _too_early(evidence: Mapping[str, Array], given: Given) -> str:
    a, b, c = evidence["A"], evidence["B"], evidence["C"]
    exact = int(c[0, 0]) + int(a[0].astype(np.int64) @ b[:, 0].astype(np.int64))
    first = int(c[0, 0]) + int(a[0, :32].astype(np.int64) @ b[:32, 0].astype(np.int64))
    low, high = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    said = f"D[0][0] should be {exact}."
    if not low <= exact <= high:
        return f"{said} That does not fit into s32: let the second instruction bring the sum back."
    if low <= first <= high:
        return f"{said} After the first 32 of k the sum is {first}, which fits, so nothing is clamped."
    wraps, clamps = (int(matmul(a, b, c, instruction=op)[0, 0]) for op in (S8, CLAMPED))
    return "" if wraps == exact != clamps else f"{said} The instructions give {wraps} and {clamps}."


def _draw_zero_point(rng: np.random.Generator) -> Mapping[str, Any]:
    zero = int(rng.integers(90, 165))
    a = rng.integers(0, 256, (16, 64)).astype(np.uint8)
    b = rng.integers(-128, 128, (64, 8)).astype(np.int8)
    return {"A": a, "B": b, "zero": zero, "D": matmul(a, b, instruction=U8)}


def _without_zero(given: Given) -> Array:
    product: Array = (given.A.astype(np.int64) - given.zero) @ given.B.astype(np.int64)
    return product


def _wrong_corrections(given: Given) -> Iterator[tuple[str, Array]]:
    d, b, zero = given.D.astype(np.int64), given.B.astype(np.int64), given.zero
    yield "You subtracted the zero point from D; it is in each element of A, and each of them meets one of B.", d - zero
    yield "You subtracted K times the zero point; what it met in B is missing.", d - zero * len(b)
    yield "The sign is wrong: the zero point was added to A, so subtract its share.", d + zero * b.sum(axis=0)
    yield "You took the sum of all of B; each column of D needs the sum of its own column.", d - zero * b.sum()
    rows = given.A.astype(np.int64).sum(axis=1)
    yield "You took the sums of A's rows; the zero point is in A, so it is multiplied by B's columns.", (
        d - zero * rows[:, None]
    )
    yield "This is D as it was: nothing is corrected.", d
    sums = b.sum(axis=0).astype(np.int8).astype(np.int64)
    for share in (zero * sums, (zero * sums).astype(np.int8)):  # the product, too, if numpy keeps to 8 bits
        yield "A sum of 64 elements of B does not fit into 8 bits: add them up in wider integers.", d - share
    yield "You subtracted the zero point in uint8: where A is smaller, the difference wrapped around.", (
        (given.A.astype(np.int64) - zero & 255) @ b
    )
    clipped = np.clip(given.A.astype(np.int64) - zero, -128, 127)
    if (clipped != given.A.astype(np.int64) - zero).any():
        yield "A minus its zero point does not fit into s8; correct D, and leave A as it is.", clipped @ b


# ---------------------------------------------------------------------------------------------- quantising


def _draw_rows(rng: np.random.Generator) -> Mapping[str, Any]:
    """Rows of different sizes. The scale of the last two is a power of two, so that they can have ties."""
    sizes = np.exp(rng.normal(size=(8, 1)))
    numbers = rng.normal(size=(8, 32)) * sizes
    powers = 2.0 ** rng.integers(-9, 1, (2, 1))
    numbers[6:] = (rng.integers(-100, 100, (2, 32)) + rng.choice([0.25, 0.5], (2, 32))) * powers
    numbers[6:, 5] = 127 * powers[:, 0]
    return {"numbers": numbers.astype(np.float32)}


def _quantised(numbers: Array, scale: Array) -> Array:
    found: Array = np.clip(np.rint(numbers / scale), -127, 127).astype(np.int8)
    return found


def _scale(numbers: Array, axis: int | None = 1, most: float = 127) -> Array:
    found: Array = np.abs(numbers).max(axis=axis, keepdims=True) / np.float32(most)
    return found


def _wrong_quantisations(given: Given) -> Iterator[tuple[str, Array]]:
    x = given.numbers
    right = _scale(x)
    yield "You truncated the numbers toward zero: round to the nearest.", (x / right).astype(np.int8)
    yield "One scale for the whole matrix: each row has its own.", _quantised(x, _scale(x, None))
    yield "One scale for each column: it is the rows that have one.", _quantised(x, _scale(x, 0))
    yield "You divided by 128, so that the largest number lands at ±128, which s8 has on one side only.", (
        _quantised(x, _scale(x, 1, 128))
    )
    largest = x.max(axis=1, keepdims=True) / np.float32(127)
    for numbers in (_quantised(x, largest), np.rint(x / largest).astype(np.int64).astype(np.int8)):
        yield "The scale is that of the largest number; the largest magnitude may be negative.", numbers
    for axis, most, says in (
        (1, 128, "You divided by 128, so 128 wrapped around to −128. Divide by 127."),
        (0, 127, "One scale for each column: it is the rows that have one."),
    ):
        yield says, np.rint(x / _scale(x, axis, most)).astype(np.int64).astype(np.int8)
    yield "You rounded down: round to the nearest.", np.clip(np.floor(x / right), -128, 127).astype(np.int8)
    wrapped = np.rint(x / _scale(x, 1, 255)).astype(np.int64).astype(np.int8)
    yield "You divided the whole range by 255, and what is beyond 127 wrapped around.", wrapped
    yield "Ties go to the even number; you rounded them away from zero.", (
        np.trunc(x / right + np.copysign(np.float32(0.5), x)).astype(np.int8)
    )
    yield "Ties go to the even number; you rounded them up.", np.floor(x / right + np.float32(0.5)).astype(np.int8)


# ---------------------------------------------------------------------------------------------- kernels


def _draw_layer(rng: np.random.Generator) -> Mapping[str, Any]:
    return {
        "x": rng.integers(-127, 128, (16, 96)).astype(np.int8),
        "w": rng.integers(-127, 128, (8, 96)).astype(np.int8),
        "scale_x": rng.uniform(0.001, 0.01, 16).astype(np.float32),
        "scale_w": rng.uniform(0.001, 0.01, 8).astype(np.float32),
    }


def _layer_arguments(given: Given) -> Mapping[str, Any]:
    return {**given, "out": np.zeros((16, 8), np.float32)}


def _products(given: Given, x: Array | None = None, w: Array | None = None) -> Array:
    left, right = given.x if x is None else x, given.w if w is None else w
    found: Array = left.astype(np.int64) @ right.astype(np.int64).T
    return found


def _scaled(sums: Array, given: Given) -> Array:
    found: Array = sums.astype(np.float32) * given.scale_x[:, None] * given.scale_w
    return found


def _layer(given: Given) -> Array:
    return _scaled(matmul(given.x, np.ascontiguousarray(given.w.T), instruction=S8), given)


def _wrong_layers(given: Given) -> Iterator[tuple[str, Array]]:
    sums = _products(given)
    yield "The scales are missing: this is the integer product.", sums.astype(np.float32)
    yield "The scale of the rows is missing.", sums.astype(np.float32) * given.scale_w
    yield "The scale of the columns is missing.", sums.astype(np.float32) * given.scale_x[:, None]
    yield "You multiplied the two scales first; here each product is rounded, rows first.", (
        sums.astype(np.float32) * (given.scale_x[:, None] * given.scale_w)
    )
    yield "You scaled the columns first; here it is rows first, and each product is rounded.", (
        sums.astype(np.float32) * given.scale_w * given.scale_x[:, None]
    )
    yield "Only the first 32 of k are multiplied: loop over k.", (
        _scaled(_products(given, given.x[:, :32], given.w[:, :32]), given)
    )
    yield "Only the last 32 of k are in the result: pass each D on as the next C.", (
        _scaled(_products(given, given.x[:, -32:], given.w[:, -32:]), given)
    )
    yield "You multiplied as u8: the bytes of negative numbers count as 128 to 255.", (
        _scaled(_products(given, given.x.view(np.uint8), given.w.view(np.uint8)), given)
    )
    upper = np.concatenate([given.x[:8], given.x[:8]])
    yield "Rows 8 to 15 repeat rows 0 to 7: registers 1 and 3 of A hold the rows 8 below.", (
        _scaled(_products(given, upper), given)
    )
    yield "You read the registers as uint32: negative sums became large positive ones.", (
        _scaled((sums & 0xFFFFFFFF).astype(np.float64), given)
    )
    swapped = given.x.reshape(16, 3, 2, 16)[:, :, ::-1].reshape(16, 96)
    yield "The two halves of k of A are exchanged: registers 2 and 3 hold k + 16.", (
        _scaled(_products(given, swapped), given)
    )


def _draw_bits(rng: np.random.Generator) -> Mapping[str, Any]:
    """Rows of signs as bits, padded with zeros to 256."""
    bits = int(rng.integers(200, 250))
    x, w = rng.integers(0, 2, (16, 256)), rng.integers(0, 2, (8, 256))
    x[:, bits:] = w[:, bits:] = 0
    return {"x": _words(x), "w": _words(w), "bits": bits}


def _words(bits: Array) -> Array:
    found: Array = np.packbits(bits.astype(np.uint8), axis=1, bitorder="little").view(np.uint32)
    return found


def _bits_of(words: Array) -> Array:
    found: Array = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").astype(np.int64)
    return found


def _binary_arguments(given: Given) -> Mapping[str, Any]:
    return {**given, "out": np.zeros((16, 8), np.int32)}


def _differing(given: Given) -> Array:
    x, w = _bits_of(given.x), _bits_of(given.w)
    return matmul(x.astype(bool), np.ascontiguousarray(w.T).astype(bool), instruction=B1)


def _binary(given: Given) -> Array:
    found: Array = (given.bits - 2 * _differing(given)).astype(np.int32)
    return found


def _wrong_binaries(given: Given) -> Iterator[tuple[str, Array]]:
    x, w = _bits_of(given.x), _bits_of(given.w)
    differ, both = _differing(given).astype(np.int64), x @ w.T
    wrong = {
        "This is popc(x xor w) as it comes: the dot product is bits − 2 popc.": differ,
        "The padding counts as agreement: subtract from the number of bits that mean something, not from 256.": (
            256 - 2 * differ
        ),
        "Each differing bit costs 2: it turns a +1 into a −1.": given.bits - differ,
        "The sign is wrong: popc counts the bits that differ.": 2 * differ - given.bits,
        "You used .and: it counts the places where both are 1, not those that agree.": both,
        "You used .and in the formula of .xor.": given.bits - 2 * both,
        "Rows 8 to 15 repeat rows 0 to 7: registers 1 and 3 of A hold the rows 8 below.": (
            np.concatenate([(given.bits - 2 * differ)[:8]] * 2)
        ),
    }
    yield from ((says, found.astype(np.int32)) for says, found in wrong.items())


def _popc_mistakes() -> tuple[tuple[str, Any], ...]:
    return (
        ("This is the number of bits that agree. Each bit that differs also adds a −1: it counts twice.",
         lambda k, ones: k - ones),
        ("The sign is wrong: popc of xor counts the products that are −1.", lambda k, ones: 2 * ones - k),
        ("This is the number of bits that differ, not the dot product.", lambda k, ones: 0 * k + ones),
        ("k is given; it is not always 256.", lambda k, ones: 256 + 0 * k - 2 * ones),
        ("You halved the count instead of doubling it.", lambda k, ones: k - ones // 2),
    )


# ---------------------------------------------------------------------------------------------- the rows

MANUAL = "9.7.14.5.14"

EXERCISES = [
    Exercise(
        "pack_s4",
        "Eight numbers in a register",
        "Write `pack_s4(numbers)`: takes eight whole numbers from −8 to 7 and returns the 32-bit register that holds "
        "them as s4, the first one in the lowest bits, as one whole number.",
        Values(_packed, np.uint32, _wrong_packings, what="The register"),
        minutes=8,
        know="shifts and masks, and two's complement (notebook 01)",
        section="9.7.14.5.11",
        hints=(
            "Each number has four bits. By how much is the third one shifted?",
            "What does −1 look like in Python, as bits? Which of them may go into the register?",
            "Keep the lowest four bits of each number with & 15, shift them up, and join them with |.",
        ),
        draw=_draw_s4,
    ),
    Exercise(
        "dot_from_popc",
        "A dot product from a count of ones",
        "Two rows of k signs are stored as bits, 1 for +1 and 0 for −1. An instruction with `.xor.popc` has counted "
        "`ones` bits that differ. Write `dot_from_popc(k, ones)`, which returns the dot product of the two rows of "
        "signs.",
        Function({"k": (128, 200, 256), "ones": range(129)}, ("dot",), lambda k, ones: k - 2 * ones, _popc_mistakes(),
                 how="all counts for rows of 128, 200 and 256 signs"),
        minutes=6,
        know="what xor does to two bits",
        section=MANUAL,
        hints=(
            "What is the product of two signs that agree, and of two that differ?",
            "How many of the k products are +1, and how many are −1?",
            "If nothing differs, the dot product is k. By how much does each differing bit lower it?",
        ),
    ),
    Exercise(
        "nibbles_to_bytes",
        "s4 on a chip that has only s8",
        "An H100 has no unit for s4: each of its `mma.sync` with s4 becomes two with s8. Write "
        "`nibbles_to_bytes(registers)`: takes a uint32 array of registers (16) that hold eight s4 each, and returns a "
        "uint32 array (2, 16): first the registers with numbers 0, 2, 4 and 6 of each as s8, then those with numbers "
        "1, 3, 5 and 7. Use masks and shifts, as a GPU would, and no loop over the numbers if you can.",
        Values(lambda given: _evens_and_odds(_nibbles(given.registers)), np.uint32, _wrong_halves,
               place=lambda index: f"Register {index[1]} of the {('even', 'odd')[index[0]]} numbers"),
        minutes=20,
        know="two's complement, and how s4 and s8 lie in a register (notebook 07)",
        section="9.7.14.5.11",
        hints=(
            "0x0f0f0f0f selects every second number. Where do the others go after a shift by four?",
            "A negative s4 has bit 3 set. As an s8 it needs ones in bits 4 to 7 as well.",
            "For numbers in the low halves, & 0x08080808 finds the signs. Which multiple of it fills bits 4 to 7?",
            (
                "Another way: exclusive-or with 8 and then subtract 8, in each byte. Can a borrow cross into the next "
                "byte?"
            ),
        ),
        draw=_draw_registers,
        points=2,
    ),
    Exercise(
        "clamped_too_early",
        "Clamped too early",
        "`.satfinite` clamps the result of every instruction, not the result of the whole sum. Make A (16, 64) and B "
        "(64, 8) of int8 and C (16, 8) of int32, for which `D[0][0]`, computed by two `mma.sync` m16n8k32, is exact "
        "without `.satfinite` and wrong with it. The answer, `clamped_too_early`, is A, B, C.",
        Crafted({"A": ((16, 64), np.int8), "B": ((64, 8), np.int8), "C": ((16, 8), np.int32)}, _too_early,
                "Wrapping around is exact here, and clamping is not.", "both results of D[0][0]"),
        minutes=10,
        know="what .satfinite does (notebook 07)",
        section=MANUAL,
        hints=(
            "The exact result must fit into s32. Must every partial sum?",
            "Make C almost as large as possible, so that the first 32 products go beyond the end.",
            "Then choose the other 32 products so that they bring the sum back.",
        ),
    ),
    Exercise(
        "without_zero_point",
        "Take the zero point out",
        "Activations are often stored as u8 with a zero point: the number is A − zero. "
        "`given(\"without_zero_point\")` has A (16, 64) of uint8, B (64, 8) of int8, the zero point, and D = A B, as "
        "`mma.sync` with u8 and s8 gives it. Write `without_zero_point(A, B, zero, D)`, which returns (A − zero) B as "
        "an integer matrix. A kernel does not multiply again: compute it from D and from sums.",
        Values(_without_zero, np.int64, _wrong_corrections, what="D"),
        minutes=15,
        know="matrix products; why A − zero does not fit into s8 (notebook 07)",
        section=MANUAL,
        hints=(
            "Multiply (A − zero) B out, by hand, for one output.",
            "The part with the zero point does not depend on A. What does it depend on?",
            "Each column of D needs the sum of the same column of B.",
        ),
        draw=_draw_zero_point,
        points=2,
    ),
    Exercise(
        "quantise_rows",
        "Quantise the rows of a matrix",
        "Write `quantise_rows(numbers)`: takes a float32 matrix (8, 32) and returns an int8 matrix. Each row has the "
        "scale that brings its largest magnitude to 127; divide by it in float32, and round to the nearest, ties to "
        "even.",
        Values(lambda given: _quantised(given.numbers, _scale(given.numbers)), np.int8, _wrong_quantisations,
               place=lambda index: f"Row {index[0]}, column {index[1]}"),
        minutes=12,
        know="numpy; rounding (notebook 01)",
        section="",
        hints=(
            "The scale of a row is its largest magnitude divided by 127. keepdims=True helps.",
            "Which numpy function rounds to the nearest with ties to even?",
            "astype(np.int8) by itself truncates; round first.",
        ),
        draw=_draw_rows,
    ),
    Exercise(
        "quantised_layer",
        "A quantised layer",
        "Write a kernel `quantised_layer(warp, x, w, scale_x, scale_w, out)` for one warp. `x` (16, 96) and `w` (8, "
        "96) are s8, `scale_x` (16) and `scale_w` (8) float32, `out` (16, 8) float32. It stores out[i][j] = the exact "
        "integer sum over k of x[i][k] w[j][k], converted to float32, times scale_x[i], times scale_w[j], each "
        "product rounded. Use `mma.sync` m16n8k32 of s8. A row of `w` is a column of B, so four of its neighbours "
        "make up a register. `warp.ld_global(x.at(row, column))` loads four bytes for each lane.",
        Kernel(_layer_arguments, "out", _layer, {"block": 32}, _wrong_layers,
               needed=("mma.sync.aligned.m16n8k32.row.col.s32.s8",)),
        minutes=40,
        know="a kernel with tcemu.launch (notebook 02), the fragments of m16n8k32 (notebook 04)",
        section="9.7.14.5.10",
        hints=(
            (
                "g, t = warp.laneid // 4, warp.laneid % 4. Register r of A holds row g + 8 (r mod 2), and k from 4 t + "
                "16 (r // 2)."
            ),
            "Register r of B holds column g, and k from 4 t + 16 r: that is row g of w.",
            "np.hstack joins registers of shape (32, 1) to (32, 4). Three steps of 32 make 96 of k.",
            "Register i of D is row g + 8 (i // 2) and column 2 t + i mod 2. View it as int32 before you convert it.",
        ),
        draw=_draw_layer,
        points=4,
    ),
    Exercise(
        "binary_layer",
        "A layer of signs",
        "Write a kernel `binary_layer(warp, x, w, bits, out)` for one warp. `x` (16, 8) and `w` (8, 8) are uint32 "
        "words: rows of 256 single bits, 1 for +1 and 0 for −1, of which only the first `bits` count; the "
        "rest are 0 in both. It stores in `out` (16, 8), int32, the dot products of the rows of signs. Use `mma.sync` "
        "m16n8k256 with `.xor.popc`.",
        Kernel(_binary_arguments, "out", _binary, {"block": 32}, _wrong_binaries,
               needed=("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor",)),
        minutes=30,
        know="dot_from_popc and quantised_layer; the fragments of m16n8k256 (PTX ISA 9.7.14.5.13)",
        section="9.7.14.5.13",
        hints=(
            "A register is one word of 32 bits. Register r of A holds row g + 8 (r mod 2), word t + 4 (r // 2).",
            "Register r of B holds word t + 4 r of row g of w.",
            "The padding is equal in both rows, so xor makes it 0. From what do you subtract, 256 or bits?",
        ),
        draw=_draw_bits,
        points=3,
    ),
]

"""Exercises of notebook 07 about single bits: popc, and a layer of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Function, Kernel
from tcemu.course.record import Exercise, Given
from tcemu.instructions import matmul

Array = npt.NDArray[Any]
B1 = "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc"

# ---------------------------------------------------------------------------------------------- kernels


def _draw_bits(rng: np.random.Generator) -> Mapping[str, Any]:
    """Rows of signs as bits, padded with zeros to 256."""
    bits = int(rng.integers(200, 250))
    x, w = rng.integers(0, 2, (16, 256)), rng.integers(0, 2, (8, 256))
    x[:, bits:] = w[:, bits:] = 0
    return {"x": _words(x), "w": _words(w), "bits": bits}


def _words(bits: Array) -> Array:
    words: Array = np.packbits(bits.astype(np.uint8), axis=1, bitorder="little").view(np.uint32)
    return words


def _bits_of(words: Array) -> Array:
    bits: Array = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").astype(np.int64)
    return bits


def _binary_arguments(given: Given) -> Mapping[str, Any]:
    return {**given, "out": np.zeros((16, 8), np.int32)}


def _differing(given: Given) -> Array:
    x, w = _bits_of(given.x), _bits_of(given.w)
    return matmul(x.astype(bool), np.ascontiguousarray(w.T).astype(bool), instruction=B1)


def _binary(given: Given) -> Array:
    dots: Array = (given.bits - 2 * _differing(given)).astype(np.int32)
    return dots


def _wrong_binaries(given: Given) -> Iterator[tuple[str, Array]]:
    x, w = _bits_of(given.x), _bits_of(given.w)
    differ, both = _differing(given).astype(np.int64), x @ w.T
    crossed = given.x.copy()
    crossed[:8, 4:], crossed[8:, :4] = given.x[8:, :4], given.x[:8, 4:]
    wrong = {
        "a1 and a2 are swapped: a1 is 8 rows further down, and a2 is 4 words further along k.": (
            _binary(Given({**given, "x": crossed}))
        ),
        "This is popc(x xor w) itself: the dot product is bits − 2 popc.": differ,
        "The padding counts as agreement: subtract from the number of bits that count, not from 256.": (
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
    yield from ((says, dots.astype(np.int32)) for says, dots in wrong.items())


def _popc_mistakes() -> tuple[tuple[str, Any], ...]:
    return (
        (
            "This is the number of bits that agree. Each bit that differs also adds a −1: it counts twice.",
            lambda k, ones: k - ones,
        ),
        ("The sign is wrong: popc of xor counts the products that are −1.", lambda k, ones: 2 * ones - k),
        ("This is the number of bits that differ, not the dot product.", lambda k, ones: 0 * k + ones),
        ("k is given; it is not always 256.", lambda k, ones: 256 + 0 * k - 2 * ones),
        ("You halved the count instead of doubling it.", lambda k, ones: k - ones // 2),
    )


# ---------------------------------------------------------------------------------------------- the rows

MANUAL = "9.7.14.5.14"

EXERCISES = [
    Exercise(
        "dot_from_popc",
        "A dot product from a count of ones",
        "Two rows of k signs are stored as bits, 1 for +1 and 0 for −1. An instruction with `.xor.popc` has counted "
        "`ones` bits that differ. Write `dot_from_popc(k, ones)`, which returns the dot product of the two rows of "
        "signs.",
        Function(
            {"k": (128, 200, 256), "ones": range(129)},
            ("dot",),
            lambda k, ones: k - 2 * ones,
            _popc_mistakes(),
            how="all counts for rows of 128, 200 and 256 signs",
            wider={"k": range(129, 2000)},
            device="dot_from_popc",
        ),
        minutes=6,
        only=(),
        know="what xor does to two bits",
        section=MANUAL,
        hints=(
            "What is the product of two signs that agree, and of two that differ?",
            "How many of the k products are +1, and how many are −1?",
            "If nothing differs, the dot product is k. By how much does each differing bit lower it?",
        ),
    ),
    Exercise(
        "binary_layer",
        "A layer of signs",
        "Write a kernel `binary_layer(warp, x, w, bits, out)` for one warp. `x` (16, 8) and `w` (8, 8) are uint32 "
        "words: rows of 256 single bits, 1 for +1 and 0 for −1, of which only the first `bits` count; the "
        "rest are 0 in both. It stores in `out` (16, 8), int32, the dot products of the rows of signs. Use `mma.sync` "
        "m16n8k256 with `.xor.popc`.",
        Kernel(
            _binary_arguments,
            "out",
            _binary,
            {"block": 32},
            _wrong_binaries,
            needed=("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor",),
        ),
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

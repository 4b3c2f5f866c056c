"""Exercises of notebook 14: clusters, Tensor Memory and the descriptors of tcgen05."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Function, Values
from tcemu.course.record import Exercise, Given
from tcemu.layouts import Descriptor, instruction_descriptor, tcgen05_descriptor
from tcemu.layouts.tensor_memory import LANES

Array = npt.NDArray[Any]

# ---------------------------------------------------------------------------------------------- Tensor Memory

_COLUMNS = range(0, 256, 7)


def _address(lane: Array, column: Array) -> Array:
    return lane << 16 | column


def _warp_and_address(row: Array, column: Array) -> Array:
    return np.stack([row // 32, _address(row // 32 * 32, column)], axis=-1)


#: Row i in warp i mod 4, with the address of the right lane, of lane i, and of the wrong warp's first lane.
_ROUND_THE_WARPS: tuple[Callable[[Array, Array], Array], ...] = (
    lambda row, column: np.stack([row % 4, row // 32 * 32 << 16 | column], axis=-1),
    lambda row, column: np.stack([row % 4, row << 16 | column], axis=-1),
    lambda row, column: np.stack([row % 4, row % 4 * 32 << 16 | column], axis=-1),
)


# ---------------------------------------------------------------------------------------------- descriptors


def _tile(rng: np.random.Generator) -> Mapping[str, Any]:
    swizzle = int(rng.choice([32, 64, 128]))
    start = int(rng.integers(4, 32)) * 1024
    return {"descriptor": Descriptor(start, 16, 8 * swizzle, swizzle).encode()}


def _bits(given: Given) -> int:
    return tcgen05_descriptor(Descriptor.decode(given.descriptor))


def _descriptor_mistakes(given: Given) -> Iterable[tuple[str, npt.ArrayLike]]:
    right, old = _bits(given), int(given.descriptor)
    moved = old & ~(3 << 62) | 1 << 46 | old >> 62 << 61
    yield "Bits 48 to 46 are always 0b001 in a descriptor of tcgen05.", old
    yield "0b001 is one field: its lowest bit is 46, and that bit is set.", old | 1 << 48
    yield "The codes are not shifted: read from bit 61, the bits of wgmma already are tcgen05's codes.", moved
    yield "Bit 61 alone is another swizzle, 128 bytes in units of 32.", right | 1 << 61


def _shape(rng: np.random.Generator) -> Mapping[str, Any]:
    names = {"m": int(rng.choice([64, 128])), "n": 16 * int(rng.integers(2, 17))}
    return {**names, "form": str(rng.choice(["f16", "bf16"]))}


def _instruction(given: Given) -> int:
    return instruction_descriptor(given.m, given.n, a=given.form, b=given.form)


def _instruction_mistakes(given: Given) -> Iterable[tuple[str, npt.ArrayLike]]:
    right, types = _instruction(given), _instruction(given) & 0xFFFF
    m, n = given.m, given.n
    yield "The field of N holds N / 8, not N.", types | (n << 17 | m // 16 << 24) & 0xFFFFFFFF
    yield "The field of M holds M / 16, not M / 8.", types | n // 8 << 17 | m // 8 << 24
    yield "M and N are swapped: N is in bits 22 to 17, M in 28 to 24.", types | m // 8 << 17 | n // 16 << 24
    yield (
        "Neither field holds the number itself: N is stored as N / 8, and M as M / 16.",
        ((types | n << 17 | m << 24) & 0xFFFFFFFF),
    )
    yield "D is f32, so bits 5 to 4 are 1.", right & ~(3 << 4)
    other = "bf16" if given.form == "f16" else "f16"
    yield (
        f"A and B are {given.form}, and these are the codes of {other}.",
        instruction_descriptor(given.m, given.n, a=other, b=other),
    )


# ---------------------------------------------------------------------------------------------- clusters

#: Bytes of one tile of A and of B: 128 × 64 and 64 × 256 elements of f16.
_A_BYTES, _B_BYTES = 128 * 64 * 2, 64 * 256 * 2


def _fetched(along_m: Array, along_n: Array) -> Array:
    fetched: Array = along_m * _A_BYTES + along_n * _B_BYTES
    return fetched


EXERCISES = [
    Exercise(
        "tensor_memory_cell",
        "The address of a cell of Tensor Memory",
        "Write `tensor_memory_cell(lane, column)`, which returns the 32-bit address of a cell of Tensor Memory.",
        Function(
            {"lane": range(0, LANES, 3), "column": _COLUMNS},
            ("address",),
            _address,
            (
                ("Lane and column are swapped: the lane is in the upper half.", lambda lane, at: at << 16 | lane),
                ("You counted cells, row by row; the lane has bits 31 to 16.", lambda lane, at: 512 * lane + at),
                ("You counted bytes, but a column is one cell of 32 bits.", lambda lane, at: lane << 16 | 4 * at),
                ("You counted bytes, row by row; the lane has bits 31 to 16.", lambda lane, at: 4 * (512 * lane + at)),
            ),
            wider={"lane": range(LANES), "column": range(512)},
        ),
        minutes=5,
        only=(),
        know="Tensor Memory, from notebook 14",
        section="9.7.16.1.1",
        hints=("An address has two halves of 16 bits.", "Which half is the lane? Look at the picture in the notebook."),
    ),
    Exercise(
        "described_for_tcgen05",
        "A tile, described for tcgen05",
        "Write `described_for_tcgen05(descriptor)`. It takes the 64 bits with which wgmma describes a swizzled tile of "
        "shared memory, and returns the 64 bits with which tcgen05 describes the same tile.",
        Values(_bits, np.uint64, _descriptor_mistakes, what="The descriptor"),
        minutes=15,
        only=(),
        know="the descriptor of wgmma, from notebook 10",
        section="9.7.16.4.1",
        hints=(
            "Start address, LBO, SBO and base offset stay where they are.",
            "wgmma's codes 1, 2, 3 for 128, 64, 32 bytes are at bit 62, tcgen05's 2, 4, 6 at bit 61. Compare.",
        ),
        draw=_tile,
    ),
    Exercise(
        "row_of_the_accumulator",
        "Who reads this element of D?",
        "tcgen05.mma with M = 128 and one block keeps row i of D in lane i of Tensor Memory, and column j in column j. "
        "Write `row_of_the_accumulator(row, column)`, which returns the warp of the warpgroup (0 to 3) that can load "
        "D[row][column], and the address that all lanes of this warp pass to a `tcgen05.ld` with .32x32b for it: that "
        "of the warp's first lane.",
        Function(
            {"row": range(0, LANES, 3), "column": _COLUMNS},
            ("warp", "address"),
            _warp_and_address,
            (
                (
                    "The address is the same for all lanes of a warp: it names the first of their 32 lanes.",
                    lambda row, column: np.stack([row // 32, row << 16 | column], axis=-1),
                ),
                (
                    "A warp has 32 lanes, and so it reaches 32 rows, not 16 as in wgmma.",
                    lambda row, column: np.stack([row // 16 % 4, row // 16 * 16 << 16 | column], axis=-1),
                ),
                *(
                    ("Rows do not go round the warps: each warp has 32 neighbouring rows.", round_the_warps)
                    for round_the_warps in _ROUND_THE_WARPS
                ),
                (
                    "The upper half of the address holds a lane, 0 to 127: the warp's first one, not the warp.",
                    lambda row, column: np.stack([row // 32, row // 32 << 16 | column], axis=-1),
                ),
                (
                    "The upper half of the address names the warp's first lane among all 128, not a lane of the warp.",
                    lambda row, column: np.stack([row // 32, row % 32 << 16 | column], axis=-1),
                ),
                (
                    "Lane and column are swapped: the lane is in the upper half of the address.",
                    lambda row, column: np.stack([row // 32, column << 16 | row // 32 * 32], axis=-1),
                ),
                (
                    "You counted lanes from the warp's first one; the address counts all 128.",
                    lambda row, column: np.stack([row // 32, 0 * row + column], axis=-1),
                ),
            ),
            wider={"row": range(LANES), "column": range(512)},
        ),
        minutes=15,
        only=(),
        know="Tensor Memory, from notebook 14",
        section="9.7.16.8.1, 9.7.16.8.3, 9.7.16.10.5.4",
        hints=("Which 32 rows does a warp reach?", "The base address has a lane in its upper half. Whose?"),
    ),
    Exercise(
        "instruction_bits",
        "An instruction in 32 bits",
        "tcgen05.mma takes its shape and types from a 32-bit number. Write `instruction_bits(m, n, form)`, which "
        "returns it for a dense product of kind::f16 with A and B of the format `form` (`f16` or `bf16`), D of f32, "
        "nothing transposed and nothing negated.",
        Values(_instruction, np.uint32, _instruction_mistakes, what="The instruction descriptor"),
        minutes=20,
        only=(),
        know="bit fields, from notebook 01",
        section="9.7.16.4.2",
        hints=(
            "D's type is in bits 5 to 4, A's in 9 to 7, B's in 12 to 10. As D, f32 is 1; as A or B, bf16 is 1.",
            "N is stored without its 3 low bits, from bit 17; M without its 4 low bits, from bit 24.",
        ),
        draw=_shape,
    ),
    Exercise(
        "bytes_with_multicast",
        "What multicast saves",
        "A cluster has `along_m` times `along_n` blocks: at most 8, or 16 where the GPU has room for them and "
        "the kernel the attribute `cudaFuncAttributeNonPortableClusterSizeAllowed`. Each computes a "
        "tile of 128 × 256 of the product, and needs a tile of A (128 × 64 of f16) and one of B (64 × 256) for each "
        "step of K. Blocks in one row of the cluster need the same tile of A, those in one column the same tile of B. "
        "Write `bytes_with_multicast(along_m, along_n)`: "
        "how many bytes does the cluster load from global memory in one step if each tile is loaded once and multicast "
        "to all blocks that need it?",
        Function(
            {"along_m": (1, 2, 4), "along_n": (1, 2, 4)},
            ("number of bytes",),
            _fetched,
            (
                (
                    "That is without multicast: every block loads both of its tiles.",
                    lambda along_m, along_n: along_m * along_n * (_A_BYTES + _B_BYTES),
                ),
                (
                    "That is without multicast, and you counted elements; f16 has two bytes.",
                    lambda along_m, along_n: along_m * along_n * (_A_BYTES + _B_BYTES) // 2,
                ),
                (
                    "A and B are swapped: there is one tile of A for each step along M.",
                    lambda along_m, along_n: along_n * _A_BYTES + along_m * _B_BYTES,
                ),
                ("You counted elements; f16 has two bytes.", lambda along_m, along_n: _fetched(along_m, along_n) // 2),
                (
                    "One tile of A and one of B would do only if all blocks computed the same tile.",
                    lambda along_m, along_n: 0 * along_m * along_n + _A_BYTES + _B_BYTES,
                ),
            ),
            wider={"along_m": range(1, 6), "along_n": (3,)},
        ),
        minutes=10,
        only=(),
        know="clusters, from notebook 14",
        section="9.7.9.27.1.2",
        hints=("How many different tiles of A does the cluster need, and how many of B?", "A has 128 · 64 elements."),
    ),
]

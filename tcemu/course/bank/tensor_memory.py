"""Exercises of notebook 16: allocating, loading and multiplying in Tensor Memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Function
from tcemu.course.record import Exercise
from tcemu.layouts.tcgen05_ld_st import cells

Array = npt.NDArray[Any]


def _columns(n: Array, accumulators: Array | int) -> Array:
    needed = n * accumulators
    power: Array = 1 << np.ceil(np.log2(np.maximum(needed, 32))).astype(np.int64)
    return power


def _blocks(n: Array, accumulators: Array | int) -> Array:
    """How many blocks of an SM can hold their accumulators at the same time."""
    blocks: Array = 512 // _columns(n, accumulators)
    return blocks


def _held(shape: str, num: int) -> Any:
    lanes, columns = cells(shape, num)

    def place(thread: Array, register: Array) -> Array:
        return np.stack([lanes[thread, register], columns[thread, register]], axis=-1)

    return place


#: Columns of somebody who rounds otherwise than up to a power of two.
_NO_POWERS: tuple[Callable[[Array, Array], Array], ...] = (
    lambda n, accumulators: n * accumulators,
    lambda n, accumulators: np.maximum(32, n * accumulators),
    lambda n, accumulators: -(-n * accumulators // 32) * 32,
)

_FRAGMENT = _held("16x256b", 4)
_NARROW = _held("16x64b", 8)

EXERCISES = [
    Exercise(
        "columns_to_allocate",
        "How many columns to allocate",
        "A kernel keeps `accumulators` tiles of 128 × `n` sums (f32) in Tensor Memory. Write "
        "`columns_to_allocate(n, accumulators)`, which returns the number of columns that it passes to "
        "`tcgen05.alloc`: the smallest that is allowed. The sums need at most 512 columns.",
        Function(
            {"n": range(8, 257, 8), "accumulators": (1, 2)},
            ("number of columns",),
            _columns,
            (
                *(("tcgen05.alloc takes a power of two, and at least 32 columns.", columns) for columns in _NO_POWERS),
                (
                    "Round once, at the end: the accumulators lie side by side in one allocation.",
                    lambda n, accumulators: _columns(n, 1) * accumulators,
                ),
                (
                    "At least 32 columns are allocated, however few are needed.",
                    lambda n, accumulators: 1 << np.ceil(np.log2(n * accumulators)).astype(np.int64),
                ),
                ("That is one accumulator.", lambda n, accumulators: _columns(n, 0 * accumulators + 1)),
                (
                    "An f32 sum takes a column of 32 bits; you counted bytes.",
                    lambda n, accumulators: _columns(4 * n, accumulators),
                ),
            ),
        ),
        minutes=5,
        only=(),
        know="Tensor Memory, from notebook 16",
        section="9.7.16.1.2, 9.7.16.7.1",
        hints=("One column holds one sum of each of the 128 rows.", "n.bit_length() helps to find a power of two."),
    ),
    Exercise(
        "cell_of_a_register",
        "Where tcgen05.ld takes a register from",
        "`tcgen05.ld.16x256b.x4` gives each thread 16 registers. Write `cell_of_a_register(thread, register)`, which "
        "returns the lane and the column of Tensor Memory, counted from the address, from which the register comes.",
        Function(
            {"thread": range(32), "register": range(16)},
            ("lane", "column"),
            _FRAGMENT,
            (
                (
                    "That is .32x32b, where a thread has a lane of its own.",
                    lambda thread, register: np.stack([thread + 0 * register, register + 0 * thread], axis=-1),
                ),
                (
                    "Registers r0 and r1 are neighbours in a row; r2 is 8 lanes further down, as in mma.sync.",
                    lambda thread, register: np.stack(
                        [thread // 4 + 0 * register, 2 * (thread % 4) + register % 2 + 8 * (register // 2)], axis=-1
                    ),
                ),
                (
                    "The 8 lanes further down belong to registers 2 and 3 of every four, not to every second register.",
                    lambda thread, register: np.stack(
                        [thread // 4 + 8 * (register % 2), 2 * (thread % 4) + register // 2 % 2 + 8 * (register // 4)],
                        axis=-1,
                    ),
                ),
            ),
        ),
        minutes=10,
        only=(),
        know="the accumulator of mma.sync, from notebook 02",
        section="9.7.16.2.3.1.4",
        hints=(
            "Its four registers of 8 columns are the accumulator of m16n8.",
            "Which register bit goes 8 lanes down, and which go 8 columns to the right?",
        ),
    ),
    Exercise(
        "cell_of_16x64b",
        "The narrow load",
        "`tcgen05.ld.16x64b.x8` gives each thread 8 registers. Write `cell_of_16x64b(thread, register)`, which returns "
        "the lane and the column, counted from the address, from which the register comes: two neighbouring threads "
        "hold lanes that are 8 apart.",
        Function(
            {"thread": range(32), "register": range(8)},
            ("lane", "column"),
            _NARROW,
            (
                (
                    "That is .32x32b, where a thread has a lane of its own.",
                    lambda thread, register: np.stack([thread + 0 * register, register + 0 * thread], axis=-1),
                ),
                (
                    "That is .16x128b: there, the register decides between a lane and the one 8 further down.",
                    lambda thread, register: np.stack(
                        [thread // 4 + 8 * (register % 2), thread % 4 + 4 * (register // 2)], axis=-1
                    ),
                ),
                (
                    "Neighbouring threads hold the same column, of lanes 8 apart.",
                    lambda thread, register: np.stack(
                        [thread // 4 + 8 * (thread // 2 % 2), thread % 2 + 2 * register], axis=-1
                    ),
                ),
            ),
        ),
        minutes=10,
        only=(),
        know="tcgen05.ld, from notebook 16",
        section="9.7.16.2.3.1.2",
        hints=("A thread's number has five bits: which of them count columns?", "Look at the map in the notebook."),
    ),
    Exercise(
        "blocks_that_fit",
        "Blocks that share Tensor Memory",
        "The blocks on an SM share its 512 columns; a block whose columns are not free waits in `tcgen05.alloc`. Write "
        "`blocks_that_fit(n, accumulators)`: how many blocks can hold their accumulators, `accumulators` tiles of "
        "128 × `n` sums (f32) each, at the same time?",
        Function(
            {"n": range(8, 257, 8), "accumulators": (1, 2)},
            ("number of blocks",),
            _blocks,
            (
                *(
                    (
                        "What is allocated is a power of two, which may be more than what is used.",
                        lambda n, accumulators, columns=columns: 512 // columns(n, accumulators),
                    )
                    for columns in _NO_POWERS
                ),
                ("That is for one accumulator.", lambda n, accumulators: _blocks(n, 0 * accumulators + 1)),
                (
                    "Tensor Memory has 512 columns; 128 is the number of its lanes.",
                    lambda n, accumulators: 128 // _columns(n, accumulators),
                ),
            ),
        ),
        minutes=5,
        only=(),
        know="Tensor Memory, from notebook 16",
        section="9.7.16.1.2",
        hints=("How many columns does a block allocate?", "512 columns, shared by blocks that all take as many."),
    ),
]

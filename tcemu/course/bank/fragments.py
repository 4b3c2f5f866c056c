"""Exercises of notebook 02: which lane holds what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Values, registers_of, what_map, where_map
from tcemu.course.record import REGISTERS, Exercise, Given
from tcemu.instructions import parse
from tcemu.layouts import Fragment

Array = npt.NDArray[Any]

_MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
_S8 = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
_TF32 = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"


# ---------------------------------------------------------------------------------------------- the numbers


def _matrix(rng: np.random.Generator) -> Mapping[str, Any]:
    """A (16, 16) of f16 whose elements differ, so that each place is recognised by its value."""
    return {"A": rng.permutation(np.arange(1, 257)).reshape(16, 16).astype(np.float16)}


# ---------------------------------------------------------------------------------------------- what goes wrong


def _probes(rng: np.random.Generator) -> Mapping[str, Any]:
    """Registers of A for 16 probes: two elements in each of four rows, which cancel in two of the rows."""
    matrices = np.zeros((16, 16, 16), np.float16)
    for matrix in matrices:
        for place, row in enumerate(rng.permutation(16)[:4]):
            size, one, other = rng.integers(1, 5), *rng.permutation(16)[:2]
            matrix[row, one], matrix[row, other] = size, -size if place < 2 else 3
    return {"probes": np.stack([_fragment("a").pack(matrix) for matrix in matrices])}


def _who_answers(given: Given) -> Array:
    """Lane and register of D's first sum that is not zero, for each probe."""
    return _first(np.stack([_fragment("a").unpack(probe).sum(axis=1) != 0 for probe in given.probes]))


def _first(rows: Array) -> Array:
    """Lane and register of the first place of D in one of these rows, for each probe: groups come before halves."""
    group, half = np.divmod(np.argmax(rows.reshape(16, 2, 8).swapaxes(1, 2).reshape(16, 16), axis=1), 2)
    return np.stack([4 * group, 2 * half], axis=-1)


def _probe_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    lane, register = _who_answers(given).T
    filled = np.stack([_fragment("a").unpack(probe).any(axis=1) for probe in given.probes])
    own, word = np.divmod(np.argmax(given.probes.reshape(16, 128) != 0, axis=1), 4)

    def answers(*parts: Array) -> Array:
        return np.stack(parts, axis=-1)

    yield "Elements of a row may cancel: then its sum is zero, and its registers do not answer.", _first(filled)
    yield "You name the first register of A that is not zero: the sums are in D.", answers(own, word)
    yield (
        "You name the lane of the first element of A. A row's first output is in the lowest lane of its group.",
        answers(own, word % 2 * 2),
    )
    yield "a1 and a3 are in the lower half of the rows, which d2 and d3 hold.", answers(lane, 0 * register)
    yield "You return the row instead of the lane.", answers(lane // 4 + 4 * register, register)
    yield "That is the group g, lane // 4; its first lane is 4 g.", answers(lane // 4, register)
    yield "Lane and register are swapped.", answers(register, lane)


def _fragment(role: str) -> Fragment:
    return parse(_MMA).fragments[role]


#: Four elements in a register, with the mistake of still thinking of two.
_BYTES = replace(
    where_map(_S8, "a", element=True),
    mistakes=(
        ("A register holds four elements here, not two as with f16.",
         lambda row, column: np.stack([4 * (row % 8) + column // 2 % 4, 2 * (column // 8) + row // 8, column % 2], -1)),
        *where_map(_S8, "a", element=True).mistakes,
    ),
)  # fmt: skip


EXERCISES = [
    Exercise(
        "where_of_a",
        "Where is A[row][column]?",
        "Write `where_of_a(row, column)`, which returns the lane and the register that hold element A[row][column] of "
        "`mma.sync` m16n8k16 with f16 operands.",
        where_map(_MMA, "a", device="where_of_a"),
        minutes=10,
        only=(),
        know="the layout line of notebook 02",
        section="9.7.14.5.8",
        hints=(
            'Print mma.fragments["a"].layout, and read which digits make up the lane.',
            "The lane is 4 g + t. Which part of the row is g, and which part of the column is t?",
            "A register holds two neighbours of a row. Which two questions about row and column does it answer?",
        ),
    ),
    Exercise(
        "what_is_in_a",
        "What is in register a of a lane?",
        "Write `what_is_in_a(lane, register)`, which returns row and column of the element of A in the low half of "
        "that register, for `mma.sync` m16n8k16 with f16 operands.",
        what_map(_MMA, "a", device="what_is_in_a"),
        minutes=10,
        only=(),
        know="the layout line of notebook 02",
        section="9.7.14.5.8",
        hints=(
            "g is lane // 4 and t is lane % 4. Which digits of row and column are they?",
            "The register is 2 c + h: h is register % 2, c is register // 2.",
            "The row is 8 h + g, and the column is 8 c + 2 t + p. In the low half p is 0.",
        ),
    ),
    Exercise(
        "where_of_b",
        "Where is B[row][column]?",
        "Write `where_of_b(row, column)`, which returns the lane and the register that hold element B[row][column] of "
        "`mma.sync` m16n8k16 with f16 operands. B has 16 rows and 8 columns.",
        where_map(_MMA, "b", others=[("A", _MMA, "a")], device="where_of_b"),
        minutes=10,
        only=(),
        know="the layout line of notebook 02",
        section="9.7.14.5.8",
        hints=(
            'Print mma.fragments["b"].layout. Which index of B plays the role of the row of A?',
            "The lane is 4 g + t, and g is the column. The row is 8 c + 2 t + p.",
        ),
    ),
    Exercise(
        "where_of_bytes",
        "Four elements in a register",
        "`mma.sync` m16n8k32 with s8 operands has a row-major A of 16 × 32 bytes, four to a register. Write "
        "`where_of_bytes(row, column)`, which returns lane, register and the byte in the register (0 is the lowest).",
        _BYTES,
        minutes=15,
        only=(),
        know="the layout line of notebook 02",
        section="9.7.14.5.10",
        hints=(
            "Print the layout line of this instruction's A. Which digits have other sizes than for f16?",
            "A lane now holds four neighbours of a row in one register: the column is 16 c + 4 t + p.",
        ),
        points=2,
    ),
    Exercise(
        "who_answers",
        "A probe of your own",
        "`probes` (16 × 32 × 4, uint32) has the registers of A for 16 probes. In each A, two elements of four rows are "
        "not zero, and in some rows they cancel. All elements of B are one (f16 `mma.sync` m16n8k16 with an f32 "
        "accumulator). Write `who_answers(probes)`, which returns an array (16, 2): lane and register of the first "
        "register of D that is not zero, in the order of lanes, then registers, for each probe. You may run the probes "
        'inside your function, with `tcemu.run`, or derive a rule from them. `given("who_answers").probes` are some to '
        "try it with.",
        Values(
            _who_answers,
            np.int64,
            _probe_mistakes,
            lambda index: f"The {('lane', 'register')[index[1]]} of probe {index[0]}",
            axes=("probe", "part"),
            how="every probe",
        ),
        minutes=15,
        only=REGISTERS,
        know="the probe of notebook 02",
        section="9.7.14.5.8",
        hints=(
            "np.argwhere(d) lists the places that are not zero, in this order.",
            "A row's sum is in the four lanes of its group. The lowest of them holds columns 0 and 1 of D.",
        ),
        points=2,
        draw=_probes,
    ),
    Exercise(
        "fragment_by_hand",
        "Fill a fragment by hand",
        "Write `fragment_by_hand(A)`, which takes a matrix A (16 × 16, f16) and returns the registers that `mma.sync` "
        "m16n8k16 takes for it, an array (32, 4) of uint32. Do not use `pack`. "
        '`given("fragment_by_hand").A` is a matrix to try it with.',
        registers_of(_MMA, "a", lambda given: given.A),
        minutes=20,
        only=(),
        know="what_is_in_a, and how two f16 share a register (notebook 01)",
        section="9.7.14.5.8",
        hints=(
            "A.view(np.uint16) is the bits of A. In a register, the second element's are shifted left by 16.",
            "Loop over lane and register, and use what_is_in_a for the first element; the second is the next column's.",
            "Shift as np.uint32, or Python's int: a uint16 loses what is shifted out.",
        ),
        points=2,
        draw=_matrix,
    ),
]

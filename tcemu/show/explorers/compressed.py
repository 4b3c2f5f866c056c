"""Explorers of sparsity metadata and of scale factors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu import show
from tcemu.formats.arrays import as_array
from tcemu.instructions import Instruction, parse, run
from tcemu.instructions.mma_sp import pattern_of
from tcemu.show.explorers.explorer import Choice, Explorer, Range, controls
from tcemu.show.picture import Picture


def metadata_of_a_chunk(
    instruction: str | Instruction, dense: npt.ArrayLike, metadata: npt.ArrayLike, **start: int
) -> Explorer:
    """The metadata of one chunk of a sparse A, and where it is: sliders for its row and chunk; see show.sparsity.

    `start` may give row and chunk. Raises what show.sparsity raises, OperandError for a start that is not possible.
    """
    sparse = _with_metadata(instruction)
    _, rows, chunks = sparse.fragments["e"].shape
    return Explorer(
        lambda row, chunk: show.sparsity(sparse, dense, metadata, row, chunk),
        controls(start, row=rows - 1, chunk=chunks - 1),
    )


def metadata_of_a_lane(
    instruction: str | Instruction, dense: npt.ArrayLike, metadata: npt.ArrayLike, **start: int
) -> Explorer:
    """The chunk of a sparse A that four bits of a lane describe: sliders for lane and group of bits.

    Group 0 is bits 3:0, group 7 bits 31:28; `start` may give lane and group. The selector is the one that uses the
    lane. Raises as metadata_of_a_chunk.
    """
    sparse = _with_metadata(instruction)
    layout = sparse.fragments["e"].layout

    def draw(lane: int, group: int) -> Picture:
        selector, row, chunk = layout.position(lane, group)
        return show.sparsity(sparse, dense, metadata, row, chunk, selector)

    return Explorer(draw, controls(start, lane=layout.lanes - 1, group=layout.slots - 1))


def change_metadata(
    instruction: str | Instruction,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    metadata: npt.ArrayLike,
    **start: Any,
) -> Explorer:
    """Change four bits of the metadata of a sparse instruction, and see which elements of D change.

    `a`, `b`, `c` and `metadata` are registers; `start` may give code (four bits, "0b0100"), lane and group (0 is bits
    3:0). Raises OperandError for a start that is not possible, IllegalInstruction for an instruction without metadata.
    """
    sparse = _with_metadata(instruction)
    registers = [as_array(each, name) for name, each in (("a", a), ("b", b), ("c", c), ("metadata", metadata))]
    d, slots = sparse.fragments["d"], sparse.fragments["e"].layout.slots
    codes = [f"{code:#06b}" for code in sorted(pattern_of(sparse).positions)]
    before = d.unpack(run(sparse, *registers, 0))

    def draw(code: str, lane: int, group: int) -> Picture:
        changed, low = registers[3].copy(), 4 * group
        changed[lane] = int(changed[lane]) & ~(15 << low) & 0xFFFFFFFF | int(code, 2) << low
        after = d.unpack(run(sparse, *registers[:3], changed, 0))
        return show.changes(before, after, d.format, cause=f"bits {low + 3}:{low} of lane {lane} are {code[2:]}")

    return Explorer(draw, controls(start, code=codes, lane=sparse.lanes - 1, group=slots - 1))


def change_one_element(
    row: npt.ArrayLike, ways: Mapping[str, tuple[Callable[[Any], Any], int]], high: float = 8.0, **start: Any
) -> Explorer:
    """Change one number of a row, and see what becomes of all of them when the row is pruned or quantised.

    `ways` are functions of a row by name, each with the number of elements in its blocks: {"2:4": (prune, 4)}. Sliders
    choose the column and its value, up to `high`; `start` may give way, column and value. Raises OperandError for a
    start that is not possible.
    """
    numbers = as_array(row, "the row").astype(np.float64)

    def draw(way: str, column: int, value: float) -> Picture:
        changed = numbers.copy()
        changed[column] = value
        function, block = ways[way]
        return show.before_and_after(changed, function(changed), block)

    values = Range("value", high, 1.0, 0.25)
    return Explorer(draw, controls(start, way=list(ways), column=len(numbers) - 1, value=values))


def choose_scales(
    instruction: str | Instruction, operands: Sequence[npt.ArrayLike], scale_a: npt.ArrayLike, scale_b: npt.ArrayLike
) -> Explorer:
    """Choose byte-id and thread-id of both scale operands, and see which elements of D change.

    `operands` are the registers a, b and c; `scale_a` and `scale_b` have scales in all bytes of all lanes. D is
    compared with that of the ids 0. Raises IllegalInstruction for an instruction without scales.
    """
    scaled = _with_scales(instruction)
    d = scaled.fragments["d"]

    def multiplied(byte_a: int, thread_a: int, byte_b: int, thread_b: int) -> npt.NDArray[Any]:
        scales = (scale_a, (byte_a, thread_a), scale_b, (byte_b, thread_b))
        return d.unpack(run(scaled, *operands, *scales, target="sm_120a"))

    before = multiplied(0, 0, 0, 0)

    def draw(**ids: int) -> Picture:
        named = f"A {ids['byte_a']}, {ids['thread_a']} and B {ids['byte_b']}, {ids['thread_b']}"
        return show.changes(before, multiplied(**ids), d.format, cause=f"byte-id and thread-id of {named}")

    sliders: dict[str, Range] = {}
    for role in "ab":
        highs = _scale_limits(scaled, role)
        sliders[f"byte_{role}"] = Range(f"byte-id of {role.upper()}", highs["byte_id"], 0, scaled.facts.scales)
        sliders[f"thread_{role}"] = Range(f"thread-id of {role.upper()}", highs["thread_id"])
    return Explorer(draw, sliders)


def scales_of_a_block(instruction: str | Instruction, **start: Any) -> Explorer:
    """Which byte of which lane holds the scale of a block: a list for A or B, sliders for the ids and the block.

    `start` may give role ("a" or "b"), byte_id, thread_id, line (a row of A, a column of B) and block; see show.scales.
    Raises IllegalInstruction for an instruction without scales, OperandError for a start that is not possible.
    """
    scaled = _with_scales(instruction)
    limits = {role: _scale_limits(scaled, role) for role in "ab"}
    highs = {name: max(limits["a"][name], limits["b"][name]) for name in limits["a"]}
    sliders = {
        "byte_id": Range("byte-id", highs["byte_id"], step=scaled.facts.scales),
        "thread_id": Range("thread-id", highs["thread_id"]),
    }
    return Explorer(
        lambda role, **at: show.scales(scaled, role, **at),
        controls(start, role=Choice("operand", ("a", "b"), "a"), **(highs | sliders)),
        lambda role, **_: limits[role],
    )


def _scale_limits(scaled: Instruction, role: str) -> dict[str, int]:
    """The largest ids, line and block of an operand's scales."""
    count, shape = scaled.facts.scales, scaled.shape
    threads, lines = scaled.fragments[f"scale_{role}"].shape[0], shape.m if role == "a" else shape.n
    return {"byte_id": 4 - count, "thread_id": threads - 1, "line": lines - 1, "block": count - 1}


def _with_scales(instruction: str | Instruction) -> Instruction:
    """The instruction. Raises IllegalInstruction if it has no scales."""
    scaled = parse(instruction)
    show.scales(scaled)
    return scaled


def _with_metadata(instruction: str | Instruction) -> Instruction:
    """The instruction. Raises OperandError if its A is dense."""
    sparse = parse(instruction)
    pattern_of(sparse)
    return sparse

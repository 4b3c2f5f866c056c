"""Explorers of sparsity metadata and of scale factors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu import show
from tcemu.errors import OperandError
from tcemu.formats.arrays import as_array
from tcemu.instructions import Instruction, parse, run
from tcemu.instructions.mma_sp import pattern_of
from tcemu.show.explorers.explorer import Choice, Explorer, Range, ranges
from tcemu.show.picture import Picture


def metadata_of_a_chunk(
    instruction: str | Instruction, dense: npt.ArrayLike, metadata: npt.ArrayLike, selector: int = 0, **start: int
) -> Explorer:
    """The metadata of one chunk of a sparse A, and where it is: sliders for its row and chunk; see show.sparsity.

    `start` may give row and chunk. Raises what show.sparsity raises, OperandError for a start that is not possible.
    """
    found = _with_metadata(instruction)
    _, rows, chunks = found.fragments["e"].shape
    controls = ranges({"row": rows - 1, "chunk": chunks - 1}, start)
    return Explorer(lambda row, chunk: show.sparsity(found, dense, metadata, row, chunk, selector), controls)


def metadata_of_a_lane(
    instruction: str | Instruction, dense: npt.ArrayLike, metadata: npt.ArrayLike, **start: int
) -> Explorer:
    """The chunk of a sparse A that four bits of a lane describe: sliders for lane and group of bits.

    Group 0 is bits 3:0, group 7 bits 31:28; `start` may give lane and group. The selector is the one that uses the
    lane. Raises as metadata_of_a_chunk.
    """
    found = _with_metadata(instruction)
    fragment = found.fragments["e"]

    def draw(lane: int, group: int) -> Picture:
        selector, row, chunk = fragment.layout.position(lane, group)
        return show.sparsity(found, dense, metadata, row, chunk, selector)

    return Explorer(draw, ranges({"lane": fragment.lanes - 1, "group": fragment.layout.slots - 1}, start))


def change_metadata(
    instruction: str | Instruction,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    metadata: npt.ArrayLike,
    selector: int = 0,
    target: str = "sm_90a",
    **start: Any,
) -> Explorer:
    """Change four bits of the metadata of a sparse instruction, and see which elements of D change.

    `a`, `b`, `c` and `metadata` are registers; `start` may give code (four bits, "0b0100"), lane and group (0 is bits
    3:0). Raises OperandError for a start that is not possible, IllegalInstruction for an instruction without metadata.
    """
    found = _with_metadata(instruction)
    registers = [as_array(given, name) for name, given in (("a", a), ("b", b), ("c", c), ("metadata", metadata))]
    d, slots = found.fragments["d"], found.fragments["e"].layout.slots
    codes = tuple(f"{code:#06b}" for code in sorted(pattern_of(found).places))
    before = d.unpack(run(found, *registers, selector, target=target))

    def draw(code: str, lane: int, group: int) -> Picture:
        held, low = registers[3].copy(), 4 * group
        held[lane] = int(held[lane]) & ~(15 << low) & 0xFFFFFFFF | int(code, 2) << low
        after = d.unpack(run(found, *registers[:3], held, selector, target=target))
        return show.changes(before, after, d.format, cause=f"bits {low + 3}:{low} of lane {lane} are {code[2:]}")

    controls = ranges({"lane": found.lanes - 1, "group": slots - 1}, {k: v for k, v in start.items() if k != "code"})
    return Explorer(draw, {"code": Choice("code", codes, start.get("code", codes[0])), **controls})


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

    unknown = [name for name in start if name not in ("way", "column", "value")]
    if unknown:
        raise OperandError(f"no control is called {unknown[0]!r}; there are way, column and value")
    controls: dict[str, Range | Choice] = {
        "way": Choice("way", tuple(ways), start.get("way", next(iter(ways)))),
        "column": Range("column", len(numbers) - 1, start.get("column", 0)),
        "value": Range("value", high, start.get("value", 1.0), 0.25),
    }
    return Explorer(draw, controls)


def choose_scales(
    instruction: str | Instruction,
    operands: Sequence[npt.ArrayLike],
    scale_a: npt.ArrayLike,
    scale_b: npt.ArrayLike,
    target: str = "sm_120a",
) -> Explorer:
    """Choose byte-id and thread-id of both scale operands, and see which elements of D change.

    `operands` are the registers a, b and c; `scale_a` and `scale_b` have scales in all bytes of all lanes. D is
    compared with that of the ids 0. Raises IllegalInstruction for an instruction without scales.
    """
    found = parse(instruction)
    show.scales(found)  # raises for an instruction without scales
    d, count = found.fragments["d"], found.facts.scales

    def multiplied(byte_a: int, thread_a: int, byte_b: int, thread_b: int) -> npt.NDArray[Any]:
        picks = (scale_a, (byte_a, thread_a), scale_b, (byte_b, thread_b))
        return d.unpack(run(found, *operands, *picks, target=target))

    before = multiplied(0, 0, 0, 0)

    def draw(**ids: int) -> Picture:
        told = f"A {ids['byte_a']}, {ids['thread_a']} and B {ids['byte_b']}, {ids['thread_b']}"
        return show.changes(before, multiplied(**ids), d.format, cause=f"byte-id and thread-id of {told}")

    controls: dict[str, Range | Choice] = {}
    for role in "ab":
        highs = _scale_limits(found, role)
        controls[f"byte_{role}"] = Range(f"byte-id of {role.upper()}", highs["byte_id"], 0, count)
        controls[f"thread_{role}"] = Range(f"thread-id of {role.upper()}", highs["thread_id"], 0)
    return Explorer(draw, controls)


def scales_of_a_block(instruction: str | Instruction, role: str = "a", **start: int) -> Explorer:
    """Which byte of which lane holds the scale of a block: a list for A or B, sliders for the ids and the block.

    `start` may give byte_id, thread_id, line (a row of A, a column of B) and block; see show.scales. Raises
    IllegalInstruction for an instruction without scales, OperandError for a start that is not possible.
    """
    found = parse(instruction)
    show.scales(found)  # raises for an instruction without scales
    highs = {side: _scale_limits(found, side) for side in "ab"}
    controls = ranges({name: max(highs["a"][name], highs["b"][name]) for name in highs["a"]}, start)
    controls["thread_id"] = replace(controls["thread_id"], label="thread-id")
    controls["byte_id"] = Range("byte-id", highs["a"]["byte_id"], start.get("byte_id", 0), found.facts.scales)
    return Explorer(
        lambda role, **at: show.scales(found, role, **at),
        {"role": Choice("operand", ("a", "b"), role), **controls},
        lambda role, **_: highs[role],
    )


def _scale_limits(instruction: Instruction, role: str) -> dict[str, int]:
    """The largest ids, line and block of an operand's scales."""
    count, shape = instruction.facts.scales, instruction.shape
    threads, lines = instruction.fragments[f"scale_{role}"].shape[0], shape.m if role == "a" else shape.n
    return {"byte_id": 4 - count, "thread_id": threads - 1, "line": lines - 1, "block": count - 1}


def _with_metadata(instruction: str | Instruction) -> Instruction:
    """The instruction. Raises OperandError if its A is dense."""
    found = parse(instruction)
    pattern_of(found)
    return found

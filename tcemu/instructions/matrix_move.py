"""ldmatrix, stmatrix and movmatrix: 8x8 matrices (and their 8-bit kin) between shared memory and fragments.

    d = tcemu.run("ldmatrix.sync.aligned.m8n8.x4.shared.b16", addresses, shared=bytes)          9.7.14.5.15
    tcemu.run("stmatrix.sync.aligned.m8n8.x4.shared.b16", addresses, d, shared=bytes)           9.7.14.5.16
    d = tcemu.run("movmatrix.sync.aligned.m8n8.trans.b16", a)                                   9.7.14.5.17

A lane gives the address of a row of 16 bytes, not of what it receives: row r of matrix i is at the address of lane
8 i + r (16 i + r for m16n16). Addresses are arrays (..., 32); from sm_80 on, the addresses of lanes that are not needed
may be anything.

ldmatrix .s8.s4 is from PTX ISA 9.4, whose manual says that its elements are packed. On an H100, others observed that
its rows of 8 bytes need only that alignment (the probe in vLLM's pull request 50096).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, OperandError
from tcemu.formats import Container, lookup
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction, Shape
from tcemu.instructions.lessons import MOVES
from tcemu.instructions.memory import Memory, as_int64, integral
from tcemu.instructions.multiply import CHUNK, broadcast, take
from tcemu.instructions.rows import Rows, in_spaces, vocabulary
from tcemu.instructions.spelling import Spelling, Words
from tcemu.layouts import Fragment
from tcemu.layouts.matrix import matrix

Array = npt.NDArray[Any]

LOAD_SECTION, STORE_SECTION, MOVE_SECTION = "9.7.14.5.15", "9.7.14.5.16", "9.7.14.5.17"
_BLACKWELL = "sm_100f sm_110f sm_120f"

# ---------------------------------------------------------------------------------------------------- the tables


_B16 = {"shape": ("m8n8",), "num": ("x1", "x2", "x4"), "trans": ("", "trans"), "type": ("b16",)}
_M16N16 = {"shape": ("m16n16",), "num": ("x1", "x2"), "trans": ("trans",)}
_M16N8 = {"shape": ("m16n8",), "num": ("x1", "x2", "x4"), "trans": ("trans",), "type": ("b8",)}
_EXPANDED = {"dst_fmt": ("b8x16",), "src_fmt": ("b6x16_p32", "b4x16_p64")}
_NIBBLES = {"shape": ("m8n16",), "num": ("x1", "x2", "x4"), "dst_fmt": ("s8",), "src_fmt": ("s4",)}
LOAD_ROWS = [
    *in_spaces(_B16, "shared", "6.5", "sm_75"),
    *in_spaces({**_M16N16, "type": ("b8",)}, "shared", "8.6", _BLACKWELL),
    *in_spaces({**_M16N16, **_EXPANDED}, "shared", "8.6", _BLACKWELL),
    *in_spaces({"shape": ("m8n16",), "num": ("x1", "x2", "x4"), **_EXPANDED}, "shared", "8.6", _BLACKWELL),
    *in_spaces(_NIBBLES, "shared", "9.4", f"sm_90a {_BLACKWELL}", row=8),
]
STORE_ROWS = [
    *in_spaces(_B16, "shared", "7.8", "sm_90"),
    *in_spaces(_M16N8, "shared", "8.6", _BLACKWELL),
]
MOVE_ROWS = [Rows({"shape": ("m8n8",), "trans": ("trans",), "type": ("b16",)}, "7.8", "sm_75")]


class Source(NamedTuple):
    """Elements in a row of memory that are extended to bytes in registers, with zeros or with their sign."""

    bits: int
    signed: bool = False


#: By the .src_fmt qualifier; the rest of a row after 16 elements is padding.
SOURCES = {"b6x16_p32": Source(6), "b4x16_p64": Source(4), "s4": Source(4, signed=True)}
#: The element types of the fragments; unsigned integers of the same width stand for plain bits.
_BITS = {"b16": Container(lookup("f16"), 16), "b8": Container(lookup("u8"), 8), "s8": Container(lookup("s8"), 8)}


def row_bytes(instruction: Instruction) -> int:
    """Bytes of a row in shared memory; the row's address is a multiple of this number."""
    return instruction.facts.row


def _make(name: str, section: str, roles: str) -> Any:
    def make(words: Words, rows: Rows, opcode: str) -> Instruction:
        called = words.get("type") or words["dst_fmt"].removesuffix("x16")
        layout = matrix(words["shape"], words.get("trans", ""), int(words.get("num", "x1")[1:]))
        fragments = {role: Fragment(role, layout, _BITS[called], called) for role in roles}
        shape, before = Shape.read(words["shape"]), ((frozenset({75}), {"facts": replace(rows.facts, all_lanes=True)}),)
        return Instruction(opcode, name, section, shape, rows.gate, {}, fragments, words, rows.facts, before)

    return make


def _make_move(words: Words, rows: Rows, opcode: str) -> Instruction:
    sides = {"d": "trans", "a": ""}
    fragments = {role: Fragment(role, matrix("m8n8", side, 1), _BITS["b16"], "b16") for role, side in sides.items()}
    return Instruction(opcode, "movmatrix", MOVE_SECTION, Shape(8, 8), rows.gate, {}, fragments, words, rows.facts)


# ---------------------------------------------------------------------------------------------------- addresses


def _addresses(instruction: Instruction, value: npt.ArrayLike, needed: int) -> tuple[Array, tuple[int, ...]]:
    """Addresses (..., 32) as int64, cut to the lanes that are needed, and the leading axes, which are warps."""
    array = integral(instruction, value, "addresses")
    if array.ndim < 1 or array.shape[-1] != 32:
        raise OperandError(f"{instruction}: addresses must be (..., 32), one for each lane; got shape {array.shape}")
    return as_int64(array[..., :needed]), array.shape[:-1]


def _check(memory: Memory, addresses: Array, first: int) -> None:
    """Rows at `addresses` (warps from `first` on, lanes), aligned and inside the memory."""
    row = row_bytes(memory.instruction)
    memory.check(addresses, row, row, "lane", f"a row of {row} bytes starts at a multiple of {row}", first)


def _load(instruction: Instruction, _: Any, operands: Sequence[npt.ArrayLike], memories: Mapping[str, Any]) -> Array:
    """Load the matrices whose rows the lanes address."""
    if len(operands) != 1:
        raise OperandError(f"{instruction} takes the addresses of rows (..., 32); got {len(operands)} operands")
    memory = Memory(instruction, memories, generic=("shared",))
    fragment = instruction.fragments["d"]
    rows = prod(fragment.shape[:-1])
    addresses, own = _addresses(instruction, operands[0], 32 if instruction.facts.all_lanes else rows)
    warps = broadcast(instruction, {"addresses": own, memory.name: memory.own})
    at, which = take(addresses, own, warps), take(memory.numbers, memory.own, warps)
    out = np.empty((prod(warps), fragment.lanes * fragment.registers), fragment.container.register_dtype)
    for start in range(0, len(out), CHUNK):
        some = slice(start, start + CHUNK)
        here = at(some)
        _check(memory, here, start)
        lines = memory.load(here[:, :rows], row_bytes(instruction), which(some) if memory.own else None)
        out[some] = fragment.write(_elements(instruction, lines).reshape(len(lines), -1))
    return out.reshape(*warps, fragment.lanes, fragment.registers)


def _elements(instruction: Instruction, lines: Array) -> Array:
    """Patterns of rows of bytes; 6- and 4-bit elements are extended to bytes."""
    source = SOURCES.get(instruction.words.get("src_fmt", ""))
    if source is None:
        return np.ascontiguousarray(lines).view(instruction.fragments["d"].container.storage)
    stream = np.unpackbits(lines, axis=-1, bitorder="little")[..., : 16 * source.bits]
    each = stream.reshape(*lines.shape[:-1], 16, source.bits)
    filled: Array = np.packbits(each, axis=-1, bitorder="little")[..., 0]
    sign = np.uint8(1 << source.bits - 1)
    return (filled ^ sign) - sign if source.signed else filled


def _store(instruction: Instruction, _: Any, operands: Sequence[npt.ArrayLike], memories: Mapping[str, Any]) -> None:
    """Store the matrices in the rows that the lanes address; shared memory changes in place."""
    if len(operands) != 2:
        raise OperandError(
            f"{instruction} takes the addresses of rows (..., 32) and registers; got {len(operands)} operands"
        )
    memory = Memory(instruction, memories, generic=("shared",))
    fragment = instruction.fragments["a"]
    registers = fragment.check(operands[1])
    rows = prod(fragment.shape[:-1])
    addresses, own = _addresses(instruction, operands[0], rows)
    warps = broadcast(instruction, {"addresses": own, "registers": registers.shape[:-2], memory.name: memory.own})
    at, held = take(addresses, own, warps), take(registers, registers.shape[:-2], warps)
    which = take(memory.numbers, memory.own, warps)
    chunks = [slice(start, start + CHUNK) for start in range(0, prod(warps), CHUNK)]

    def lines(flat: Array) -> Array:
        patterns = fragment.read(flat)
        return np.ascontiguousarray(patterns).reshape(len(patterns), rows, -1).view(np.uint8)

    for some in chunks:  # check everything before storing the first byte
        _check(memory, at(some), some.start)
        twice = np.flatnonzero(memory.repeated(at(some), row_bytes(instruction)))
        if len(twice):
            _check_overlap(instruction, at(some)[twice], lines(held(some)[twice]), some.start + twice, prod(warps))
    for some in chunks:
        memory.store(at(some), lines(held(some)), which(some) if memory.own else None)


def _check_overlap(instruction: Instruction, addresses: Array, lines: Array, numbers: Array, warps: int) -> None:
    """Raise AddressError if two lanes of a warp store different rows at one address: which one remains is undefined."""
    for number, places, stored in zip(numbers, addresses, lines, strict=True):
        rows: dict[int, int] = {}
        for lane, address in enumerate(places.tolist()):
            other = rows.setdefault(address, lane)
            if (stored[other] != stored[lane]).any():
                whose = f" of warp {number}" if warps > 1 else ""
                message = (
                    f"{instruction}: lanes {other} and {lane}{whose} store different rows at address {address}; which "
                    f"one remains is undefined (PTX ISA {instruction.section})"
                )
                raise AddressError(message, "overlap")


def _move(instruction: Instruction, _: Any, operands: Sequence[npt.ArrayLike], memories: Mapping[str, Any]) -> Array:
    """Transpose a matrix across the lanes."""
    if len(operands) != 1:
        raise OperandError(
            f"{instruction} takes the registers of one matrix and returns its transpose; got {len(operands)} operands"
        )
    source, target = instruction.fragments["a"], instruction.fragments["d"]
    registers = source.check(operands[0])
    flat = registers.reshape(-1, source.lanes * source.registers)
    return target.write(source.read(flat)).reshape(*registers.shape[:-2], target.lanes, target.registers)


# ---------------------------------------------------------------------------------------------------- the families

_SHARED = frozenset({"shared"})
LOAD = Family(
    "ldmatrix",
    LOAD_SECTION,
    Spelling(
        "ldmatrix.sync.aligned.{shape}.{num}[.{trans}][.{ss}][.{type}][.{dst_fmt}.{src_fmt}]", vocabulary(LOAD_ROWS)
    ),
    tuple(LOAD_ROWS),
    _make("ldmatrix", LOAD_SECTION, "d"),
    _load,
    MOVES,
    memories=_SHARED,
    signature="d = addresses",
    about="loads matrices from rows of shared memory into registers, by one warp",
)
STORE = Family(
    "stmatrix",
    STORE_SECTION,
    Spelling("stmatrix.sync.aligned.{shape}.{num}[.{trans}][.{ss}].{type}", vocabulary(STORE_ROWS)),
    tuple(STORE_ROWS),
    _make("stmatrix", STORE_SECTION, "a"),
    _store,
    MOVES,
    memories=_SHARED,
    signature="= addresses a",
    about="stores matrices from registers into rows of 16 bytes of shared memory, by one warp",
)
MOVE = Family(
    "movmatrix",
    MOVE_SECTION,
    Spelling("movmatrix.sync.aligned.{shape}.{trans}.{type}", vocabulary(MOVE_ROWS)),
    tuple(MOVE_ROWS),
    _make_move,
    _move,
    MOVES,
    signature="d = a",
    about="transposes an 8 x 8 matrix across the lanes of a warp",
)

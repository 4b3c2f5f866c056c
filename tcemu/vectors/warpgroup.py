"""Cases of wgmma: matrices in shared memory, with their descriptors, and in registers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tcemu.formats import Format
from tcemu.instructions.instruction import Instruction
from tcemu.layouts.canonical import Major
from tcemu.layouts.descriptor import FIELDS, Descriptor
from tcemu.vectors import inputs
from tcemu.vectors.operands import sources
from tcemu.vectors.patterns import Array, elements, random_words

#: Where A and B begin in shared memory, and its bytes: 64 rows of at most 128 bytes, then 256 of them.
A, B, SIZE = 0, 8192, 8192 + 32768
#: The largest n whose tiles are also placed off their pattern's boundary: a descriptor's meaning does not depend on n.
_NARROW = 16
_BASE = next(field for field in FIELDS if field.attribute == "base_offset")


def cases(instruction: Instruction, kind: str, warps: int, series: str) -> Iterator[tuple[str, tuple[Any, ...], Array]]:
    """A in registers and in shared memory, each with a layout that the key determines: name, operands, shared memory.

    Narrow ones also "off the boundary": each warpgroup has its own starts and base offsets.
    """
    yield _case(instruction, kind, "registers", max(warps // 64, 1), series)
    yield _case(instruction, kind, "shared", max(warps // 64, 1), series)
    if instruction.shape.n <= _NARROW:
        yield _case(instruction, kind, "off the boundary", max(warps // 4, 1), series)


def _case(
    instruction: Instruction, kind: str, where: str, warpgroups: int, series: str
) -> tuple[str, tuple[Any, ...], Array]:
    key, types = f"{series}|{instruction}|{kind}|{where}", instruction.types
    operands = sources(instruction, described=where != "registers")
    roles = {operand.role: operand.kind for operand in operands}
    drawn = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "little")
    trans = (drawn & 1, drawn >> 1 & 1) if "imm_trans_b" in roles else (0, 0)
    swizzles = [(0, 32, 64, 128)[drawn >> shift & 3] for shift in (2, 4)]
    _, n, k = instruction.shape
    values: dict[str, Any] = {
        "d": _accumulator(instruction, kind, f"{key}|d", warpgroups),
        "b": _tile(types["b"], n, k, trans[1], swizzles[1], B, warpgroups),
        "scale_d": random_words(f"{key}|scale_d", warpgroups) % np.uint64(4) > 0,
        "imm_scale_a": 1 - 2 * (drawn >> 6 & 1),
        "imm_scale_b": 1 - 2 * (drawn >> 7 & 1),
        "imm_trans_a": trans[0],
        "imm_trans_b": trans[1],
    }
    fragment = instruction.fragments["a"]
    if roles["a"] == "registers":
        values["a"] = inputs.registers(fragment, kind, f"{key}|a", warpgroups)
    else:
        m, stored = fragment.shape
        values["a"] = _tile(types["a"], m, stored, trans[0], swizzles[0], A, warpgroups)
    if where == "off the boundary":
        values |= {role: values[role] | _off(f"{key}|{role} off", warpgroups) for role in "ab"}
    if "e" in roles:
        warps = warpgroups * fragment.lanes // 32
        values["e"] = inputs.metadata(instruction, f"{key}|e", warps).reshape(warpgroups, -1)
        values["f"] = (drawn >> 8) % instruction.fragments["e"].shape[0]
    tiles = (("a", B - A, 0), ("b", SIZE - B, 1))
    held = [_bytes(types[role], kind, f"{key}|{role}", warpgroups, size, negated) for role, size, negated in tiles]
    return where, tuple(values[operand.role] for operand in operands), np.concatenate(held, axis=-1)


def _off(key: str, warpgroups: int) -> Array:
    """Bits (warpgroups) that move a descriptor by 0 to 1008 bytes and give it a base offset of 0 to 7."""
    drawn = random_words(key, warpgroups)
    return drawn % np.uint64(64) | (drawn >> np.uint64(6) & np.uint64(7)) << np.uint64(_BASE.low)


def _tile(form: Format, mn: int, k: int, trans: int, swizzle: int, start: int, warpgroups: int) -> Array:
    major: Major = "MN" if trans else "K"
    descriptor = Descriptor.for_tile(form, mn, k, major=major, swizzle=swizzle, start=start)
    return np.full(warpgroups, int(descriptor), np.uint64)


def _accumulator(instruction: Instruction, kind: str, key: str, warpgroups: int) -> Array:
    fragment = instruction.fragments["d"]
    count = warpgroups * fragment.lanes * fragment.layout.slots
    patterns = elements(fragment.format, kind, key, count, accumulator=True)
    return fragment.container.pack(patterns.reshape(warpgroups, fragment.lanes, fragment.layout.slots))


def _bytes(form: Format, kind: str, key: str, warpgroups: int, size: int, negated: int) -> Array:
    """Bytes (warpgroups, size) full of elements; if neighbours cancel, those of A repeat and those of B change sign."""
    bits = form.container
    if bits < 8:
        return random_words(key, warpgroups * size // 8).view(np.uint8).reshape(warpgroups, size)
    patterns = elements(form, kind, key, warpgroups * size * 8 // bits)
    if kind == "cancel":
        patterns[1::2] = patterns[::2] ^ np.uint64(form.sign_bit * negated)
    return patterns.astype(f"<u{bits // 8}").view(np.uint8).reshape(warpgroups, size)

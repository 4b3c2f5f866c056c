"""Inputs of one operand: registers of a matrix, metadata, scales, bytes of memory, addresses and strides.

Its key alone determines each. The golden files are hashes of answers to these: a change here makes them worthless, and
tests/live/test_golden.py fails.
"""

from __future__ import annotations

import numpy as np

from tcemu.instructions.instruction import Instruction
from tcemu.instructions.mma_sp import pattern_of
from tcemu.layouts import Fragment
from tcemu.vectors.patterns import Array, elements, random_words


def registers(fragment: Fragment, kind: str, key: str, warps: int) -> Array:
    """Registers (warps, lanes, registers) whose elements are of class `kind`.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> tcemu.vectors.registers(mma.fragments["a"], "specials", "any text", warps=2).shape
    (2, 32, 4)
    """
    form, slots = fragment.format, fragment.layout.slots
    if form.bits == 1:
        return (
            (random_words(key, warps * fragment.lanes * fragment.registers) & np.uint64(0xFFFFFFFF))
            .astype(np.uint32)
            .reshape(warps, fragment.lanes, fragment.registers)
        )
    patterns = elements(form, kind, key, warps * fragment.lanes * slots, fragment.role == "c").reshape(
        warps, fragment.lanes, slots
    )
    if kind == "cancel" and slots > 1 and fragment.role in "ab":
        # pairs of k: A repeats, B negates, and sometimes the last bit differs
        off = random_words(key + "#", patterns[..., 1::2].size).reshape(patterns[..., 1::2].shape) % np.uint64(8) == 0
        flip = np.uint64(form.sign_bit if fragment.role == "b" else 0)
        patterns[..., 1::2] = patterns[..., ::2] ^ flip ^ off.astype(np.uint64) << np.uint64(form.padding)
    # bits that the hardware ignores are random too
    return fragment.container.pack(patterns)


def metadata(instruction: Instruction, key: str, warps: int) -> Array:
    """Metadata (warps, 32) in which every group of four bits is legal.

    >>> sparse = tcemu.parse("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32")
    >>> tcemu.vectors.metadata(sparse, "any text", warps=2).shape
    (2, 32)
    """
    legal = np.array(sorted(pattern_of(instruction).positions), dtype=np.uint64)
    chosen = legal[(random_words(key, warps * 32 * 8) % np.uint64(len(legal))).astype(np.int64)].reshape(warps, 32, 8)
    places = np.arange(0, 32, 4, dtype=np.uint64)
    held: Array = np.bitwise_or.reduce(chosen << places, axis=-1).astype(np.uint32)
    return held


def scales(instruction: Instruction, kind: str, key: str, warps: int) -> Array:
    """Scale registers (warps, 32) of class `kind`: any bytes, or bytes around 1."""
    word = random_words(key, warps * 32).astype(np.uint32).reshape(warps, 32)
    if kind in ("bits", "specials"):
        return word
    one, spread = _ONE[instruction.words["stype"]], np.uint32(0x07070707)
    return np.asarray(np.uint32(one) + (word & spread), np.uint32)


#: Four scales, each a little below 1.
_ONE = {"ue8m0": 0x7C7C7C7C, "ue4m3": 0x34343434}

#: Bytes of memory that a warp of a load or a store sees.
BYTES = 8192


def memory(key: str, warps: int) -> Array:
    """Memory (warps, BYTES) of any bits."""
    return random_words(f"{key}|memory", warps * BYTES // 8).view(np.uint8).reshape(warps, BYTES)


def held(fragment: Fragment, key: str, warps: int) -> Array:
    """Registers (warps, lanes, registers) of any bits."""
    word = random_words(f"{key}|registers", warps * fragment.lanes * fragment.registers)
    return word.astype(fragment.container.register_dtype).reshape(warps, fragment.lanes, fragment.registers)


def addresses(key: str, warps: int) -> Array:
    """Addresses of rows (warps, 32): part of a permutation of all rows, so no two lanes store at the same address."""
    order = np.argsort(random_words(f"{key}|rows", warps * BYTES // 16).reshape(warps, -1), axis=1, kind="stable")
    return order[:, :32].astype(np.uint32) * 16


def pointer(fragment: Fragment, key: str, warps: int, align: int = 1) -> Array:
    """Pointers (warps) aligned as the fragment needs, and to `align` bytes."""
    return (random_words(f"{key}|pointer", warps) % np.uint64(16)).astype(np.int64) * max(fragment.registers * 8, align)


def stride(fragment: Fragment, layout: str, key: str, warps: int, align: int = 1) -> Array:
    """Strides (warps) in elements, at least a line, that keep every line aligned, and to `align` bytes."""
    rows, columns = fragment.shape
    length, size = columns if layout == "row" else rows, fragment.container.width
    step = max(fragment.registers * fragment.container.register_bits // size, 8 * align // size, 1)
    return (-(-length // step) + (random_words(f"{key}|stride", warps) % np.uint64(3)).astype(np.int64)) * step

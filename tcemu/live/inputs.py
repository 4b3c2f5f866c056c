"""Inputs that tell rules apart: the same on every machine, made from Philox words, so that only answers need be kept.

A class of inputs says where the exponents lie; `elements` gives patterns of a format, `registers` fills a fragment.
The golden files are hashes of answers to these: a change here makes them worthless; tests/live/test_golden.py tells.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.formats import Format
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.mma_sp import pattern_of
from tcemu.layouts import Fragment

Array = npt.NDArray[Any]

#: near: around 1. wide: every finite exponent. tiny: subnormals and their neighbours. floor: products around the
#: smallest that the result can show, and zeros. powers: the same as powers of two, most of them zeros. cancel:
#: neighbours cancel. specials: one in eight is 0, infinite or NaN. bits:
#: any.
CLASSES = ("near", "wide", "tiny", "floor", "powers", "cancel", "specials", "bits")


def words(key: str, count: int) -> Array:
    """`count` uint64 words that depend on `key` alone."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "little")
    return np.random.Philox(key=seed).random_raw(count)


def elements(form: Format, kind: str, key: str, count: int, accumulator: bool = False) -> Array:
    """`count` patterns of `form` of class `kind`."""
    word = words(key, count)
    if form.kind != "float" or kind == "bits":
        return word & np.uint64(form.code_mask | ((1 << form.padding) - 1))
    if kind == "powers":
        return _powers(form, word, accumulator)
    low, high = _exponents(form, kind, accumulator)
    field = np.uint64(low) + (word >> np.uint64(53)) % np.uint64(high - low + 1)
    below = np.uint64((1 << (form.mantissa + form.padding)) - 1)
    sign = np.where(word >> np.uint64(52) & np.uint64(1) == 1, np.uint64(form.sign_bit), np.uint64(0))
    patterns = sign | field << np.uint64(form.mantissa + form.padding) | word & below
    if kind == "floor" and accumulator:
        # one in three is a zero of either sign: only beside it can the floor of the largest exponent be seen
        patterns = np.where(words(key + "#", count) % np.uint64(3) == 0, sign, patterns)
    return _with_specials(form, patterns, words(key + "#", count)) if kind == "specials" else patterns


def _exponents(form: Format, kind: str, accumulator: bool) -> tuple[int, int]:
    """The lowest and highest exponent field of a class."""
    top = (1 << form.exponent) - 2
    middle = form.bias
    span = {
        "near": (middle - 3, middle + 3),
        "wide": (0, top),
        "tiny": (0, 2),
        "floor": (0, 8) if accumulator else (0, 4) if form.exponent < 8 else (middle - 74, middle - 66),
        "cancel": (middle - 4, middle + 4) if not accumulator else (middle - 26, middle + 4),
        "specials": (middle - 6, middle + 6),
    }[kind]
    return max(span[0], 0), min(span[1], top)


def _powers(form: Format, word: Array, accumulator: bool) -> Array:
    """Powers of two near the smallest that the result can show, of both signs; more than half of them are zeros."""
    # places above the last bit of a subnormal; wide formats start where the products reach the smallest results
    first = 0 if form.exponent < 8 or accumulator else (form.bias - 74) + form.mantissa - 1
    place = np.uint64(first) + (word >> np.uint64(40)) % np.uint64(form.mantissa + 9)
    mantissa = np.uint64(form.mantissa)
    # below the mantissa's length a single bit of a subnormal, above it an exponent field
    field = np.where(place < mantissa, 0, place - mantissa + 1).astype(np.uint64) << mantissa
    code = np.where(place < mantissa, np.uint64(1) << np.minimum(place, mantissa), field) << np.uint64(form.padding)
    sign = np.where(word >> np.uint64(63) == 1, np.uint64(form.sign_bit), np.uint64(0))
    zero = word % np.uint64(8) < np.uint64(6)
    largest = np.uint64(form.largest_pattern)
    return sign | np.where(zero, np.uint64(0), np.minimum(code, largest))


def _with_specials(form: Format, patterns: Array, word: Array) -> Array:
    """One in eight replaced by a zero, an infinity, a quiet or a signalling NaN, of either sign."""
    sign = np.where(word & np.uint64(8) > 0, np.uint64(form.sign_bit), np.uint64(0))
    infinity = form.infinity_bits if form.infinity_bits is not None else form.largest_pattern
    payload = word >> np.uint64(40) & np.uint64((1 << form.mantissa) - 1) << np.uint64(form.padding)
    nan = np.uint64(infinity) | payload if form.nan == "ieee" else np.full_like(word, form.nan_bits or 0)
    chosen = np.choose(
        (word >> np.uint64(4) & np.uint64(3)).astype(int), [np.zeros_like(word), np.full_like(word, infinity), nan, nan]
    )
    return np.where(word & np.uint64(7) == 0, sign | chosen, patterns)


def registers(fragment: Fragment, kind: str, key: str, warps: int) -> Array:
    """Registers (warps, lanes, registers) whose elements are of class `kind`."""
    form, slots = fragment.format, fragment.layout.slots
    if form.bits == 1:
        return (
            (words(key, warps * fragment.lanes * fragment.registers) & np.uint64(0xFFFFFFFF))
            .astype(np.uint32)
            .reshape(warps, fragment.lanes, fragment.registers)
        )
    patterns = elements(form, kind, key, warps * fragment.lanes * slots, fragment.role == "c").reshape(
        warps, fragment.lanes, slots
    )
    if kind == "cancel" and slots > 1 and fragment.role in "ab":
        # pairs of k: A repeats, B negates, and now and then the last bit differs
        off = words(key + "#", patterns[..., 1::2].size).reshape(patterns[..., 1::2].shape) % np.uint64(8) == 0
        flip = np.uint64(form.sign_bit if fragment.role == "b" else 0)
        patterns[..., 1::2] = patterns[..., ::2] ^ flip ^ off.astype(np.uint64) << np.uint64(form.padding)
    # ignored bits are set at random too: the hardware ignores them
    return fragment.container.pack(patterns)


def classes(instruction: Instruction) -> tuple[str, ...]:
    """The classes that differ for this instruction: integers and bits have but one."""
    return CLASSES if "a" in instruction.types and instruction.types["a"].kind == "float" else ("bits",)


def digest(registers: Array) -> str:
    """SHA-256 of registers as little-endian words in C order."""
    return hashlib.sha256(
        np.ascontiguousarray(registers).astype(registers.dtype.newbyteorder("<")).tobytes()
    ).hexdigest()


def operands(instruction: Instruction, kind: str, warps: int, series: str = "golden") -> tuple[Array, Array, Array]:
    """Registers of A, B and C."""
    key = f"{series}|{instruction.opcode}|{kind}"
    a, b, c = (registers(instruction.fragments[role], kind, f"{key}|{role}", warps) for role in "abc")
    return a, b, c


# ------------------------------------------------------------------------------------------------ other operands


def metadata(instruction: Instruction, key: str, warps: int) -> Array:
    """Metadata (warps, 32) in which every group of four bits is legal."""
    legal = np.array(sorted(pattern_of(instruction).places), dtype=np.uint64)
    chosen = legal[(words(key, warps * 32 * 8) % np.uint64(len(legal))).astype(int)].reshape(warps, 32, 8)
    places = np.arange(0, 32, 4, dtype=np.uint64)
    held: Array = np.bitwise_or.reduce(chosen << places, axis=-1).astype(np.uint32)
    return held


def scales(instruction: Instruction, kind: str, key: str, warps: int) -> Array:
    """Scale registers (warps, 32) of class `kind`: any bytes, or bytes around 1."""
    word = words(key, warps * 32).astype(np.uint32).reshape(warps, 32)
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
    return words(f"{key}|memory", warps * BYTES // 8).view(np.uint8).reshape(warps, BYTES)


def held(fragment: Fragment, key: str, warps: int) -> Array:
    """Registers (warps, lanes, registers) of any bits."""
    word = words(f"{key}|registers", warps * fragment.lanes * fragment.registers)
    return word.astype(fragment.container.register_dtype).reshape(warps, fragment.lanes, fragment.registers)


def addresses(key: str, warps: int) -> Array:
    """Addresses of rows (warps, 32): a part of a permutation of all rows, so no two lanes store at one place."""
    order = np.argsort(words(f"{key}|rows", warps * BYTES // 16).reshape(warps, -1), axis=1, kind="stable")
    return order[:, :32].astype(np.uint32) * 16


def pointer(fragment: Fragment, key: str, warps: int, align: int = 1) -> Array:
    """Pointers (warps) as aligned as the fragment needs, also to `align` bytes."""
    return (words(f"{key}|pointer", warps) % np.uint64(16)).astype(np.int64) * max(fragment.registers * 8, align)


def stride(fragment: Fragment, layout: str, key: str, warps: int, align: int = 1) -> Array:
    """Strides (warps) in elements, at least a line, that keep every line aligned, also to `align` bytes."""
    rows, columns = fragment.shape
    length, size = columns if layout == "row" else rows, fragment.container.width
    step = max(fragment.registers * fragment.container.register_bits // size, 8 * align // size, 1)
    return (-(-length // step) + (words(f"{key}|stride", warps) % np.uint64(3)).astype(np.int64)) * step

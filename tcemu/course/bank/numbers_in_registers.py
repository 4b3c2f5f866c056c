"""Exercises of notebook 01 about patterns in registers: e2m1 in bytes, and rounding to tf32."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Values
from tcemu.course.record import Exercise, Given
from tcemu.formats import lookup
from tcemu.instructions import parse

Array = npt.NDArray[Any]

_F8F6F4 = "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e2m1.e2m1.f32"


# ---------------------------------------------------------------------------------------------- registers


def _words(rng: np.random.Generator) -> Mapping[str, Any]:
    """Registers of .kind::f8f6f4 with four e2m1 each: the padding is zero."""
    container = parse(_F8F6F4).fragments["a"].container
    return {"registers": container.pack(rng.integers(0, 16, 64).astype(np.uint8)).astype(np.uint32)}


def _nibbles(given: Given, *shifts: int) -> Array:
    form = lookup("e2m1")
    patterns = given.registers[:, None] >> np.array(shifts, np.uint32) & 15
    return form.decode(patterns.astype(np.uint8)).astype(np.float32)


def _nibbles_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    yield "An e2m1 is in bits 5 to 2 of its byte. You took the low four bits.", _nibbles(given, 0, 8, 16, 24)
    yield "An e2m1 is in bits 5 to 2 of its byte. You took the high four bits.", _nibbles(given, 4, 12, 20, 28)
    for shift in (1, 3):
        yield (
            f"An e2m1 is in bits 5 to 2 of its byte. You shifted by {shift} in place of 2.",
            (_nibbles(given, shift, shift + 8, shift + 16, shift + 24)),
        )
    yield (
        "The first element is in the lowest byte. You have the bytes the other way round.",
        (_nibbles(given, 26, 18, 10, 2)),
    )
    yield (
        "With .kind::f8f6f4 each element has a byte of its own. You took four neighbouring fields of four bits.",
        (_nibbles(given, 0, 4, 8, 12)),
    )
    patterns = given.registers[:, None] >> np.array([2, 10, 18, 26], np.uint32) & 15
    sizes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    yield (
        "The highest of the four bits is the sign, as in every float: 0b1001 is −0.5. It is not two's complement.",
        (np.concatenate([sizes, -sizes[::-1]])[patterns]),
    )
    yield "The sign is missing: the highest of the four bits.", sizes[patterns & 7]
    for says, others in (
        ("Patterns 0 and 1 are subnormal: 0 and 0.5. There is no implicit leading 1.", (0.5, 0.75, 1, 1.5, 2, 3, 4, 6)),
        ("Pattern 1 is subnormal: 0.5. There is no implicit leading 1.", (0, 0.75, 1, 1.5, 2, 3, 4, 6)),
        ("e2m1 has neither infinity nor NaN: its last numbers are 4 and 6.", (0, 0.5, 1, 1.5, 2, 3, np.inf, np.nan)),
        ("The bias of e2m1 is 1, so that 0b0010 is 1.", (0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3)),
    ):
        yield says, np.concatenate([others, np.negative(others)])[patterns]
    yield "These are the patterns. Decode them: 0b0010 is 1, not 2.", patterns.astype(np.float32)


def _patterns(rng: np.random.Generator) -> Mapping[str, Any]:
    """Patterns of finite float32 numbers; a quarter are ties between two tf32."""
    patterns = rng.integers(1 << 23, 254 << 23, 200).astype(np.uint32) | rng.integers(0, 2, 200).astype(np.uint32) << 31
    patterns[::4] = patterns[::4] & 0xFFFFE000 | 0x1000
    return {"patterns": patterns}


def _tf32_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    x = given.patterns
    even = x + 0xFFF + (x >> np.uint32(13) & np.uint32(1))
    yield "You truncated. That is what the tensor core does by itself; cvt.rna rounds to the nearest.", x & 0xFFFFE000
    yield "Ties go away from zero with .rna; you sent them to the even pattern, as .rn does.", even & 0xFFFFE000
    yield "Ties go away from zero with .rna; you sent them toward zero.", (x + np.uint32(0xFFF)) & 0xFFFFE000
    yield "The low 13 bits are still set. Clear them after the addition.", x + np.uint32(0x1000)
    yield (
        "You added a whole last place. Half of it, 0x1000, is what rounds to the nearest.",
        ((x + np.uint32(0x2000)) & 0xFFFFE000),
    )
    yield (
        "The bits stay where they are: a tf32 is a pattern of 32 bits whose low 13 bits are zero.",
        ((x + np.uint32(0x1000)) >> np.uint32(13)),
    )
    for dropped in (11, 12, 14, 15):
        yield (
            f"tf32 has 10 mantissa bits, so 13 are dropped. You dropped {dropped}.",
            (x + np.uint32(1 << dropped - 1) & np.uint32(0xFFFFFFFF << dropped & 0xFFFFFFFF)),
        )
    positive = x >> np.uint32(31) == 0
    for rounds, other in ((positive, "negative"), (~positive, "positive")):
        yield (
            f"You truncated the {other} numbers. The sign does not matter: the magnitude is in the lower bits.",
            (x + np.where(rounds, np.uint32(0x1000), np.uint32(0)) & 0xFFFFE000),
        )
    yield (
        "tf32 has 10 mantissa bits, so 13 are dropped. You dropped 16, as for bf16.",
        ((x + np.uint32(0x8000)) & 0xFFFF0000),
    )


EXERCISES = [
    Exercise(
        "e2m1_in_bytes",
        "Unpack e2m1 from bytes",
        "Registers of `.kind::f8f6f4` hold four e2m1 each, one in every byte. Write `e2m1_in_bytes(registers)`, "
        "which takes a uint32 array (16,) and returns a float32 array (16, 4), the values in the order of the "
        "elements.",
        Values(
            lambda given: _nibbles(given, 2, 10, 18, 26), np.float32, _nibbles_mistakes,
            lambda index: f"Element {index[1]} of register {index[0]}", how="every value",
        ),
        minutes=15,
        only=("tcemu.formats.lookup", "tcemu.formats.Format.decode", "tcemu.formats.Format.codes"),
        know="several numbers in one register, notebook 01",
        section="9.7.14.5.14",
        hints=(
            "Element i is in byte i, so in bits 8 i + 5 to 8 i + 2.",
            "Shift and mask first, then look up the sixteen values of e2m1: 0, 0.5, 1, 1.5, 2, 3, …",
        ),
        points=2,
        draw=_words,
    ),
    Exercise(
        "nearest_tf32",
        "Round to tf32",
        "Write `nearest_tf32(patterns)`, which takes the patterns of float32 numbers (uint32) and returns the "
        "patterns of the nearest tf32 numbers, with ties away from zero, as `cvt.rna.tf32.f32` does, and "
        "with the ignored 13 bits zero. The numbers are finite and stay finite. Operations on "
        "whole numbers are enough.",
        Values(
            lambda given: lookup("tf32").encode(given.patterns.view(np.float32), rounding="rna"), np.uint32,
            _tf32_mistakes, lambda index: f"Pattern {index[0]}", how="every pattern",
        ),
        minutes=15,
        only=(),
        know="tf32 and rounding, notebook 01",
        section="",
        hints=(
            "Patterns of the same sign are ordered like the numbers' sizes: adding to one makes the number larger.",
            "What do you add, so that cutting off 13 bits afterwards rounds to the nearest?",
        ),
        points=2,
        draw=_patterns,
    ),
]  # fmt: skip

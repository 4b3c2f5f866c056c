"""Exercises of notebook 07: integers of 4 bits in registers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Values
from tcemu.course.record import Exercise, Given
from tcemu.formats import Container, lookup

Array = npt.NDArray[Any]

# ---------------------------------------------------------------------------------------------- s4 in a register


def _draw_s4(rng: np.random.Generator) -> Mapping[str, Any]:
    """Eight s4 numbers, in no order, some of them negative."""
    negative, others = -1 - rng.permutation(8)[:3], rng.permutation(8)[:5]
    return {"numbers": rng.permutation(np.concatenate([negative, others])).astype(np.int64)}


def _packed(given: Given) -> int:
    return int(Container(lookup("s4"), width=4).pack(lookup("s4").encode(given.numbers))[0])


def _joined(numbers: Iterable[int], width: int = 4, mask: int | None = 15) -> int:
    """Numbers side by side from the low bits up; without a mask, as Python's | joins negative numbers."""
    word = 0
    for place, number in enumerate(numbers):
        word |= (number if mask is None else number & mask) << width * place
    return word & 0xFFFFFFFF


def _wrong_packings(given: Given) -> Iterator[tuple[str, int]]:
    numbers = given.numbers.tolist()
    yield "The first number belongs in the lowest bits; you started from the highest.", _joined(numbers[::-1])
    yield (
        "Mask each number with 15: the sign bits of a negative one cover all that is above it.",
        (_joined(numbers, mask=None)),
    )
    yield (
        "Mask each number with 15: when you add them up, each negative one takes 1 from its neighbour.",
        (sum(number << 4 * place for place, number in enumerate(numbers)) & 0xFFFFFFFF),
    )
    pairs = [numbers[place ^ 1] for place in range(8)]
    yield "The two halves of each byte are swapped: the first of two numbers is in the low half.", _joined(pairs)
    yield (
        "You gave each number a byte; s4 has four bits to a number, and eight numbers to a register.",
        (_joined(numbers[:4], 8, 255)),
    )
    sign = [(8 if number < 0 else 0) | abs(number) & 7 for number in numbers]
    yield "You wrote sign and magnitude; s4 is two's complement.", _joined(sign)
    yield "You added 8 to each number; s4 is two's complement.", _joined([number + 8 for number in numbers])
    yield "You packed the magnitudes: the signs are lost.", _joined([abs(number) for number in numbers])


def _draw_registers(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"registers": rng.integers(0, 1 << 32, 16, dtype=np.uint64).astype(np.uint32)}


def _nibbles(registers: Array) -> Array:
    """The eight s4 of each register, as int64 (registers, 8)."""
    codes = Container(lookup("s4"), width=4).unpack(registers[:, None])
    return lookup("s4").decode(codes).astype(np.int64).reshape(len(registers), 8)


def _bytes(numbers: Array) -> Array:
    """Four numbers as the bytes of a register."""
    registers: Array = np.ascontiguousarray(numbers.astype(np.int8)).view(np.uint32).reshape(-1)
    return registers


def _evens_and_odds(numbers: Array) -> Array:
    return np.stack([_bytes(numbers[:, ::2]), _bytes(numbers[:, 1::2])])


def _wrong_halves(given: Given) -> Iterator[tuple[str, Array]]:
    signed, words = _nibbles(given.registers), given.registers
    evens, odds = words & np.uint32(0x0F0F0F0F), words >> np.uint32(4) & np.uint32(0x0F0F0F0F)
    yield "The signs are lost: a negative s4 needs ones in the upper half of its byte.", np.stack([evens, odds])
    yield "You swapped the two registers: the even places come first.", _evens_and_odds(signed)[::-1]
    yield (
        "The numbers are sixteen times too large: shift them down, and let the sign bit fill the upper half.",
        (np.stack([(words & np.uint32(0x0F0F0F0F)) << np.uint32(4), words & np.uint32(0xF0F0F0F0)])),
    )
    yield (
        "These are the lower four numbers and the upper four; here it is the even ones and the odd ones.",
        (np.stack([_bytes(signed[:, :4]), _bytes(signed[:, 4:])])),
    )
    shifted = words >> np.uint32(8) & np.uint32(0x0F0F0F0F)
    yield (
        "You shifted by 8 bits to get the odd numbers: an s4 has four.",
        (np.stack([_bytes(signed[:, ::2]), shifted | (shifted & np.uint32(0x08080808)) * np.uint32(0x1E)])),
    )
    low = np.where(evens & np.uint32(8), evens | np.uint32(0xFFFFFFF0), evens)
    high = np.where(odds & np.uint32(8), odds | np.uint32(0xFFFFFFF0), odds)
    yield "You extended the sign of the lowest byte only.", np.stack([low, high])


EXERCISES = [
    Exercise(
        "pack_s4",
        "Eight numbers in a register",
        "Write `pack_s4(numbers)`: takes eight whole numbers from −8 to 7 and returns the 32-bit register that holds "
        "them as s4, the first one in the lowest bits, as one whole number.",
        Values(_packed, np.uint32, _wrong_packings, what="The register"),
        minutes=8,
        only=(),
        know="shifts and masks, and two's complement (notebook 01)",
        section="9.7.14.5.11",
        hints=(
            "Each number has four bits. By how much is the third one shifted?",
            "What does −1 look like in Python, as bits? Which of them may go into the register?",
            "Keep the lowest four bits of each number with & 15, shift them up, and join them with |.",
        ),
        draw=_draw_s4,
    ),
    Exercise(
        "nibbles_to_bytes",
        "s4 on a chip that has only s8",
        "An H100 has no unit for s4: each of its `mma.sync` with s4 becomes two with s8. Write "
        "`nibbles_to_bytes(registers)`, which takes a uint32 array of registers (16) that hold eight s4 each and "
        "returns a uint32 array (2, 16): first the registers with numbers 0, 2, 4 and 6 of each as s8, then those with "
        "numbers 1, 3, 5 and 7. Use masks and shifts, as a GPU would, and no loop over the numbers if you can.",
        Values(
            lambda given: _evens_and_odds(_nibbles(given.registers)),
            np.uint32,
            _wrong_halves,
            place=lambda index: f"Register {index[1]} of the {('even', 'odd')[index[0]]} numbers",
        ),
        minutes=20,
        only=(),
        know="two's complement, and how s4 and s8 lie in a register (notebook 07)",
        section="9.7.14.5.11",
        hints=(
            "0x0f0f0f0f selects every second number. Where do the others go after a shift by four?",
            "A negative s4 has bit 3 set. As an s8 it needs ones in bits 4 to 7 as well.",
            "For numbers in the low halves, & 0x08080808 finds the signs. Which multiple of it fills bits 4 to 7?",
            (
                "Another way: exclusive-or with 8 and then subtract 8, in each byte. Can a borrow cross into the next "
                "byte?"
            ),
        ),
        draw=_draw_registers,
        points=2,
    ),
]

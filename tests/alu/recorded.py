"""Recordings of ordinary instructions, as sums, and what is needed to compare with them.

tests/golden/sm_90a-alu.npz has, for each of 6,568 instructions, the kinds of its operands and sums of its answers: for
all combinations of special operands, for 2^14 and for 2^20 random ones, and where there is one operand of at most 32
bits, for all of them. A name may end in an immediate, or in a bar where the result is a pair. Operands are made as the
recorder made them. The last two digits of a kind are its bits, those
before a type: 132 is f32, 264 f64, 316 f16, 416 bf16, 532 f16x2, 632 bf16x2, and 64 an integer.
"""

from collections import namedtuple
from functools import cache

import numpy as np
from places import GOLDEN

from tcemu import alu
from tcemu.alu.row import bits

U = np.uint64
Row = namedtuple("Row", "number name kinds special first random every")  # noqa: PYI024 - tests have no types

# ---------------------------------------------------------------------------------------- operands and sums


def mix(z):
    """SplitMix64: a number from a counter."""
    z = np.asarray(z, U) + U(0x9E3779B97F4A7C15)
    z = (z ^ z >> U(30)) * U(0xBF58476D1CE4E5B9)
    z = (z ^ z >> U(27)) * U(0x94D049BB133111EB)
    return z ^ z >> U(31)


def _half(kind, h):
    h = h & U(0xFFFFFFFF)
    raw = h & U(0xFFFF)
    if kind != 4:
        return raw
    middling = (h >> U(15) & U(1)) << U(15) | (U(115) + (h >> U(16) & U(255)) % U(24)) << U(7) | (h & U(0x7F))
    return np.where(h >> U(30) == 0, raw, middling)


def value(kind, h):
    """A random operand from a random number: some are any pattern, most are floats of middling exponents."""
    kind, width = divmod(kind, 100)
    some, ones = h >> U(62), U((1 << width) - 1)
    if kind == 1:
        exponent = U(115) + (h >> U(32) & U(255)) % U(24)
        middling = (h >> U(31) & U(1)) << U(31) | exponent << U(23) | (h & U(0x7FFFFF))
        return np.where(some == 0, h & U(0xFFFFFFFF), middling)
    if kind == 2:
        exponent = U(1011) + (h >> U(52) & U(255)) % U(24)
        middling = (h >> U(61) & U(1)) << U(63) | exponent << U(52) | (h & U(0xFFFFFFFFFFFFF))
        return np.where(some == 0, mix(h), middling)
    if kind in (3, 4):
        return _half(kind, h ^ h >> U(32))
    if kind in (5, 6):
        return _half(kind - 2, h) | _half(kind - 2, h >> U(32)) << U(16)
    any_, near_0 = mix(h) & ones, ((h & U(63)) - U(32)) & ones
    near_top = (U(1 << (width - 1)) + (h & U(7)) - U(4)) & ones
    return np.choose(some.astype(int), [any_, near_0, any_ >> (h >> U(50) & U(255)) % U(width), near_top])


def random_operands(row, count):
    """The first random operands of a recorded row."""
    counters = np.arange(count, dtype=U)
    return [value(kind, mix(U(row.number << 40) + U(4) * counters + U(n))) for n, kind in enumerate(row.kinds)]


def special_operands(row):
    """All combinations of special operands: fewer of each if there are three or four."""
    given = [_golden()[f"special_{kind}"] for kind in row.kinds]
    count = {3: 12, 4: 7}.get(len(given), min(map(len, given)))
    rest, found = np.arange(count ** len(given)), []
    for values in given:
        found.append(values[rest % count])
        rest = rest // count
    return found


def sum_of(answers, first=0):
    """The sum that the GPU made of answers."""
    return mix(answers ^ mix(np.arange(first, first + len(answers), dtype=U))).sum(dtype=U)


# ---------------------------------------------------------------------------------------- the file


@cache
def _golden():
    with np.load(GOLDEN / "sm_90a-alu.npz") as file:
        return dict(file)


@cache
def recorded():
    """Every recorded row."""
    file = _golden()
    kinds = [[int(kind) for kind in each if kind] for each in file["kinds"]]
    sums = [file[name] for name in ("special", "first", "random", "every")]
    return [Row(number, *each) for number, each in enumerate(zip(file["names"].tolist(), kinds, *sums, strict=True))]


# ---------------------------------------------------------------------------------------- what the table answers


def on_arrays(row, *operands, immediate=None):
    """The results of the reference."""
    constants = [] if immediate is None else [np.asarray([immediate], np.uint32)]
    found = row.meaning(alu.ARRAYS, *operands[:3], *constants, *operands[3:])
    return found if isinstance(found, tuple) else (found,)


def answers(name, operands, backend=on_arrays):
    """What the table gives for a recorded row: the first result, with a second one in bit 32, or CC.CF in bit 63.

    CC.CF is set before where the low half of the last operand is not 0.
    """
    opcode, _, immediate = name.rstrip("|").partition(", ")
    row = alu.find(opcode, pair=name.endswith("|"))
    kinds = [*row.operands, *["pred"] * row.carry_in]
    if immediate:
        del kinds[3]
    types = [bool if kind == "pred" else f"u{bits(kind) // 8}" for kind in kinds]
    *given, last = operands
    given = [*given, last & U(0xFFFFFFFF) if row.carry_in else last]
    given = [x.astype(each) for x, each in zip(given, types, strict=True)]
    first, *more = backend(row, *given, **({"immediate": int(immediate)} if immediate else {}))
    for each in more:
        first = first.astype(U) ^ each.astype(U) << U(63 if row.carry_out else 32)
    return first.astype(U)

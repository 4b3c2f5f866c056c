"""Conversions (PTX ISA 9.1, 9.7.9.22)."""

from __future__ import annotations

from tcemu.alu.integer import extended
from tcemu.alu.row import Ops, Row, Value, Words, bits


def between_integers(ops: Ops, words: Words, x: Value) -> Value:
    """Widened by the type that it had, or cut off."""
    return extended(ops, x, signed=words["from"][0] == "s", bits=bits(words["to"]))


_INTEGERS = "u8 s8 u16 s16 u32 s32 u64 s64"

ROWS = (
    Row("cvt.to.from", "to", "from", between_integers, "9.7.9.22", {"to": _INTEGERS, "from": _INTEGERS}),
)

"""Floating-point instructions of 32 and 64 bits (PTX ISA 9.1, 9.7.3)."""

from __future__ import annotations

from tcemu.alu.floats import finished, flushed
from tcemu.alu.row import Ops, Row, Value, Words


def added(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """The sum."""
    x, y = flushed(ops, words, x), flushed(ops, words, y)
    return finished(ops, words, ops.fadd(x, y))


def subtracted(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """The difference."""
    x, y = flushed(ops, words, x), flushed(ops, words, y)
    return finished(ops, words, ops.fsub(x, y))


def multiplied(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """The product."""
    x, y = flushed(ops, words, x), flushed(ops, words, y)
    return finished(ops, words, ops.fmul(x, y))


def multiply_added(ops: Ops, words: Words, x: Value, y: Value, z: Value) -> Value:
    """The product plus z."""
    x, y, z = (flushed(ops, words, each) for each in (x, y, z))
    return finished(ops, words, ops.fma(x, y, z))


_RND = {"rnd": "|rn"}

ROWS = (
    Row("add{.rnd}{.ftz}{.sat}.f32", "f32", "f32 f32", added, "9.7.3.3", _RND),
    Row("sub{.rnd}{.ftz}{.sat}.f32", "f32", "f32 f32", subtracted, "9.7.3.4", _RND),
    Row("mul{.rnd}{.ftz}{.sat}.f32", "f32", "f32 f32", multiplied, "9.7.3.5", _RND),
    Row("fma.rnd{.ftz}{.sat}.f32", "f32", "f32 f32 f32", multiply_added, "9.7.3.6", _RND),
)

"""What mov, cvta and isspacep compute, lane by lane (PTX ISA 9.1, 9.7.9): meanings as in tcemu.alu.

Generic addresses have the windows of tcemu.machine.addresses; .const and .global share one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tcemu.machine.addresses import BLOCK, LOCAL, PARAM, SHARED

Meaning = Callable[..., Any]


def same(ops: Any, x: Any) -> Any:
    """mov: the value itself."""
    return x


def pack(part: int) -> Meaning:
    """mov d, {a, b}: parts of these bits side by side, the first one lowest."""

    def meaning(ops: Any, *values: Any) -> Any:
        bits = part * len(values)
        found = ops.unsigned(values[0], bits)
        for number, value in enumerate(values[1:], 1):
            found = found | ops.unsigned(value, bits) << number * part
        return found

    return meaning


def unpack(count: int, bits: int) -> Meaning:
    """mov {d, e}, a: the parts of a source of these bits, the lowest first."""
    part = bits // count

    def meaning(ops: Any, x: Any) -> tuple[Any, ...]:
        return tuple(ops.unsigned(x >> number * part if number else x, part) for number in range(count))

    return meaning


def plus(ops: Any, x: Any, y: Any) -> Any:
    """cvta.shared, with the block's window as y."""
    return x + y


def minus(ops: Any, x: Any, y: Any) -> Any:
    """cvta.to.shared."""
    return x - y


#: isspacep: whether a generic address x lies in a space; y is the window of the block's own shared memory.
INSIDE: dict[str, Meaning] = {
    "global": lambda ops, x, y: x < SHARED,
    "const": lambda ops, x, y: x < 0,
    "shared": lambda ops, x, y: (x >= y) & (x < y + BLOCK),
    "shared::cta": lambda ops, x, y: (x >= y) & (x < y + BLOCK),
    "shared::cluster": lambda ops, x, y: (x >= SHARED) & (x < LOCAL),
    "local": lambda ops, x, y: (x >= LOCAL) & (x < PARAM),
    "param": lambda ops, x, y: x >= PARAM,
    "param::entry": lambda ops, x, y: x >= PARAM,
}


def fitted(meaning: Meaning, sources: Sequence[tuple[int, int, bool]], results: Sequence[tuple[int, int, bool]]) -> Meaning:
    """A meaning between registers of other widths than its own: (register's bits, its own bits, signed) of each.

    Of a wider source register the low bits are used. A result is extended to a wider register as its type says.
    """
    if all(one == other for one, other, _ in (*sources, *results)):
        return meaning

    def fits(ops: Any, *values: Any) -> tuple[Any, ...]:
        given = [_resized(ops, value, *how) for value, how in zip(values, sources, strict=True)]
        found = meaning(ops, *given)
        several = found if isinstance(found, tuple) else (found,)
        return tuple(_resized(ops, value, to, of, signed) for value, (of, to, signed) in zip(several, results, strict=True))

    return fits


def _resized(ops: Any, value: Any, have: int, want: int, signed: bool) -> Any:
    if have == want:
        return value
    return ops.signed(value, want) if signed else ops.unsigned(value, want)


def negated(meaning: Meaning, which: Sequence[bool]) -> Meaning:
    """A meaning of which some sources are !%p."""
    if not any(which):
        return meaning
    return lambda ops, *values: meaning(ops, *(~value if turned else value for value, turned in zip(values, which, strict=True)))

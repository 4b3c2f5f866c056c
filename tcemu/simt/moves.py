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
        packed = ops.unsigned(values[0], bits)
        for number, value in enumerate(values[1:], 1):
            packed = packed | ops.unsigned(value, bits) << number * part
        return packed

    return meaning


def unpack(count: int, bits: int) -> Meaning:
    """mov {d, e}, a: the parts of a source of these bits, the lowest first."""
    part = bits // count

    def meaning(ops: Any, x: Any) -> tuple[Any, ...]:
        return tuple(ops.unsigned(x >> number * part if number else x, part) for number in range(count))

    return meaning


def plus(ops: Any, x: Any, y: Any) -> Any:
    """cvta.shared, with what lies between both kinds of addresses as y."""
    return x + y


def minus(ops: Any, x: Any, y: Any) -> Any:
    """cvta.to.shared."""
    return x - y


def _between(low: int, high: int) -> Meaning:
    """isspacep: whether a generic address x lies in a window."""

    def meaning(ops: Any, x: Any, *own: Any) -> Any:
        return (x >= low) & (x < high)

    return meaning


def _own(ops: Any, x: Any, window: Any, origin: Any) -> Any:
    """isspacep.shared: whether a generic address x lies in the block's own shared memory."""
    first = window + origin
    return (x >= first) & (x < first + BLOCK)


#: The meanings of isspacep by the space. No address counts as constant: .const is a part of global memory here.
INSIDE: dict[str, Meaning] = {
    "global": _between(0, SHARED),
    "const": _between(0, 0),
    "shared": _own,
    "shared::cta": _own,
    "shared::cluster": _between(SHARED, LOCAL),
    "local": _between(LOCAL, PARAM),
    "param": _between(PARAM, 1 << 63),
    "param::entry": _between(PARAM, 1 << 63),
}
#: (bits of the register, bits that the meaning has, whether they are signed) of a source; of a result, the meaning's
#: bits come first.
Fit = tuple[int, int, bool]


def fitted(meaning: Meaning, sources: Sequence[Fit], results: Sequence[Fit]) -> Meaning:
    """A meaning between registers of other widths than its own.

    Of a wider source register the low bits are used. A result is extended to a wider register as its type says.
    """
    if all(one == other for one, other, _ in (*sources, *results)):
        return meaning

    def fits(ops: Any, *values: Any) -> tuple[Any, ...]:
        resized = [_resized(ops, value, *how) for value, how in zip(values, sources, strict=True)]
        result = meaning(ops, *resized)
        several = result if isinstance(result, tuple) else (result,)
        return tuple(_resized(ops, value, *how) for value, how in zip(several, results, strict=True))

    return fits


def _resized(ops: Any, value: Any, have: int, want: int, signed: bool) -> Any:
    if have == want:
        return value
    return ops.signed(value, want) if signed else ops.unsigned(value, want)


def negated(meaning: Meaning, which: Sequence[bool]) -> Meaning:
    """A meaning of which some sources are !%p."""
    if not any(which):
        return meaning

    def turned(ops: Any, *values: Any) -> Any:
        return meaning(ops, *(~value if turn else value for value, turn in zip(values, which, strict=True)))

    return turned

"""Diagnoses a wrong array: the usual accidents, where it is wrong, and what its wrong values have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.observe import where
from tcemu.errors import counted, ranges

Array = npt.NDArray[Any]
#: Relative differences that come from rounding.
_CLOSE = 1e-3
#: Bits that a sum may have lost for that to be its name.
_FEWER = 3
#: The most groups of neighbouring bits that are worth naming.
_GROUPS = 4


def about_array(got: Array, right: Array, axes: Sequence[str] = ()) -> str:
    """What is wrong with an array of numbers or registers of the right shape and dtype; empty if unknown.

    `axes` are what its axes count, by default row and column.

    >>> from tcemu.course.accidents import about_array
    >>> about_array(np.array([0x100, 0x200], np.uint32), np.array([0x10, 0x20], np.uint32))
    'Every value is shifted left by 4 bits.'
    """
    if says := accident(got, right, axes):
        return says
    names = _names(got.ndim, axes)
    wrong = _bits(got) != _bits(right)
    # A list's index says nothing, and the place of a single wrong element is known.
    named = "index" not in names and len(set(names)) == len(names) and wrong.sum() > 1
    facts = [where(dict(zip(names, got.shape, strict=True)), wrong)] if named else []
    facts.append(_elsewhere(got, right, wrong) or _values_wrong(got, right, wrong))
    return " ".join(says for says in facts if says)


def accident(got: Array, right: Array, axes: Sequence[str] = ()) -> str:
    """The accident that turns the right array into `got`; empty if it is not one of the usual ones.

    >>> from tcemu.course.accidents import accident
    >>> accident(np.array([3, 2, 1]), np.array([1, 2, 3]))
    'The values are in reverse order.'
    """
    held = _bits(got).ravel()
    if not held.any() or (held.size > 1 and (held == held[0]).all()):
        return ""  # many accidents end at the same number
    accidents = _accidents(right, _names(right.ndim, axes))
    return next((says for says, other in accidents if got.tobytes() == other.tobytes() != right.tobytes()), "")


def _names(count: int, axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(axes) if len(axes) == count else ("row", "column") if count == 2 else ("index",) * count


def _accidents(right: Array, names: Sequence[str]) -> Iterator[tuple[str, Array]]:
    """The array after each of the usual accidents."""
    for axis, name in enumerate(names):
        if right.shape[axis] > 1:
            many = "values" if name == "index" else f"{name}s"
            yield f"The {many} are in reverse order.", np.flip(right, axis)
            for by in (1, -1):
                yield f"The {many} are shifted by one, around the end.", np.roll(right, by, axis)
    if right.ndim == 2 and right.shape[0] == right.shape[1]:
        yield "The matrix is transposed.", right.T.copy()
    elif right.ndim == 2:
        says = "The values are in column-major order: those of the transposed matrix, in the right shape."
        yield says, right.T.reshape(right.shape)
    if right.dtype.kind in "iu":
        width = 8 * right.dtype.itemsize
        if width > 8:
            yield "The bytes of each value are in reverse order.", right.byteswap()
        if right.dtype.kind == "u":
            half = right.dtype.type(width // 2)
            low = right & right.dtype.type((1 << width // 2) - 1)
            yield "The upper half of each value is 0.", low
            yield "The lower half of each value is 0.", right - low
            yield "The two halves of each value are swapped.", right >> half | low << half
            yield "The bits of each value are in reverse order.", _reversed_bits(right)
            for by in (1, 2, 3, 4, 8, 16):
                if by < width:
                    yield f"Every value is shifted left by {counted(by, 'bit')}.", right << right.dtype.type(by)
                    yield f"Every value is shifted right by {counted(by, 'bit')}.", right >> right.dtype.type(by)
        yield "Every bit is inverted.", ~right
        with np.errstate(over="ignore"):
            yield "Every value is 1 too large.", right + right.dtype.type(1)
            yield "Every value is 1 too small.", right - right.dtype.type(1)
    elif right.dtype.kind == "f":
        yield "Every value has the wrong sign.", -right
        for lost in range(1, _FEWER + 1):
            last, more = ("bit", "one more is") if lost == 1 else (f"{lost} bits", f"{lost} more are")
            yield f"Your values are the right ones without their last {last}: {more} kept.", _cut(right, lost)


def _values_wrong(got: Array, right: Array, wrong: Array) -> str:
    """What the wrong values have in common."""
    have, should = np.asarray(got)[wrong], np.asarray(right)[wrong]
    if not have.size:
        return ""
    if have.size > 1 and not (have != 0).any():
        return "Every wrong value is 0."
    if have.size > 1 and (_bits(have) == _bits(have)[0]).all():
        return f"Every wrong value is {have[0].item()!r}."
    if have.dtype.kind in "iu":
        return _half_missing(have, should) or _bits_wrong(have, should)
    if have.dtype.kind == "f" and (_bits(have) == _bits(-should)).all():
        return "Every wrong value has the wrong sign."
    if have.dtype.kind == "f" and np.isfinite(have).all() and np.isfinite(should).all() and (should != 0).any():
        for direction, end in (("away from", np.copysign(np.inf, should)), ("toward", np.zeros_like(should))):
            if have.size > 1 and (_bits(np.nextafter(should, end)) == _bits(have)).all():
                return f"Every wrong value is the next {have.dtype} {direction} zero."
        with np.errstate(all="ignore"):
            ratio = have / should
            power = np.log2(abs(ratio[0]))
            if have.size > 1 and (ratio == ratio[0]).all() and power % 1 == 0 and power:
                factor = f"{ratio[0]:g}" if abs(power) < 8 else f"{'-' if ratio[0] < 0 else ''}2^{int(power)}"
                return f"Every wrong value is {factor} times the right one."
            if (np.abs(have.astype(np.float64) - should) <= _CLOSE * np.abs(should.astype(np.float64))).all():
                return "Every wrong value is close to the right one, as if something were rounded at another place."
    return ""


def _half_missing(have: Array, should: Array) -> str:
    """Whether one half of each register is 0, whatever is in the other one."""
    if have.dtype.kind != "u" or have.dtype.itemsize < 4 or have.size < 2:
        return ""
    low = have.dtype.type((1 << 4 * have.dtype.itemsize) - 1)
    halves = {
        "upper half of every wrong value is 0, as if a shift in a narrow type had lost bits": ~low,
        "lower half of every wrong value is 0, as if something had replaced what was there": low,
    }
    lost = [says for says, mask in halves.items() if (should & mask).all() and not (have & mask).any()]
    return f"The {lost[0]}." if lost else ""


def _bits_wrong(have: Array, should: Array) -> str:
    """The bits in which whole numbers are wrong, or that they are off by one."""
    by = have.astype(object) - should.astype(object)
    if have.size > 1 and (np.abs(by) == 1).all():
        return "Every wrong value is 1 too large or too small."
    width = 8 * have.dtype.itemsize
    mask = int(np.bitwise_or.reduce(have ^ should)) & (1 << width) - 1
    wrong = [bit for bit in range(width) if mask >> bit & 1]
    groups = sum(bit - 1 not in wrong for bit in wrong)
    if not 0 < len(wrong) <= width // 2 or groups > _GROUPS or have.dtype.kind == "i" or width < 16:
        return ""
    bits = f"bit {wrong[0]}" if len(wrong) == 1 else f"bits {ranges(wrong)}"
    of = " of the values" if have.size > 1 else ""
    return f"Only {bits}{of} {'is' if len(wrong) == 1 else 'are'} wrong."


def _elsewhere(got: Array, right: Array, wrong: Array) -> str:
    """Whether the wrong values are those of the same places in another order, and where the first one belongs.

    It is not enough that each of them is right somewhere: among few different values most wrong ones are.
    """
    have, should = _bits(got).ravel(), _bits(right).ravel()
    unique, first, count = np.unique(should, return_index=True, return_counts=True)
    lost = have[wrong.ravel()]
    moved = np.array_equal(np.sort(lost), np.sort(should[wrong.ravel()]))
    if len(lost) < 2 or (count == 1).mean() < 0.9 or not moved or len(np.unique(lost)) < 2:
        return ""
    at = int(np.argmax(wrong))
    source = int(first[np.searchsorted(unique, have[at])])
    here, there = (", ".join(map(str, np.unravel_index(place, right.shape))) for place in (at, source))
    return f"The wrong values belong in other places: [{here}] holds what belongs at [{there}]."


def _cut(values: Array, lost: int) -> Array:
    """Floats whose last bits are 0."""
    width = f"u{values.dtype.itemsize}"
    truncated: Array = (values.view(width) >> lost << lost).view(values.dtype)
    return truncated


def _reversed_bits(values: Array) -> Array:
    width = 8 * values.dtype.itemsize
    ones = np.unpackbits(np.ascontiguousarray(values)[..., np.newaxis].view(np.uint8), axis=-1, bitorder="little")
    turned = np.packbits(ones.reshape(*values.shape, width)[..., ::-1], axis=-1, bitorder="little")
    return np.ascontiguousarray(turned).view(values.dtype).reshape(values.shape)


def _bits(values: Array) -> Array:
    if values.dtype.kind in "biu":
        return values
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}").reshape(values.shape)

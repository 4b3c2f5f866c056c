"""What can be said about a wrong answer without knowing how it came about: facts, which cannot mislead.

Each argument of a map is taken apart into digits, as in a layout line, and every digit is an axis of a grid of values.
Whether a value depends on a digit, and by which factor, is then read along that axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import counted

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Digit:
    """A digit of an argument: the argument divided by `low`, modulo `count`.

    >>> from tcemu.course.observe import Digit
    >>> str(Digit("row", 8, 2, 16)), str(Digit("row", 1, 8, 16)), str(Digit("row", 2, 4, 16))
    ('row // 8', 'row % 8', 'row // 2 % 4')
    """

    argument: str
    low: int
    count: int
    #: How many values the argument has.
    size: int

    def __str__(self) -> str:
        above = f"{self.argument} // {self.low}" if self.low > 1 else self.argument
        return above if self.low * self.count >= self.size else f"{above} % {self.count}"

    def beside(self, lower: Digit) -> bool:
        """Whether this is the digit next to a lower one."""
        return self.argument == lower.argument and self.low == lower.low * lower.count


def digits(arguments: Mapping[str, int]) -> list[Digit]:
    """The smallest digits of each argument, most significant first: bits, and above them what is no power of two."""
    found = []
    for name, size in arguments.items():
        own, low = [], 1
        while size // low % 2 == 0 and size % low == 0 and low < size:
            own.append(Digit(name, low, 2, size))
            low *= 2
        if low < size:
            own.append(Digit(name, low, size // low, size))
        found += own[::-1]
    return found


def _joined(parts: Sequence[Digit]) -> list[Digit]:
    """Neighbours as one digit; `parts` are in the order of `digits`."""
    joined: list[Digit] = []
    for digit in parts:
        if joined and joined[-1].beside(digit):
            upper = joined.pop()
            joined.append(Digit(digit.argument, digit.low, digit.count * upper.count, digit.size))
        else:
            joined.append(digit)
    return joined


# ---------------------------------------------------------------------------------------------- maps


def about_map(arguments: Mapping[str, int], returns: Sequence[str], got: Array, right: Array) -> str:
    """What is wrong with a map, an array (cases, returns) over every combination of the arguments; empty if unknown.

    >>> from tcemu.course.observe import about_map
    >>> n = np.arange(8)[:, np.newaxis]
    >>> about_map({"n": 8}, ("half",), n // 4, n // 2)
    'In the half, n // 4 has the factor 1, which is wrong. The half does not depend on n // 2 % 2, but it should.'
    """
    for order in list(permutations(range(len(returns))))[1:]:
        if len(returns) < 4 and np.array_equal(got[:, order], right):
            return f"You return {_and(returns)} in the wrong order."
    if exchanged := _arguments_exchanged(arguments, got, right):
        return exchanged
    told = []
    for part, name in enumerate(returns):
        if np.array_equal(got[:, part], right[:, part]):
            told.append((True, f"The {name} is right.") if len(returns) > 1 else (True, ""))
        else:
            told.append((False, about_part(arguments, name, got[:, part], right[:, part])))
    known = any(says for is_right, says in told if not is_right)
    return " ".join(says for _, says in told if says) if known else ""


def _arguments_exchanged(arguments: Mapping[str, int], got: Array, right: Array) -> str:
    names, sizes = list(arguments), tuple(arguments.values())
    for one in range(len(names)):
        for other in range(one + 1, len(names)):
            if sizes[one] == sizes[other]:
                swapped = np.swapaxes(got.reshape(*sizes, -1), one, other).reshape(got.shape)
                if np.array_equal(swapped, right):
                    return f"You exchanged {names[one]} and {names[other]}."
    return ""


def about_part(arguments: Mapping[str, int], name: str, got: Array, right: Array) -> str:
    """What is wrong with one value of a map, for every combination of the arguments in order."""
    every = digits(arguments)
    shape = tuple(digit.count for digit in every)
    if prod(shape) != len(got) or not shape:
        return ""
    grid, wanted = got.reshape(shape), right.reshape(shape)
    if (grid == grid.flat[0]).all() and not (wanted == wanted.flat[0]).all():
        return f"The {name} is always {grid.flat[0]}."
    has, should = Factors.of(grid), Factors.of(wanted)
    says: list[str] = []
    if has and should:
        says = list(_compared(every, name, has, should, set(got.tolist()) == set(right.tolist())))
    says = says or list(_dependence(every, name, grid, wanted)) or [where(arguments, (got != right), f"The {name} is")]
    return " ".join(says[:2])


@dataclass(frozen=True)
class Factors:
    """A grid as a sum: the value at 0, and for each axis what a step along it adds."""

    start: int
    steps: tuple[int, ...]

    @classmethod
    def of(cls, grid: Array) -> Factors | None:
        """The factors of a grid, or None if it is not such a sum."""
        axes = range(grid.ndim)
        start = int(grid[(0,) * grid.ndim])
        steps = tuple(int(grid[tuple(int(axis == at) for at in axes)]) - start for axis in axes)
        total = start + sum(step * np.indices(grid.shape, sparse=True)[axis] for axis, step in enumerate(steps))
        return cls(start, steps) if np.array_equal(np.broadcast_to(total, grid.shape), grid) else None


def _compared(every: Sequence[Digit], name: str, has: Factors, should: Factors, same_values: bool) -> Iterator[str]:
    """How two sums differ, the telling differences first."""
    pairs = list(zip(every, has.steps, should.steps, strict=True))
    forgotten = _joined([digit for digit, step, wanted in pairs if wanted and not step])
    needless = _joined([digit for digit, step, wanted in pairs if step and not wanted])
    wrong = list(_by_factor([(digit, step) for digit, step, wanted in pairs if step and wanted and step != wanted]))
    backwards = _joined([digit for digit, step, wanted in pairs if wanted and step == -wanted])
    if moved := list(_moved(every, name, has, should)):
        yield from moved
        return
    if backwards and len(backwards) == len(wrong):
        yield f"The {name} counts {_and(backwards)} backwards."
    elif len(wrong) == 2 and not forgotten and not needless and same_values:
        yield f"In the {name}, you exchanged {wrong[0][0]} and {wrong[1][0]}."
    else:
        yield from (f"In the {name}, {digit} has the factor {factor}, which is wrong." for digit, factor in wrong)
    if len(forgotten) == len(needless) == 1:
        yield f"The {name} depends on {needless[0]}, but it should depend on {forgotten[0]} instead."
    else:
        yield from _depends(name, forgotten, needless)
    if has.start != should.start and not backwards:
        by = has.start - should.start
        alone = not (wrong or forgotten or needless)
        too = f"Every {name} is {abs(by)} too {'large' if by > 0 else 'small'}."
        yield too if alone else f"The first {name} is {has.start}."


def _moved(every: Sequence[Digit], name: str, has: Factors, should: Factors) -> Iterator[str]:
    """The wrong part of an argument in the place of the right one: column % 4 and not column // 2 % 4."""
    for argument in dict.fromkeys(digit.argument for digit in every):
        held, wanted = (
            list(_by_factor([(digit, step) for digit, step in zip(every, factors.steps, strict=True)
                             if step and digit.argument == argument]))
            for factors in (has, should)
        )  # fmt: skip
        if len(held) == len(wanted) == 1 and held != wanted:
            (digit, factor), (right, right_factor) = held[0], wanted[0]
            if (digit.count, factor) == (right.count, right_factor):
                yield f"In the {name}, you take {digit}; another part of {argument} belongs there."


def _by_factor(steps: Sequence[tuple[Digit, int]]) -> Iterator[tuple[Digit, int]]:
    """Neighbouring digits with one factor, as one digit."""
    held: list[tuple[Digit, int]] = []
    for digit, step in steps:
        if held and held[-1][0].beside(digit) and held[-1][1] == step * digit.count:
            upper, _ = held.pop()
            held.append((Digit(digit.argument, digit.low, digit.count * upper.count, digit.size), step))
        else:
            held.append((digit, step))
    yield from held


def _dependence(every: Sequence[Digit], name: str, grid: Array, wanted: Array) -> Iterator[str]:
    """On which digits a value depends that it should not depend on, and the other way round."""
    does, should = ([bool(np.diff(held, axis=axis).any()) for axis in range(held.ndim)] for held in (grid, wanted))
    pairs = list(zip(every, does, should, strict=True))
    forgotten = _joined([digit for digit, now, then in pairs if then and not now])
    needless = _joined([digit for digit, now, then in pairs if now and not then])
    yield from _depends(name, forgotten, needless)


def _depends(name: str, forgotten: Sequence[Digit], needless: Sequence[Digit]) -> Iterator[str]:
    if forgotten:
        yield f"The {name} does not depend on {_and(forgotten, 'or')}, but it should."
    if needless:
        yield f"The {name} depends on {_and(needless)}, but it should not."


def _and(parts: Sequence[object], last: str = "and") -> str:
    words = [str(part) for part in parts]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def where(axes: Mapping[str, int], wrong: Array, lead: str = "Elements are") -> str:
    """For which digits something is wrong, if they all agree in some digit; empty if they do not.

    >>> from tcemu.course.observe import where
    >>> where({"row": 16, "column": 8}, np.arange(128).reshape(16, 8) >= 64)
    'Elements are wrong exactly where row // 8 = 1.'
    """
    every = digits(axes)
    mask = wrong.reshape([digit.count for digit in every])
    if not mask.any() or mask.all():
        return ""
    held = [np.flatnonzero(mask.any(axis=tuple(at for at in range(mask.ndim) if at != axis)))
            for axis in range(mask.ndim)]  # fmt: skip
    fixed = [(digit, int(values[0])) for digit, values in zip(every, held, strict=True) if len(values) == 1]
    if not fixed:
        return _bounds(axes, wrong, lead)
    exact = int(mask.sum()) == prod(digit.count for digit in every) // prod(digit.count for digit, _ in fixed)
    terms = " and ".join(f"{digit} = {value}" for digit, value in _values(fixed))
    return f"{lead} wrong {'exactly' if exact else 'only'} where {terms}."


def _bounds(axes: Mapping[str, int], wrong: Array, lead: str) -> str:
    """From which value of an argument on something is wrong, or up to which."""
    mask = wrong.reshape(tuple(axes.values()))
    for at, (name, size) in enumerate(axes.items()):
        held = np.flatnonzero(mask.any(axis=tuple(axis for axis in range(mask.ndim) if axis != at)))
        if held[0] > 0 or held[-1] < size - 1:
            bound = f"{name} >= {held[0]}" if held[0] > 0 else f"{name} <= {held[-1]}"
            return f"{lead} wrong only where {bound}."
    return ""


def _values(fixed: Sequence[tuple[Digit, int]]) -> list[tuple[Digit, int]]:
    """Neighbouring digits with their values as one."""
    joined: list[tuple[Digit, int]] = []
    for digit, value in fixed:
        if joined and joined[-1][0].beside(digit):
            upper, above = joined.pop()
            whole = Digit(digit.argument, digit.low, digit.count * upper.count, digit.size)
            joined.append((whole, above * digit.count + value))
        else:
            joined.append((digit, value))
    return joined


# ---------------------------------------------------------------------------------------------- arrays


def about_array(got: Array, right: Array, axes: Sequence[str] = ()) -> str:
    """What is wrong with an array of numbers or registers of the right shape and dtype; empty if unknown.

    `axes` are what its axes count, by default row and column.

    >>> from tcemu.course.observe import about_array
    >>> about_array(np.array([0x100, 0x200], np.uint32), np.array([0x10, 0x20], np.uint32))
    'Every value is shifted left by 4 bits.'
    """
    if says := accident(got, right, axes):
        return says
    names = _names(got.ndim, axes)
    wrong = _bits(got) != _bits(right)
    told = [] if len(set(names)) < len(names) else [where(dict(zip(names, got.shape, strict=True)), wrong)]
    told.append(_values_wrong(got, right, wrong))
    return " ".join(says for says in told if says)


def accident(got: Array, right: Array, axes: Sequence[str] = ()) -> str:
    """The accident that turns the right array into `got`; empty if it is none of the usual ones.

    >>> from tcemu.course.observe import accident
    >>> accident(np.array([3, 2, 1]), np.array([1, 2, 3]))
    'The values are in reverse order.'
    """
    held = _bits(got).ravel()
    if not held.any() or (held.size > 1 and (held == held[0]).all()):
        return ""  # many accidents end at the same number
    accidents = _accidents(right, _names(right.ndim, axes))
    return next((says for says, other in accidents if got.tobytes() == other.tobytes() != right.tobytes()), "")


def _names(count: int, axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(axes) if len(axes) == count else ("row", "column") if count == 2 else ("value",) * count


def _accidents(
    right: Array, names: Sequence[str]
) -> Iterator[tuple[str, Array]]:
    """What an array becomes by the usual accidents."""
    for axis, name in enumerate(names):
        if right.shape[axis] > 1:
            yield f"The {name}s are in reverse order.", np.flip(right, axis)
            for by in (1, -1):
                yield f"The {name}s are shifted by one, around the end.", np.roll(right, by, axis)
    if right.ndim == 2 and right.shape[0] == right.shape[1]:
        yield "The matrix is transposed.", right.T.copy()
    elif right.ndim == 2:
        says = "The values are in column-major order: those of the transposed matrix, in the right shape."
        yield says, right.T.reshape(right.shape)
    if right.dtype.kind in "iu":
        width = 8 * right.dtype.itemsize
        if width > 8:
            yield "The bytes of each value are in reverse order.", right.byteswap()
        half = right.dtype.type(width // 2)
        low = right & right.dtype.type((1 << width // 2) - 1)
        if right.dtype.kind == "u":
            yield "The two halves of each value are exchanged.", right >> half | low << half
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


def _values_wrong(got: Array, right: Array, wrong: Array) -> str:
    """What the wrong values have in common."""
    have, should = np.asarray(got)[wrong], np.asarray(right)[wrong]
    if not have.size:
        return ""
    if have.size > 1 and not have.astype(bool).any():
        return "Every wrong value is 0."
    if have.size > 1 and (_bits(have) == _bits(have)[0]).all():
        return f"Every wrong value is {have[0].item()!r}."
    if have.dtype.kind == "f" and np.isfinite(have).all() and np.isfinite(should).all():
        if (_bits(np.nextafter(should, np.copysign(np.inf, should))) == _bits(have)).all():
            return "Every wrong value is the next number away from zero: it was rounded up, and should be cut off."
        if (_bits(np.nextafter(should, np.zeros_like(should))) == _bits(have)).all():
            return "Every wrong value is the next number toward zero: it was cut off, and should be rounded."
        with np.errstate(all="ignore"):
            ratio = have / should
        if have.size > 2 and (ratio == ratio[0]).all() and np.log2(abs(ratio[0])) % 1 == 0:
            return f"Every wrong value is {ratio[0]:g} times the right one."
    return ""


def _reversed_bits(values: Array) -> Array:
    width = 8 * values.dtype.itemsize
    ones = np.unpackbits(np.ascontiguousarray(values)[..., np.newaxis].view(np.uint8), axis=-1, bitorder="little")
    turned = np.packbits(ones.reshape(*values.shape, width)[..., ::-1], axis=-1, bitorder="little")
    return np.ascontiguousarray(turned).view(values.dtype).reshape(values.shape)


def _bits(values: Array) -> Array:
    if values.dtype.kind in "biu":
        return values
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}").reshape(values.shape)

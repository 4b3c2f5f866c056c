"""What can be said about a wrong map without guessing the cause: facts, which cannot mislead.

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


#: So many wrong elements can have a digit in common by chance, in part of the elements with this digit, and in all.
_MANY, _FEW = 8, 3

#: The values of each argument, or how many values it has, counted from 0.
Arguments = Mapping[str, int | Sequence[int]]


def digits(arguments: Arguments) -> list[Digit]:
    """The smallest digits of each argument, most significant first: bits, and above them what is not a power of two.

    Multiples of a number have digits above it. Other values are one digit.
    """
    parts = []
    for name, held in arguments.items():
        values = range(held) if isinstance(held, int) else held
        size, unit = len(values), _unit(values)
        own, low = [], 1
        while unit and size // low % 2 == 0 and size % low == 0 and low < size:
            own.append(Digit(name, low * unit, 2, size * unit))
            low *= 2
        if low < size:
            own.append(Digit(name, low * max(unit, 1), size // low, size * max(unit, 1)))
        parts += own[::-1]
    return parts


def _unit(values: Sequence[int]) -> int:
    """The number whose multiples from 0 on these are; 0 if they are others."""
    unit = values[1] - values[0] if len(values) > 1 else 1
    return unit if unit > 0 and list(values) == [unit * at for at in range(len(values))] else 0


def _sizes(arguments: Arguments) -> dict[str, int]:
    return {name: held if isinstance(held, int) else len(held) for name, held in arguments.items()}


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


def about_map(arguments: Arguments, returns: Sequence[str], got: Array, right: Array) -> str:
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
    facts = []
    for part, name in enumerate(returns):
        if np.array_equal(got[:, part], right[:, part]):
            facts.append((True, f"The {name} is right.") if len(returns) > 1 else (True, ""))
        else:
            facts.append((False, about_part(arguments, name, got[:, part], right[:, part])))
    known = any(says for is_right, says in facts if not is_right)
    return " ".join(says for _, says in facts if says) if known else ""


def _arguments_exchanged(arguments: Arguments, got: Array, right: Array) -> str:
    names, sizes = list(arguments), tuple(_sizes(arguments).values())
    for one in range(len(names)):
        for other in range(one + 1, len(names)):
            if arguments[names[one]] == arguments[names[other]]:
                swapped = np.swapaxes(got.reshape(*sizes, -1), one, other).reshape(got.shape)
                if np.array_equal(swapped, right):
                    return f"You swapped {names[one]} and {names[other]}."
    return ""


def about_part(arguments: Arguments, name: str, got: Array, right: Array) -> str:
    """What is wrong with one value of a map, for every combination of the arguments in order."""
    every = digits(arguments)
    shape = tuple(digit.count for digit in every)
    if prod(shape) != len(got) or not shape:
        return ""
    grid, wanted = got.reshape(shape), right.reshape(shape)
    if (grid == grid.flat[0]).all() and not (wanted == wanted.flat[0]).all():
        return f"The {name} is always {grid.flat[0]}."
    says: list[str] = []
    if all(isinstance(held, int) or _unit(held) for held in arguments.values()):
        says = _as_sums(every, name, grid, wanted) or _in_a_part(every, name, grid, wanted)
    says = says or list(_dependence(every, name, grid, wanted))
    says = says or [about_values(name, got, right) or where(arguments, got != right, f"The {name} is")]
    return " ".join(says[:2])


def _as_sums(every: Sequence[Digit], name: str, grid: Array, wanted: Array) -> list[str]:
    """How two grids differ, if both are sums of digits."""
    has, should = Factors.of(grid), Factors.of(wanted)
    same_values = set(grid.ravel().tolist()) == set(wanted.ravel().tolist())
    return list(_compared(every, name, has, should, same_values)) if has and should else []


def _in_a_part(every: Sequence[Digit], name: str, grid: Array, wanted: Array) -> list[str]:
    """The same where some digits have the values that all wrong cases share."""
    fixed = _shared(every, grid != wanted)
    left = [digit for digit in every if digit not in fixed]
    if not fixed or not left:
        return []
    index = tuple(fixed.get(digit, slice(None)) for digit in every)
    says = _as_sums(left, name, grid[index], wanted[index])
    terms = " and ".join(f"{digit} = {value}" for digit, value in _values(list(fixed.items())))
    return [f"Where {terms}: {says[0][0].lower()}{says[0][1:]}", *says[1:]] if says else []


def _shared(every: Sequence[Digit], wrong: Array) -> dict[Digit, int]:
    """The digits that have one value in all wrong cases, with this value."""
    axes = range(wrong.ndim)
    held = [np.flatnonzero(wrong.any(axis=tuple(at for at in axes if at != axis))) for axis in axes]
    return {digit: int(values[0]) for digit, values in zip(every, held, strict=True) if len(values) == 1}


def about_values(name: str, got: Array, right: Array) -> str:
    """What all whole numbers have in common, whatever they depend on; empty if nothing.

    >>> from tcemu.course.observe import about_values
    >>> about_values("lane", np.array([1, 4, 6]), np.array([0, 3, 5]))
    'Every lane is 1 too large.'
    """
    by = got - right
    if len(got) < 2:
        return ""
    if (by == 0).any():
        return _by_a_factor(name, got, right)
    if (by == by[0]).all():
        return f"Every {name} is {abs(int(by[0]))} too {'large' if by[0] > 0 else 'small'}."
    if (got == got[0]).all():
        return f"The {name} is always {got[0]}."
    if (got == -right).all():
        return f"Every {name} has the wrong sign."
    return _by_a_factor(name, got, right)


def _by_a_factor(name: str, got: Array, right: Array) -> str:
    """That all whole numbers are too large or too small by one factor; zeros are zeros then."""
    at = int(np.argmax((got != 0) & (right != 0)))
    for one, other, what in ((got, right, "is {} times as large as it should be"),
                             (right, got, "should be {} times as large")):  # fmt: skip
        factor = one[at] // other[at] if other[at] else 0
        if abs(factor) > 1 and (one == other * factor).all():
            return f"Every {name} {what.format(factor)}."
    return ""


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
        yield f"In the {name}, you swapped {wrong[0][0]} and {wrong[1][0]}."
    else:
        yield from (f"In the {name}, {digit} has the factor {factor}, which is wrong." for digit, factor in wrong)
    if len(forgotten) == len(needless) == 1 and forgotten[0].argument == needless[0].argument:
        yield f"In the {name}, you take {needless[0]}; another part of {forgotten[0].argument} belongs there."
    elif len(forgotten) == len(needless) == 1:
        yield f"The {name} depends on {needless[0]}, but it should depend on {forgotten[0]} instead."
    else:
        yield from _depends(name, forgotten, needless)
    if has.start != should.start and not backwards:
        by = has.start - should.start
        alone = not (wrong or forgotten or needless)
        too = f"Every {name} is {abs(by)} too {'large' if by > 0 else 'small'}."
        yield too if alone else f"The first {name} is {has.start}."


def _moved(every: Sequence[Digit], name: str, has: Factors, should: Factors) -> Iterator[str]:
    """The wrong part of an argument in the place of the right one: column % 4 instead of column // 2 % 4."""
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


def where(axes: Arguments, wrong: Array, lead: str = "Elements are") -> str:
    """For which digits something is wrong, if they all agree in some digit; empty if they do not.

    >>> from tcemu.course.observe import where
    >>> where({"row": 16, "column": 8}, np.arange(128).reshape(16, 8) >= 64)
    'Elements are wrong exactly where row // 8 = 1.'
    """
    every = digits(axes)
    mask = wrong.reshape([digit.count for digit in every])
    if not mask.any() or mask.all():
        return ""
    fixed = list(_shared(every, mask).items())
    if not fixed:
        return _bounds(axes, wrong, lead)
    exact = int(mask.sum()) == prod(digit.count for digit in every) // prod(digit.count for digit, _ in fixed)
    if mask.sum() < (_FEW if exact else _MANY):
        return ""
    terms = " and ".join(f"{digit} = {_value(axes[digit.argument], value)}" for digit, value in _values(fixed))
    return f"{lead} wrong {'exactly' if exact else 'only'} where {terms}."


def _value(held: int | Sequence[int], value: int) -> int:
    """The value of a digit; of values that do not count, the one at its place."""
    return value if isinstance(held, int) or _unit(held) else held[value]


def _bounds(axes: Arguments, wrong: Array, lead: str) -> str:
    """From which value of an argument on everything is wrong, or up to which; "only" if that excludes half of them."""
    sizes = _sizes(axes)
    mask = wrong.reshape(tuple(sizes.values()))
    for at, (name, size) in enumerate(sizes.items()):
        values = axes[name]
        known = range(size) if isinstance(values, int) else values
        held = np.flatnonzero(mask.any(axis=tuple(axis for axis in range(mask.ndim) if axis != at)))
        ends = (held[0], f"{name} >= {known[held[0]]}"), (size - 1 - held[-1], f"{name} <= {known[held[-1]]}")
        for excluded, bound in ends if list(known) == sorted(known) else ():
            exact = int(mask.sum()) * size == mask.size * (size - excluded)
            if excluded >= max(2, size / 8) and (exact or excluded >= size / 2):
                return f"{lead} wrong {'exactly' if exact else 'only'} where {bound}."
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

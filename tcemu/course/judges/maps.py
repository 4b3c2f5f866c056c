"""Judges of fragment maps, in both directions, and of registers; their mistakes follow from the layout line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges.function import Function
from tcemu.course.judges.values import Values
from tcemu.course.mistakes import Map, fragment_of
from tcemu.course.observe import about_map, digits
from tcemu.course.record import Given
from tcemu.errors import LayoutError, counted
from tcemu.instructions import parse
from tcemu.layouts.fragment import Fragment

Array = npt.NDArray[Any]


def where_map(
    opcode: str,
    role: str,
    *,
    element: bool = False,
    others: Sequence[tuple[str, str, str]] = (),
    matrix: str = "",
    device: str = "",
) -> Function:
    """Judge `where(row, column) -> (lane, register)`, or with `element` also the element's place in the register.

    `others` are maps that are easily taken for this one: (what it is called, opcode, role).

    >>> from tcemu.course import Given, judges
    >>> judge = judges.where_map("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", "b")
    >>> evidence = judge.collect(lambda row, column: (column * 4 + row // 2, row % 2), Given())
    >>> judge.mark(evidence, Given()).says
    'B[1][0] is not in lane 0, register 1: there are 32 lanes with 1 register each. 32 of 64 cases are wrong.'
    """
    fragment = fragment_of(opcode, role)
    right = Map.of(fragment)
    width = 3 if element else 2
    rows, columns = fragment.shape[-2:]
    matrix = matrix or role.upper()

    def cut(map_: Map) -> Callable[..., Array]:
        return lambda row, column: map_(row, column)[..., :width]

    named = [(f"This is the map of {name}.", Map.of(fragment_of(op, which))) for name, op, which in others]
    named += [(f"This is the map of {name.upper()}.", Map.of(each))
              for name, each in _siblings(opcode, role) if each.shape == fragment.shape]  # fmt: skip

    def about(case: tuple[int, ...], value: tuple[int, ...]) -> str:
        says = f"{matrix}[{case[0]}][{case[1]}] is not in lane {value[0]}, register {value[1]}"
        says += f", element {value[2]}" if element else ""
        try:
            lane, register, inside = (*value, 0)[:3]
            holds = fragment.position(lane, register, inside)
        except LayoutError:  # there is no such place
            return f"{says}: there are {fragment.lanes} lanes with {counted(fragment.registers, 'register')} each."
        also = f" and its neighbours in {matrix}" if fragment.elements_per_register > 1 and not element else ""
        return f"{says}, which holds {matrix}[{holds[-2]}][{holds[-1]}]{also}."

    return Function(
        {"row": range(rows), "column": range(columns)},
        ("lane", "register", "element")[:width],
        cut(right),
        tuple((says, cut(wrong)) for says, wrong in (*named, *right.mistakes())),
        about,
        "every element of the matrix",
        device=device,
    )


def what_map(opcode: str, role: str, *, element: bool = False, device: str = "") -> Function:
    """Judge `what(lane, register) -> (row, column)` of the register's first element, or with `element` of any one.

    >>> from tcemu.course import Given, judges
    >>> judge = judges.what_map("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", "b")
    >>> judge.mark(judge.collect(lambda lane, register: (lane % 4 * 2, lane // 4), Given()), Given()).right
    True
    """
    fragment = fragment_of(opcode, role)
    elements = fragment.elements_per_register

    def of(gather: Array) -> Callable[..., Array]:
        def what(lane: Array, register: Array, inside: Array | int = 0) -> Array:
            flat = gather[lane, register * elements + inside]
            return np.stack(np.unravel_index(flat, fragment.shape)[-2:], axis=-1)

        return what

    right = of(fragment.layout.gather)
    over = {"lane": range(fragment.lanes), "register": range(fragment.registers)}
    if element and elements > 1:
        over["element"] = range(elements)
    inverses = ((says, _inverse(each, fragment)) for says, each in Map.of(fragment).mistakes_of_the_inverse())
    wrong = tuple((says, inverse) for says, inverse in inverses if inverse is not None)
    return Function(over, ("row", "column"), right, wrong, how="every register of every lane", device=device)


def _inverse(wrong: Map, fragment: Fragment) -> Callable[..., Array] | None:
    """The inverse of a wrong map, if it is a bijection onto the fragment's places."""
    sizes = fragment.lanes, fragment.registers, fragment.elements_per_register
    row, column = np.indices(fragment.shape).reshape(-1, *fragment.shape)[-2:]
    places = wrong(row, column) if len(fragment.shape) == 2 else np.full((1, 3), max(sizes))
    if (places.reshape(-1, 3).max(axis=0) >= sizes).any():
        return None
    table = np.full(sizes, -1)
    table[tuple(np.moveaxis(places, -1, 0))] = row * fragment.shape[-1] + column
    if (table < 0).any():
        return None

    def what(lane: Array, register: Array, inside: Array | int = 0) -> Array:
        return np.stack(np.unravel_index(table[lane, register, inside], fragment.shape), axis=-1)

    return what


def _siblings(opcode: str, role: str) -> list[tuple[str, Fragment]]:
    """The instruction's other fragments; C's is D's."""
    return [(name, each) for name, each in parse(opcode).fragments.items() if name not in (role, "c")]


def registers_of(opcode: str, role: str, matrix: Callable[[Given], Array]) -> Values:
    """Judge the registers of a fragment that holds `matrix(given)`; mistakes follow from the layout.

    >>> from tcemu.course import Given, judges
    >>> opcode = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
    >>> B = np.arange(64, dtype=np.float16).reshape(8, 8)
    >>> judge = judges.registers_of(opcode, "b", lambda given: B)
    >>> registers = tcemu.parse(opcode).fragments["b"].pack(B)
    >>> judge.mark(judge.collect(registers >> 16 | registers << 16, Given()), Given()).mistake
    'The two halves of each register are swapped: the first element is in the low half.'
    """
    fragment = fragment_of(opcode, role)

    def place(index: tuple[int, ...]) -> str:
        lane, register = index
        positions = [fragment.position(lane, register, each)[-2:] for each in range(fragment.elements_per_register)]
        holds = ", ".join(f"{role.upper()}[{row}][{column}]" for row, column in positions)
        return f"Lane {lane}, register {role}{register}, which holds {holds},"

    def mistakes(given: Given) -> Iterable[tuple[str, Array]]:
        right = fragment.pack(matrix(given))
        patterns = fragment.format.patterns(matrix(given), role)
        row, column = np.indices(fragment.shape[-2:])
        sizes = fragment.lanes, fragment.registers, fragment.elements_per_register
        for says, wrong in Map.of(fragment).mistakes():
            places = wrong(row, column)
            if (places.reshape(-1, 3).max(axis=0) < sizes).all():
                yield says, _placed(fragment, patterns, places)
        if fragment.elements_per_register == 2:
            yield (
                "The two halves of each register are swapped: the first element is in the low half.",
                (right >> 16 | right << 16),
            )
        if fragment.format.dtype.kind not in "iub":
            yield (
                "You stored the values as whole numbers: a register holds bits, so use .view, not astype.",
                (_as_numbers(fragment, matrix(given))),
            )

    return Values(
        lambda given: fragment.pack(matrix(given)), _storage(fragment), mistakes, place,
        f"The fragment of {role.upper()}", axes=("lane", "register"), how="every register of every lane",
        observed=lambda got, given: _misplaced(fragment, got, matrix(given)),
    )  # fmt: skip


def _misplaced(fragment: Fragment, got: Array, matrix: Array) -> str:
    """What is wrong with the map that put the elements of a matrix into these registers, if that can be found out."""
    if len(fragment.shape) != 2:
        return ""
    sizes = fragment.lanes, fragment.registers, fragment.elements_per_register
    held = fragment.container.unpack(got).astype(np.uint64).reshape(sizes)
    patterns = fragment.format.patterns(matrix, fragment.role).astype(np.uint64).ravel()
    unique, first, count = np.unique(patterns, return_index=True, return_counts=True)
    at = np.minimum(np.searchsorted(unique, held), len(unique) - 1)
    if len(unique) < 0.9 * len(patterns) or not np.array_equal(unique[at], held):
        return ""
    right = fragment.layout.gather.reshape(sizes)
    source = np.where(patterns[right] == held, right, first[at])
    straight = _straightened(source, count[at] == 1, fragment.shape[1])
    if straight is not None and straight.max() < len(patterns) and np.array_equal(patterns[straight], held):
        source = straight
    shaped = (np.stack(np.unravel_index(each, fragment.shape), axis=-1).reshape(-1, 2) for each in (source, right))
    arguments = dict(zip(("lane", "register", "element"), sizes, strict=True))
    return about_map({name: size for name, size in arguments.items() if size > 1}, ("row", "column"), *shaped)


def _straightened(source: Array, known: npt.NDArray[np.bool_], columns: int) -> Array | None:
    """Where the elements come from if row and column are sums of digits, derived from those that are `known`.

    Two equal elements cannot be told apart in a register; the other elements show which is which.
    """
    every = digits(dict(zip("lre", source.shape, strict=True)))
    grid, sure = (np.asarray(each).reshape([digit.count for digit in every]) for each in (source, known))
    where_known = np.argwhere(sure)
    if not len(where_known):
        return None
    places = np.stack([grid // columns, grid % columns]).astype(np.int64)
    total = places[(slice(None), *where_known[0])].reshape(2, *[1] * grid.ndim)
    for axis in range(grid.ndim):
        both = np.logical_and(np.take(sure, 1, axis), np.take(sure, 0, axis))
        steps = (np.take(places, 1, axis + 1) - np.take(places, 0, axis + 1))[:, both]
        step = np.median(steps, axis=1) if steps.size else np.zeros(2)
        along = np.arange(grid.shape[axis]) - where_known[0][axis]
        shape = [2, *(len(along) if at == axis else 1 for at in range(grid.ndim))]
        total = total + (step.astype(np.int64)[:, np.newaxis] * along).reshape(shape)
    row, column = total
    flat: Array = (row * columns + column).reshape(source.shape)
    return flat if (row >= 0).all() and (column >= 0).all() and (column < columns).all() else None


def _placed(fragment: Fragment, patterns: Array, places: Array) -> Array:
    """Registers with each pattern where a map puts it; the last one wins."""
    out = np.zeros((fragment.lanes, fragment.registers), np.uint64)
    shift = places[..., 2] * fragment.container.width + fragment.container.shift
    flat = out.reshape(-1)
    at = (places[..., 0] * fragment.registers + places[..., 1]).ravel()
    np.bitwise_or.at(flat, at, patterns.astype(np.uint64).ravel() << shift.astype(np.uint64).ravel())
    return out.astype(_storage(fragment))


def _as_numbers(fragment: Fragment, matrix: Array) -> Array:
    with np.errstate(all="ignore"):
        whole = np.nan_to_num(np.asarray(matrix, np.float64)).astype(np.int64)
    low = whole & ((1 << fragment.container.width) - 1)
    return _placed(fragment, low, Map.of(fragment)(*np.indices(fragment.shape)))


def _storage(fragment: Fragment) -> np.dtype[Any]:
    """The dtype of a register: uint32, or uint64 for f64."""
    return np.dtype(np.uint64 if fragment.container.width == 64 else np.uint32)

"""Judges the matrix descriptors of wgmma, field by field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges.values import Values
from tcemu.course.record import Given
from tcemu.errors import listing
from tcemu.layouts import Descriptor
from tcemu.layouts.descriptor import FIELDS, OFFSETS

Array = npt.NDArray[Any]
_MASK = (1 << 64) - 1


def descriptor_of(tile: Callable[[Given], Descriptor]) -> Values:
    """Judge the descriptor of a tile: 64 bits, or a Descriptor.

    >>> from tcemu.course import Given, judges
    >>> tile = tcemu.layouts.Descriptor.for_tile("f16", 64, 64, swizzle=128)
    >>> judge = judges.descriptor_of(lambda given: tile)
    >>> wrong = tcemu.layouts.Descriptor(start=0, lbo=1024, sbo=16, swizzle=128)
    >>> judge.mark(judge.collect(wrong, Given()), Given()).mistake
    'You exchanged LBO and SBO.'
    """

    def mistakes(given: Given) -> Iterator[tuple[str, Array]]:
        for says, bits in _mistakes(tile(given)):
            yield says, np.array(bits & _MASK, np.uint64)

    return Values(
        lambda given: np.uint64(tile(given).encode()), np.uint64, mistakes, what="The descriptor",
        observed=lambda got, given: _fields(int(got), tile(given).encode()), how="every field",
    )  # fmt: skip


def _mistakes(right: Descriptor) -> Iterator[tuple[str, int]]:
    """The bits with each of the usual mistakes, and with two of them."""
    bits = right.encode()
    held = {field.attribute: field.of(bits) for field in FIELDS}

    def put(**changed: int) -> int:
        return sum((held | changed)[field.attribute] << field.low for field in FIELDS)

    swapped = {"lbo": held["sbo"], "sbo": held["lbo"]}
    yield "You exchanged LBO and SBO.", put(**swapped)
    for count in (3, 1, 2):
        for fields in combinations(OFFSETS, count):
            names = listing([field.name for field in fields], "and")
            for says, by in ((f"You did not shift {names} right by 4 bits.", 4), (f"You shifted {names} twice.", -4)):
                changed = {f.attribute: held[f.attribute] << by if by > 0 else held[f.attribute] >> -by for f in fields}
                yield says, put(**changed)
                if {"lbo", "sbo"} <= set(changed):
                    changed |= {"lbo": changed["sbo"], "sbo": changed["lbo"]}
                    yield f"You exchanged LBO and SBO. {says}", put(**changed)
    for code in {0, 1, 2, 3} - {held["swizzle"]}:
        says = f"The swizzle field is {code}, which is another mode: 1 is 128 bytes, 2 is 64 and 3 is 32."
        yield says, put(swizzle=code)
        yield f"You exchanged LBO and SBO. {says}", put(**swapped, swizzle=code)


def _fields(got: int, right: int) -> str:
    """Which fields are wrong."""
    wrong = [field.name for field in FIELDS if field.of(got) != field.of(right)]
    if not wrong:
        return "Every field is right, but bits that belong to no field are set."
    others = [field.name for field in FIELDS if field.name not in wrong]
    says = f"{_are(wrong)} wrong."
    return f"{says} {_are(others)} right." if others else says


def _are(names: Sequence[str]) -> str:
    text = listing(names, "and")
    return f"{text[0].upper()}{text[1:]} {'is' if len(names) == 1 else 'are'}"

"""Judges a function that returns matrix descriptors, field by field, in several cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.answers import AnswerError, all_called, function
from tcemu.course.judges.credit import credit
from tcemu.course.mistakes import Mistake, diagnosis
from tcemu.course.record import Evidence, Finding, Given
from tcemu.errors import LayoutError, briefly, counted
from tcemu.layouts import Descriptor
from tcemu.layouts.canonical import SWIZZLES
from tcemu.layouts.descriptor import FIELDS, OFFSETS, RESERVED, Field, as_bits

Array = npt.NDArray[Any]
#: Codes of the swizzles if they are numbered by size, as people guess.
_BY_SIZE = {size: code for code, size in enumerate(sorted(SWIZZLES))}


#: Cases that a grader draws at most.
_DRAWN_CASES = 20


@dataclass(frozen=True)
class Descriptors:
    """Judges a function that returns a matrix descriptor, as a Descriptor or as its 64 bits, in several cases.

    `cases` are the arguments by name. `right` returns the Descriptor for a case, and `mistakes` what else people
    return; the usual mistakes with the fields follow from `right`. A field in `ignored` may hold anything.

    >>> from tcemu.course import Given, judges
    >>> from tcemu.layouts import Descriptor
    >>> cases = [{"start": 0}, {"start": 1024}]
    >>> judge = judges.Descriptors(cases, lambda start: Descriptor(start, 128, 256))
    >>> judge.mark(judge.collect(lambda start: Descriptor(start, 256, 128), Given()), Given()).mistake
    'You swapped LBO and SBO.'
    >>> judge.unseen(np.random.default_rng(0))  # `cases` are all of them
    """

    cases: Sequence[Mapping[str, Any]]
    right: Callable[..., Descriptor]
    mistakes: tuple[tuple[str, Callable[..., Descriptor]], ...] = ()
    ignored: tuple[str, ...] = ()
    how: str = "every field of the descriptor, in several cases"

    #: Other cases, some of which a grader also tries.
    wider: Sequence[Mapping[str, Any]] = ()

    def unseen(self, rng: np.random.Generator) -> Descriptors | None:
        """The same function for other cases, which a grader draws."""
        if not self.wider:
            return None
        drawn = rng.choice(len(self.wider), min(_DRAWN_CASES, len(self.wider)), replace=False)
        return replace(self, cases=[self.wider[number] for number in drawn])

    def collect(self, answer: Any, given: Given) -> Evidence:
        """Call the function in every case."""
        names = list(self.cases[0])
        learner = function(answer, names)
        results = all_called(learner, names, (list(case.values()) for case in self.cases))
        descriptors = [_bits(result, case) for result, case in zip(results, self.cases, strict=True)]
        return {"bits": np.array(descriptors, np.uint64)}

    def mark(self, evidence: Evidence, given: Given) -> Finding:
        """Compare every field."""
        mask = np.uint64((1 << 64) - 1 & ~sum(field.mask for field in FIELDS if field.attribute in self.ignored))
        got, right = evidence["bits"] & mask, self._all(self.right) & mask
        wrong = got != right
        if not wrong.any():
            return Finding(True, f"Right in {counted(len(self.cases), 'case')}.", share=1.0)
        first = int(np.argmax(wrong))
        says = f"For {_arguments(self.cases[first])}, {_first_wrong(int(got[first]), int(right[first]))}"
        says += f" Wrong in {int(wrong.sum())} of {counted(len(self.cases), 'case')}."
        known = [Mistake(name, gives & mask) for name, gives in self._mistakes()]
        return Finding(False, says, diagnosis(got, right, known), credit(wrong, right))

    def _all(self, way: Callable[..., Descriptor]) -> Array:
        return np.array([way(**case).encode() for case in self.cases], np.uint64)

    def _mistakes(self) -> Iterator[tuple[str, Array]]:
        for says, way in self.mistakes:
            yield says, self._all(way)
        made = [self.right(**case) for case in self.cases]
        for says, change in _CHANGES:
            yield says, np.array([change(each) for each in made], np.uint64)


def _bits(answer: Any, case: Mapping[str, Any]) -> int:
    try:
        return as_bits(answer)
    except LayoutError:
        raise AnswerError(
            f"For {_arguments(case)} the function returns {briefly(answer)}. It should return a Descriptor, or its 64 "
            "bits as an integer."
        ) from None


def _arguments(case: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in case.items())


def _first_wrong(got: int, right: int) -> str:
    for field in FIELDS:
        if field.of(got) != field.of(right):
            bits = f"bits {field.low + field.bits - 1}:{field.low}"
            return f"the field {field.name} ({bits}) is {field.of(got):#x}, {_meaning(field, got)}, which is wrong."
    return f"bits are set that belong to no field: {got & RESERVED:#x}."


def _meaning(field: Field, bits: int) -> str:
    if field in OFFSETS:
        return f"which means {field.of(bits) * 16} bytes"
    if field.attribute == "swizzle":
        return f"which means {Descriptor.decode(bits).swizzle or 'no'} {'bytes' if field.of(bits) else 'swizzle'}"
    return "a number from 0 to 7"


# ---------------------------------------------------------------------------------------------- usual mistakes


def _put(made: Descriptor, *, shift: int = 4, code: int | None = None, whole: bool = False, **fields: int) -> int:
    """The 64 bits of a descriptor, put together in another way; if `whole`, large numbers run into the next field."""
    bits = 0
    for field in OFFSETS:
        bytes_ = fields.get(field.attribute, getattr(made, field.attribute))
        bits |= (bytes_ >> shift & (-1 if whole else (1 << field.bits) - 1)) << field.low
    code = SWIZZLES.index(made.swizzle) if code is None else code
    return (bits | made.base_offset << 49 | code << 62) & (1 << 64) - 1


_CHANGES: tuple[tuple[str, Callable[[Descriptor], int]], ...] = (
    ("You swapped LBO and SBO.", lambda made: _put(made, lbo=made.sbo, sbo=made.lbo)),
    ("The fields hold bytes; they should hold bytes >> 4.", lambda made: _put(made, shift=0)),
    ("The fields hold bytes; they should hold bytes >> 4.", lambda made: _put(made, shift=0, whole=True)),
    ("The start address is in bytes; the field holds it shifted right by 4.",
     lambda made: _put(made, start=made.start << 4)),
    ("LBO and SBO are in bytes; the fields hold them shifted right by 4.",
     lambda made: _put(made, lbo=made.lbo << 4, sbo=made.sbo << 4)),
    ("The swizzle is missing: bits 63:62 are 0.", lambda made: _put(made, code=0)),
    ("The codes of the swizzles do not rise with their size: 1 is 128 bytes, 2 is 64, 3 is 32.",
     lambda made: _put(made, code=_BY_SIZE[made.swizzle])),
    ("The swizzle is in bits 63:62; you put it one bit lower, where tcgen05 has it.",
     lambda made: _put(made, code=0) | SWIZZLES.index(made.swizzle) << 61),
    ("LBO 16 and SBO 1024 belong to contiguous rows of 128 bytes, as with the 128-byte swizzle.",
     lambda made: _put(made, lbo=16, sbo=1024)),
    ("The start address is missing.", lambda made: _put(made, start=0)),
    ("SBO is the distance from one row to the next; it should be that from one group of eight rows to the next.",
     lambda made: _put(made, sbo=made.swizzle or 16)),
)  # fmt: skip

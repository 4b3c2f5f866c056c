"""What is wrong with a descriptor: the usual mistakes, found by comparing addresses.

A descriptor cannot be wrong by itself, because it always names some addresses. It can only be wrong for a tile, so
`diagnose` takes the tile; the more it knows about the tile, the more mistakes it finds. `fit` (fitting.py) finds the
descriptor of a tile that lies anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import LayoutError, listing, whole
from tcemu.layouts.canonical import SWIZZLES, Canonical, Element, Major, element_bits
from tcemu.layouts.descriptor import OFFSETS, RESERVED, Descriptor, as_bits, tile_addresses
from tcemu.layouts.fitting import Fit, fit, in_rows
from tcemu.layouts.tile_addresses import MOST, TileAddresses
from tcemu.layouts.tiles import same_address

Array = npt.NDArray[Any]

#: Bytes of shared memory that one block of sm_90 can have.
LARGEST = 227 * 1024


@dataclass(frozen=True)
class Fault:
    """One mistake: its name, an explanation, and the descriptor with this and all previous mistakes corrected.

    >>> tile = tcemu.layouts.Descriptor.for_tile("f16", 64, 64, swizzle=128)
    >>> wrong = tcemu.layouts.Descriptor(start=0, lbo=16, sbo=512, swizzle=128)
    >>> fault = tcemu.layouts.diagnose(wrong, "f16", 64, 64, tile=tile)[-1]
    >>> fault.corrected.sbo  # bytes from one group of eight rows to the next
    1024
    """

    name: str
    message: str
    corrected: Descriptor

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class _Question:
    """What is known about the tile."""

    bits: int
    layout: Canonical
    mn: int
    k: int
    tile: Descriptor | None
    #: The tile's descriptor if it is known, otherwise those of the packed layouts that the tile could have.
    candidates: tuple[Descriptor, ...]
    start: int | None
    shared: int

    def addresses(self, descriptor: Descriptor) -> Array:
        layout = replace(self.layout, swizzle=descriptor.swizzle)
        per = max(8 // layout.bits, 1)
        mn, k = np.arange(self.mn, dtype=np.int64), np.arange(0, self.k, per, dtype=np.int64)
        return tile_addresses(descriptor, layout, mn, k)

    def fits(self, descriptor: Descriptor) -> bool:
        """Whether it has the same addresses as one of the candidates, apart from the start."""
        offsets = self.addresses(replace(descriptor, start=0, base_offset=0))
        return any(
            np.array_equal(offsets, self.addresses(replace(candidate, start=0, base_offset=0)))
            for candidate in self.candidates
        )

    def element(self, index: tuple[int, ...]) -> str:
        return f"({index[0]}, {index[1] * max(8 // self.layout.bits, 1)})"


@explained
def diagnose(
    descriptor: Descriptor | int,
    element: Element,
    mn: int,
    k: int,
    major: Major = "K",
    *,
    tile: Descriptor | TileAddresses | None = None,
    start: int | None = None,
    swizzle: int | None = None,
    shared: int = LARGEST,
) -> list[Fault]:
    """What is wrong with `descriptor` (or its 64 bits) for a tile of mn by k elements; an empty list if it is right.

    `tile` is the descriptor with which the tile was laid out, or where its elements are, as for `fit`: a function of mn
    and k, two strides in bytes or an array of bytes; every element is compared with it. Without it, `start`
    and `swizzle` may give the tile's first byte and its swizzle; LBO and SBO then count as wrong only if two elements
    would share a byte, because the tile may have gaps. `shared` is the size of shared memory in bytes. The last fault's
    `corrected` has all faults corrected.

    Raises LayoutError if the descriptor or the tile is invalid.

    >>> tile = tcemu.layouts.Descriptor.for_tile("f16", 64, 64, swizzle=128)
    >>> tcemu.layouts.diagnose(tile, "f16", 64, 64)
    []
    >>> wrong = tcemu.layouts.Descriptor(start=0, lbo=16, sbo=512, swizzle=128)
    >>> [fault.name for fault in tcemu.layouts.diagnose(wrong, "f16", 64, 64, tile=tile)]
    ['elsewhere']
    >>> rows = lambda n, k: 2 * (24 * k + n)  # B stored as rows of 24 numbers
    >>> (fault,) = tcemu.layouts.diagnose(tcemu.layouts.Descriptor(0, 192, 768), "f16", 24, 16, "MN", tile=rows)
    >>> print(fault)  # doctest: +ELLIPSIS
    no descriptor reads this tile: the tile is in rows that are 48 bytes apart, which no LBO and SBO can say...
    """
    shared = whole(shared, "the size of shared memory", LayoutError)
    if shared < 0:
        raise LayoutError(f"the size of shared memory must be a number of bytes; got {shared}")
    mn, k = whole(mn, "mn", LayoutError), whole(k, "k", LayoutError)
    if mn * k > MOST:
        raise LayoutError(f"a tile of {mn} by {k} elements is larger than any shared memory")
    bits = as_bits(descriptor)
    decoded = Descriptor.decode(bits)
    known = tile if isinstance(tile, Descriptor) else None
    if tile is not None and known is None:
        fitted = _descriptor_of(fit(tile, element, mn, k), decoded, Canonical(element_bits(element), major))
        if isinstance(fitted, Fault):
            return [fitted]
        known = fitted
    swizzle = swizzle if swizzle is not None else known.swizzle if known else decoded.swizzle
    start = start if start is not None or known is None else known.start
    layout = Canonical(element_bits(element), major, swizzle)
    firsts: tuple[Major, ...] = ("MN", "K")
    packed = tuple(
        Descriptor.for_tile(element, mn, k, major=major, swizzle=swizzle, atoms_along=along) for along in firsts
    )
    if k % max(8 // layout.bits, 1):
        raise LayoutError(f"a row of {k} elements of {layout.bits} bit ends inside a byte")
    question = _Question(bits, layout, mn, k, known, (known,) if known else packed, start, shared)
    faults: list[Fault] = []
    for rule in _RULES:
        for fault in rule(question, decoded):
            faults.append(fault)
            decoded = fault.corrected
    return faults


def _descriptor_of(fitted: Fit, descriptor: Descriptor, layout: Canonical) -> Descriptor | Fault:
    """The descriptor of a tile that `fit` has looked at, the most similar to the given one, or why there is none."""
    ways = sorted(
        fitted.ways, key=lambda way: (way.major != layout.major, way.descriptor.swizzle != descriptor.swizzle)
    )
    if not ways:
        first = fitted.reasons[0]
        return Fault("unreadable", f"no descriptor reads this tile: {fitted.advice()}. {first}", descriptor)
    if ways[0].major != layout.major:
        bit = "imm-trans-a or imm-trans-b" if layout.bits == 16 else "no instruction of wgmma"
        mistake = f"the tile is {ways[0].major}-major, not {layout.major}-major"
        how = f"{bit} says so" if layout.bits == 16 else f"{bit} reads elements of {layout.bits} bits so"
        return Fault("major", f"{mistake}: {how}. Its descriptor is {ways[0].descriptor}", ways[0].descriptor)
    return ways[0].descriptor


# ---------------------------------------------------------------------------------------------- the rules


def _major(question: _Question, descriptor: Descriptor) -> Iterator[Fault]:
    if question.layout.major == "MN" and question.layout.bits != 16:
        yield Fault(
            "major",
            "wgmma reads MN-major tiles only of 16-bit elements (imm-trans); elements of "
            f"{question.layout.bits} bits must be K-major: transpose the tile when you copy it (PTX ISA "
            "9.7.15.5.1.2)",
            descriptor,
        )


def _reserved(question: _Question, descriptor: Descriptor) -> Iterator[Fault]:
    set_bits = question.bits & RESERVED
    if not set_bits:
        return
    numbers = [bit for bit in range(64) if set_bits >> bit & 1]
    which = f"bit {numbers[0]} belongs to no field and must be 0"
    if len(numbers) > 1:
        which = f"bits {listing(numbers, 'and')} belong to no field and must be 0"
    why = "Is a field too large for its 14 bits because it was not shifted right by 4?"
    if set_bits >> 46 & 7 == 1:
        why = "Bits 48:46 = 0b001 mark a descriptor of tcgen05, whose swizzle is in another field (63:61)."
    yield Fault("reserved", f"{which} (corrected: {descriptor.encode():#018x}). {why}", descriptor)


def _unshifted(question: _Question, descriptor: Descriptor) -> Iterator[Fault]:
    expected = _expected(question)
    fixed = descriptor
    for field in OFFSETS:
        held, read = question.bits >> field.low & 0xFFFF, getattr(descriptor, field.attribute)
        wanted = expected[field.attribute]
        certain = next((value for value in sorted(wanted) if value and value & 0xFFFF == held), None)
        if read in wanted or not held:
            continue
        # the start is not known: guess only if it would be outside shared memory
        guessed = held if field.attribute == "start" and not wanted and read >= question.shared else None
        value = certain if certain is not None else guessed
        if value is None or value % 16 or value > 0x3FFFF:
            continue
        fixed = replace(fixed, **{field.attribute: value})
        yield Fault(
            "shift",
            f"{field.name}: the field holds {held:#x}, which means {read} bytes; it was probably meant to be {value} "
            f"bytes and was not shifted right by 4. The field should be {value >> 4:#x}",
            fixed,
        )


def _expected(question: _Question) -> dict[str, set[int]]:
    """The bytes that each field may hold; empty if that is not known. Offsets that are not used are left out."""
    atoms = dict(zip(question.layout.steps, question.layout.atoms(question.mn, question.k), strict=True))
    used = [field for field in ("lbo", "sbo") if atoms[field] > 1]
    known = question.candidates
    if not question.tile:
        # any one offset may be larger because of a gap, but hardly all of them at once 16 times those without gaps
        held = {field.attribute: question.bits >> field.low & 0xFFFF for field in OFFSETS}
        sure = len(used) == 2 or question.layout.swizzle
        known = tuple(c for c in known if sure and all(getattr(c, field) & 0xFFFF == held[field] for field in used))
    wanted = {field: {getattr(candidate, field) for candidate in known if field in used} for field in ("lbo", "sbo")}
    return {"start": set() if question.start is None else {question.start}, **wanted}


def _start(question: _Question, descriptor: Descriptor) -> Iterator[Fault]:
    start = question.start
    if start is None or start == descriptor.start:
        return
    if start % 16:
        align = question.layout.atom_bytes if question.layout.swizzle else 16
        better = -(-start // align) * align
        read = start >> 4 << 4
        yield Fault(
            "start",
            f"the tile starts at {start}, which is not a multiple of 16: a descriptor drops the low 4 bits of an "
            f"address, so it would mean {read}. Move the tile to {better}",
            replace(descriptor, start=better),
        )
        return
    yield Fault(
        "start",
        f"the descriptor starts at {descriptor.start}, the tile at {start}; the field should be {start >> 4:#x}",
        replace(descriptor, start=start),
    )


def _swizzle(question: _Question, descriptor: Descriptor) -> Iterator[Fault]:
    wanted = question.layout.swizzle
    if descriptor.swizzle != wanted:
        numbers = ", ".join(f"{number} {f'{size} bytes' if size else 'none'}" for number, size in enumerate(SWIZZLES))
        have, want = (f"{size} bytes" if size else "none" for size in (descriptor.swizzle, wanted))
        yield Fault(
            "swizzle",
            f"swizzle: the field means {have}, but the tile was laid out with {want}; the field should be "
            f"{SWIZZLES.index(wanted)} ({numbers})",
            replace(descriptor, swizzle=wanted),
        )


def _boundary(question: _Question, descriptor: Descriptor) -> Iterator[Fault]:
    layout, mask = question.layout, question.layout.swizzle // 16 - 1
    if not layout.swizzle:
        if descriptor.base_offset:
            yield Fault(
                "boundary",
                f"base offset {descriptor.base_offset} without a swizzle: there is no pattern to offset, so it must "
                "be 0",
                replace(descriptor, base_offset=0),
            )
        return
    period, name = layout.atom_bytes, f"{layout.swizzle}-byte swizzle"
    past = descriptor.start % period
    wanted = question.tile.base_offset if question.tile else _base_offset(question, descriptor, past)
    if wanted is None:
        moved = descriptor.start - past + period
        yield Fault(
            "boundary",
            f"the pattern of a {name} starts at a multiple of {period}, but this tile starts {past} bytes after one; a "
            f"base offset counts 128-byte lines and cannot express that. Move the tile to {moved}",
            replace(descriptor, start=moved, base_offset=0),
        )
        return
    if not (descriptor.base_offset ^ wanted) & mask:
        return
    if question.tile:
        why = "as when the tile was laid out"
    elif wanted:
        why = (
            f"(start >> 7) & 7, because the pattern of a {name} starts at a multiple of {period} and this tile {past} "
            f"bytes after one. Better: move the tile to {descriptor.start - past + period}, where the base offset is 0"
        )
    else:
        why = f"because the tile starts on its pattern's {period}-byte boundary; a step along K does not change it"
    yield Fault(
        "boundary",
        f"base offset is {descriptor.base_offset} and should be {wanted}, {why}",
        replace(descriptor, base_offset=wanted),
    )


def _base_offset(question: _Question, descriptor: Descriptor, past: int) -> int | None:
    """The base offset of a tile that starts `past` bytes after its pattern's boundary; None if none fits."""
    layout = question.layout
    along = question.k if layout.major == "K" else question.mn
    # a step inside the first line: the pattern starts with the line
    line = past % 128 % layout.line
    if line and line + along * layout.bits // 8 <= layout.line:
        past -= line
    return None if past % 128 else past >> 7 & 7


def _exchanged(question: _Question, descriptor: Descriptor) -> Iterator[Fault]:
    if question.fits(descriptor) or not (question.tile or same_address(question.addresses(descriptor))):
        return  # the tile is not known: it may have gaps
    swapped = replace(descriptor, lbo=descriptor.sbo, sbo=descriptor.lbo)
    if not question.fits(swapped):
        return
    layout = question.layout
    by_mn, by_k = layout.steps
    mn, k = layout.atom
    yield Fault(
        "swapped",
        f"LBO {descriptor.lbo} and SBO {descriptor.sbo} are swapped: in a tile that is {layout}, {by_mn.upper()} is "
        f"the distance from one group of {mn} along mn to the next and {by_k.upper()} from one group of {k} along k to "
        f"the next, so LBO should be {descriptor.sbo} and SBO {descriptor.lbo}"
        + (" (in MN-major tiles the two change places with the swizzle)" if layout.major == "MN" else ""),
        swapped,
    )


def _elsewhere(question: _Question, descriptor: Descriptor) -> Iterator[Fault]:
    """What remains after the other corrections: elements in the wrong place, or two in one place."""
    addresses = question.addresses(descriptor)
    if question.tile:
        wanted = question.addresses(question.tile)
        if np.array_equal(addresses, wanted):
            return
        index = tuple(int(i) for i in np.argwhere(addresses != wanted)[0])
        yield Fault(
            "elsewhere",
            f"element {question.element(index)} is read from {addresses[index]}, but the tile has it at {wanted[index]}"
            f": LBO is {descriptor.lbo} and SBO {descriptor.sbo}, the tile's are {question.tile.lbo} and "
            f"{question.tile.sbo}",
            replace(descriptor, lbo=question.tile.lbo, sbo=question.tile.sbo),
        )
        return
    pair = same_address(addresses)
    rows = in_rows(descriptor, question.layout, question.mn, question.k)
    if rows and not pair:
        packed = question.candidates[0]
        message = f"{rows}. If it is in core matrices with gaps, say where its elements are, with tile="
        yield Fault("rows", message, replace(descriptor, lbo=packed.lbo, sbo=packed.sbo))
    if pair:
        first, second = (question.element(index) for index in pair)
        packed = question.candidates[0]
        yield Fault(
            "overlap",
            f"elements {first} and {second} are both read from {addresses[pair[0]]}: with LBO {descriptor.lbo} and SBO "
            f"{descriptor.sbo}, atoms of {question.layout.atom_bytes} bytes overlap. A tile without gaps has LBO "
            f"{packed.lbo} and SBO {packed.sbo}" + (f". {rows}" if rows else ""),
            replace(descriptor, lbo=packed.lbo, sbo=packed.sbo),
        )


def _range(question: _Question, descriptor: Descriptor) -> Iterator[Fault]:
    addresses = question.addresses(descriptor)
    last = int(addresses.max()) + question.layout.size
    if last <= question.shared:
        return
    index = tuple(int(i) for i in np.argwhere(addresses + question.layout.size > question.shared)[0])
    lowest = descriptor.start - (last - question.shared)
    align = question.layout.atom_bytes if question.layout.swizzle else 16
    better = lowest // align * align
    advice = f"It fits if it starts at {better}" if better >= 0 else "It is larger than shared memory"
    yield Fault(
        "range",
        f"element {question.element(index)} is read from {addresses[index]} and the tile ends at {last}, but shared "
        f"memory has {question.shared} bytes. {advice}",
        replace(descriptor, start=better) if better >= 0 else descriptor,
    )


_RULES: tuple[Callable[[_Question, Descriptor], Iterator[Fault]], ...] = (
    _major,
    _reserved,
    _unshifted,
    _start,
    _swizzle,
    _boundary,
    _exchanged,
    _elsewhere,
    _range,
)

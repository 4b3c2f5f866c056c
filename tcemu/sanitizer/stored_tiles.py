"""Tiles that threads write themselves, from the lines of a matrix in global memory, and read in another layout.

What a reader takes for element (mn, k) comes from some byte of the matrix. In a right kernel that is

    origin + mn * one step + k * another      a tile of the matrix, or of its transpose, or of the matrix reshaped
    line f(mn), place g(k) in the line        rows gathered, columns interleaved; or the transpose of such a tile

for all elements whose origin is known. If it is neither, the layouts may differ, but not for certain: the matrix may
have been packed for its reader in advance, or the kernel may want just this. So it is reported only if the tile of the
matrix that begins with the reader's first element is in shared memory as a whole, once, in a layout that some
descriptor or some rows have: then the writer and the reader mean different layouts.

ldmatrix takes 8 units of 16 bytes from any addresses. It is reported if they are from 8 lines at equal distances, the
units of which are exchanged as a swizzle does it, while the units of one column are there, in the same 128 bytes each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tcemu.errors import LayoutError
from tcemu.formats import lookup
from tcemu.instructions import Instruction
from tcemu.layouts import Fit, fit
from tcemu.layouts.canonical import Major
from tcemu.layouts.descriptor import Descriptor
from tcemu.layouts.instruction_descriptor import InstructionDescriptor
from tcemu.layouts.tcgen05_tiles import Tile as DescribedTile
from tcemu.machine.events import Accessed, Accesses, By, CopyIssued, Tcgen05Issued, WgmmaIssued
from tcemu.sanitizer.block import Access, Block, ForAccesses, Handlers
from tcemu.sanitizer.clocks import Array
from tcemu.sanitizer.origins import Origins, Source

#: The first blocks of a launch are watched, and the first reads of each line: the others do the same.
_BLOCKS, _READS = 2, 8
#: Bytes of a unit, and the lines of an atom, which every layout keeps together.
_UNIT, _LINES = 16, 8


#: Bytes after which the pattern of every swizzle repeats.
_ATOM = 1024
#: By the bit of the instruction descriptor; and formats of which shared memory has 16 elements in 16 bytes.
_MAJOR: tuple[Major, Major] = ("K", "MN")
_PADDED = ("e2m3", "e3m2", "e2m1")


class _Tile(NamedTuple):
    """A matrix of wgmma or tcgen05 in shared memory: addresses (mn, k) of elements of `size` bytes."""

    by: By
    instruction: Instruction
    role: str
    matrix: Array
    size: int
    descriptor: Descriptor
    major: Major


class Misplaced(NamedTuple):
    """An element (mn, k) that is read from the wrong place: the right address, its origin, and how the tile lies."""

    element: tuple[int, int]
    wanted: int
    origin: int
    fit: Fit


def misplaced(
    addresses: Array, size: int, origins: Array, source: Source, *, mn_major: bool, repeats: bool = False
) -> Misplaced | None:
    """The first element of a tile that is misread for certain; None if it fits, or if that is not certain.

    The elements (mn, k) of `size` bytes are read from `addresses`; `origins` has the origin of each byte there. A
    descriptor with a step of 0 `repeats` lines on purpose.
    """
    taken = np.where(origins[addresses + size - 1] == origins[addresses] + size - 1, origins[addresses], -1)
    known = (taken >= source.first) & (taken < source.end)
    lined = taken.T if mn_major else taken
    steps = _steps(lined, size, source)
    if steps is None or _orderly(taken, known, source, mn_major, repeats):
        return None
    lines, along = np.arange(lined.shape[0], dtype=np.int64)[:, None], np.arange(lined.shape[1], dtype=np.int64)
    places = _SharedBytes(origins, source, int(lined[0, 0]))
    across, step = steps if steps[0] else (places.next_line(), steps[1])
    wanted = lined[0, 0] + lines * across + along * step
    where = places.of(wanted, (lined.shape[0] if across == size else lined.shape[1]) * size) if across else None
    if where is None:
        return None
    where, wanted = (where.T, wanted.T) if mn_major else (where, wanted)
    wrong = known & (taken != wanted)
    if not wrong.any():
        return None
    try:
        fitted = fit(where, 8 * size)
    except LayoutError:
        return None
    if not fitted.ways and fitted.rows is None:
        return None
    mn, k = divmod(int(np.flatnonzero(wrong)[0]), taken.shape[1])
    return Misplaced((mn, k), int(where[mn, k]), int(wanted[mn, k]), fitted)


def _steps(lined: Array, size: int, source: Source) -> tuple[int, int] | None:
    """How far neighbours are apart in the matrix, across the reader's lines (0: unknown) and along them."""
    unit = _UNIT // size
    first = lined[0, :unit]
    if first[0] < source.first or first[0] >= source.end or len(first) < unit:
        return None
    step = int(first[1] - first[0])
    if not np.array_equal(first, first[0] + step * np.arange(unit, dtype=np.int64)):
        return None
    if step == size:
        return 0, size
    return (size, step) if step > 0 and step % source.line == 0 else None


def _orderly(taken: Array, known: Array, source: Source, mn_major: bool, repeats: bool) -> bool:
    """Whether the elements are a tile of the matrix, or of lines and columns of it, each once unless it `repeats`.

    They may also be packed in advance, so that a line of the matrix has 8 lines of the tile or more.
    """
    one, other = (int(taken[at] - taken[0, 0]) for at in ((1, 0), (0, 1)))
    mn, k = np.arange(taken.shape[0], dtype=np.int64)[:, None], np.arange(taken.shape[1], dtype=np.int64)
    if known[1, 0] and known[0, 1] and ((taken == taken[0, 0] + one * mn + other * k) | ~known).all():
        return True
    lines, columns = np.divmod(taken - source.first, source.line)
    if _packed(lines[known], taken.shape[1 if mn_major else 0]) and _of_one(lines, known, int(mn_major), True):
        return True
    return any(_of_one(lines, known, axis, repeats) and _of_one(columns, known, 1 - axis, repeats) for axis in (0, 1))


def _packed(lines: Array, count: int) -> bool:
    """Whether these are lines one after the other, with 8 of the `count` lines of a tile each, or more."""
    distinct = len(np.unique(lines))
    return distinct <= max(count // _LINES, 1) and int(lines.max() - lines.min()) + 1 == distinct


def _of_one(numbers: Array, known: Array, axis: int, repeats: bool) -> bool:
    """Whether each row (axis 0) or column (1) has one number, which no other has unless that `repeats`."""
    low = np.where(known, numbers, 1 << 62).min(axis=1 - axis)
    high = np.where(known, numbers, -1).max(axis=1 - axis)
    rows = high >= 0
    apart = repeats or len(np.unique(low[rows])) == np.count_nonzero(rows)
    return apart and bool((low[rows] == high[rows]).all())


class _SharedBytes:
    """Where the bytes of a matrix from `first` on are in shared memory."""

    def __init__(self, origins: Array, source: Source, first: int) -> None:
        self._source, self._first, self._column = source, first, (first - source.first) % source.line
        at = np.flatnonzero((origins >= first) & (origins < source.end))
        order = np.argsort(origins[at], kind="stable")
        self._at, self._origins = at[order], origins[at][order]

    def next_line(self) -> int:
        """How far the next line that is there, from the same column on, is from the first; 0 if there is none."""
        later = self._origins[(self._origins > self._first) & ((self._origins - self._first) % self._source.line == 0)]
        return int(later[0] - self._first) if len(later) else 0

    def of(self, wanted: Array, width: int) -> Array | None:
        """Where these bytes are, `width` of each line; None if one is nowhere, or in several places."""
        if self._column + width > self._source.line:
            return None
        first = np.searchsorted(self._origins, wanted)
        after = np.searchsorted(self._origins, wanted, side="right")
        return self._at[first] if (after - first == 1).all() else None


def exchanged(addresses: Array, origins: Array, source: Source) -> tuple[int, int] | None:
    """Of 8 units that ldmatrix reads, the first that a swizzle has exchanged, and where the right one is."""
    taken = origins[addresses]
    steps = np.diff(taken)
    if (steps == steps[0]).all() or (taken < source.first).any() or (taken >= source.end).any():
        return None
    lines, columns = np.divmod(taken - source.first, source.line)
    units = columns // _UNIT
    if len(set(np.diff(lines).tolist())) > 1 or lines[0] == lines[1] or len(set((columns % _UNIT).tolist())) > 1:
        return None
    if len(set(np.diff(units).tolist())) == 1 or not swizzled(units):
        return None
    where = _SharedBytes(origins, source, source.first).of(taken + (units[0] - units) * _UNIT, 0)
    if where is None or (where >> 7 != addresses >> 7).any():
        return None
    row = int((units != units[0]).argmax())
    return row, int(where[row])


def swizzled(units: Array) -> bool:
    """Whether the units of 8 lines are those of one column after an XOR or a rotation with the number of the line."""
    number = np.arange(_LINES, dtype=np.int64)
    for width in (2, 4, 8):
        if (units // width == units[0] // width).all():
            turned = units ^ units[0]
            if np.array_equal(turned[number[:, None] ^ number], turned[:, None] ^ turned):
                return True
            return any(
                np.array_equal(units % width, (units[0] + step * (number // lines)) % width)
                for step in range(1, width)
                for lines in (1, 2, 4)
            )
    return False


# ---------------------------------------------------------------------------------------------------- the section


def _needed(access: Access) -> bool:
    if access.space == "global":
        return not (access.writes or access.collective)
    return access.space == "shared" and (access.writes or access.collective)


class StoredTiles:
    """The tiles that the threads of a block have written from global memory, and their readers."""

    def __init__(self, block: Block) -> None:
        self._block, grid, neighbour = block, block.grid, block.neighbour
        begun = grid.members.get(grid.launch_of.get(block.numbers[0], 0), [])
        self._origins = Origins(grid, block.shadow.size if neighbour.number in begun[:_BLOCKS] else 0)
        #: by line and what it reads there: how many reads have been looked at
        self._reads: dict[object, int] = {}
        self.handlers: Handlers = {
            Accessed: ForAccesses(self.accessed, _needed),
            CopyIssued: self._copied,
            WgmmaIssued: self._issued,
            Tcgen05Issued: self._multiplied,
        }

    @property
    def follows(self) -> bool:
        """Whether it still needs accesses."""
        return self._origins.open

    def batch(self, event: Accesses, count: int) -> None:
        """A batch with so many accesses that it needs."""
        self._origins.batch(event, count)

    def accessed(self, event: Accessed) -> None:
        """A write to shared memory, a load from global memory, or a load by all lanes together."""
        if not self._origins.open or not len(event.addresses):
            return
        if event.writes or event.space == "global":
            self._origins.accessed(event)
        elif event.instruction.family == "ldmatrix" and event.size == _UNIT and not len(event.addresses) % _LINES:
            self._loads(event)

    def _copied(self, event: CopyIssued) -> None:
        if self._origins.open and event.copy.writes[0] == "shared":
            self._origins.copied(event.copy)

    def _due(self, *what: object) -> bool:
        """Whether to look at a read, one of the first of its line."""
        count = self._reads.get(what, 0)
        if count < _READS:
            self._reads[what] = count + 1
        return count < _READS

    # ------------------------------------------------------------------------------------------------ wgmma, tcgen05

    def _issued(self, event: WgmmaIssued) -> None:
        wgmma, by = event.wgmma, event.wgmma.bys[0]
        for (role, addresses, size), (descriptor, major) in zip(wgmma.reads, wgmma.tiles, strict=True):
            matrix = addresses.reshape(wgmma.instruction.shape[1 if role == "b" else 0], -1)
            self._check(_Tile(by, wgmma.instruction, role, matrix, size, descriptor, major))

    def _multiplied(self, event: Tcgen05Issued) -> None:
        operation = event.operation
        if operation.kind != "mma" or not self._origins.open:
            return
        words = operation.instruction.words
        kind, blocks = words["kind"], len(operation.writes)
        shape = InstructionDescriptor.decode(operation.idesc, kind, operation.instruction.family == "tcgen05.mma.ws")
        sides = {"a": (shape.m, shape.a, shape.transpose_a), "b": (shape.n, shape.b, shape.transpose_b)}
        for role, _, addresses, size in operation.shared:
            (rows, form, turned), tile = sides[role], DescribedTile.decode(operation.descriptors[role])
            if 8 * size == lookup(form).container and form not in _PADDED and not tile.base_32:
                matrix, major = addresses.reshape(rows // blocks, -1), _MAJOR[turned]
                self._check(
                    _Tile(operation.by, operation.instruction, role, matrix, size, tile.descriptor, major),
                )

    def _check(self, tile: _Tile) -> None:
        """Report a tile that is read in another layout than it was written in."""
        if not self._origins.open or not self._due(tile.by.site, tile.role):
            return
        source, origins = self._origins.at(int(tile.matrix[0, 0])), self._origins.now()
        if source is None:
            return
        repeats = not (tile.descriptor.sbo and (tile.descriptor.lbo or tile.descriptor.swizzle))
        mistake = misplaced(tile.matrix, tile.size, origins, source, mn_major=tile.major == "MN", repeats=repeats)
        if mistake is not None:
            self._report(tile, source, mistake)

    def _report(self, tile: _Tile, source: Source, mistake: Misplaced) -> None:
        shadow, at, role = self._block.shadow, int(tile.matrix[mistake.element]), tile.role
        what = shadow.extent(shadow.tile(tile.matrix.reshape(-1), tile.size))
        record = self._block.shadow.writer(mistake.wanted)
        axes = "(n, k)" if role == "b" else "(m, k)"
        message = (
            f"{tile.instruction} reads {role.upper()} from {what} in another layout than "
            f"{self._block.records.opcode[record]} wrote them in: for element {axes} = {mistake.element} it takes "
            f"{shadow.place(at, tile.size)}, which hold {source.element(int(self._origins.now()[at]))}; "
            f"{source.element(mistake.origin)} is at {shadow.place(mistake.wanted, tile.size)}"
        )
        ways = sorted(mistake.fit.ways, key=lambda way: way.major != tile.major)
        remedy = f"No descriptor reads the tile as it is: {mistake.fit.advice()}."
        rule = "tile-layout"
        if ways:
            right, other = ways[0].descriptor, ways[0].major
            same = "" if other == tile.major else f"{other}-major, "
            remedy = f"The tile needs {same}{_in_words(right)}; this descriptor has {_in_words(tile.descriptor)}."
            if right.base_offset != tile.descriptor.base_offset:
                remedy += (
                    f" A swizzle goes by addresses: begin the tile at a multiple of {_ATOM}, or swizzle by them, too."
                )
            rule = "tile-layout" if right.swizzle == tile.descriptor.swizzle else "swizzle-mismatch"
        self._block.conflict(rule, tile.by, record, message, what, remedy)

    # ------------------------------------------------------------------------------------------------ ldmatrix

    def _loads(self, event: Accessed) -> None:
        if not self._due(event.by.site):
            return
        for addresses in event.addresses.reshape(-1, _LINES):
            source, origins = self._origins.at(int(addresses[0])), self._origins.now()
            mistake = source and exchanged(addresses, origins, source)
            if source is None or mistake is None:
                continue
            row, wanted = mistake
            at = int(addresses[row])
            first, taken, right = (source.element(int(origins[each])) for each in (addresses[0], at, wanted))
            record, place = self._block.shadow.writer(wanted), self._block.shadow.place
            message = (
                f"{event.opcode} reads a tile with another swizzle than {self._block.records.opcode[record]} wrote it "
                f"with: for row {row} of a matrix it takes {place(at, _UNIT)}, which begin with {taken}, "
                f"though row 0 begins with {first}; {right} is at {place(wanted, _UNIT)}"
            )
            remedy = "Compute the addresses of the loads with the swizzle that those of the stores have."
            self._block.conflict("swizzle-mismatch", event.by, record, message, "shared memory", remedy)
            return


def _in_words(descriptor: Descriptor) -> str:
    """``LBO 16, SBO 1024 and a swizzle of 128 bytes``."""
    swizzle = f"a swizzle of {descriptor.swizzle} bytes" if descriptor.swizzle else "no swizzle"
    base = f" with base offset {descriptor.base_offset}" if descriptor.base_offset else ""
    return f"LBO {descriptor.lbo}, SBO {descriptor.sbo} and {swizzle}{base}"

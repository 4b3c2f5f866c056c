"""Structured sparsity: a pruned row, what is stored of it, and the lane and the bits that hold its metadata."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import LayoutError, OperandError, counted, ranges, span, whole
from tcemu.instructions import Instruction, parse
from tcemu.instructions.mma_sp import metadata_registers, pattern_of
from tcemu.instructions.mma_sp import selector as checked
from tcemu.layouts import Fragment
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Grid
from tcemu.show.svg import Drawing
from tcemu.show.words import compact, value

_LEFT, _WIDE = 24, 832
#: Tops of the four parts: the row, the chunk, the register, the lanes.
_ROW, _CHUNK, _REGISTER, _LANES = 46, 112, 242, 368
_HIGH, _SMALL = 30, 26.0


@dataclass(frozen=True)
class _Group:
    """Four bits of metadata: where they are, their value, and the k in the chunk that they keep."""

    lane: int
    place: int
    code: int
    #: Empty if the bits are not legal.
    kept: tuple[int, ...]

    @property
    def low(self) -> int:
        """The lowest of the four bits."""
        return 4 * self.place


@dataclass(frozen=True)
class _SparseRow:
    """What is drawn: the row of A in numbers, its groups of metadata by chunk, and the register of the chosen one."""

    instruction: Instruction
    fragment: Fragment
    numbers: list[float]
    groups: list[_Group]
    row: int
    chunk: int
    selector: int
    register: int

    @property
    def chosen(self) -> _Group:
        """The group of the chosen chunk."""
        return self.groups[self.chunk]

    @property
    def size(self) -> int:
        """Elements of a chunk."""
        return pattern_of(self.instruction).chunk

    @property
    def first(self) -> int:
        """The first k of the chosen chunk."""
        return self.chunk * self.size


@explained
def sparsity(
    instruction: str | Instruction,
    dense: npt.ArrayLike,
    metadata: npt.ArrayLike,
    row: int = 0,
    chunk: int = 0,
    selector: int = 0,
) -> Picture:
    """One row of a sparse A: what its metadata keeps, and the lane and the bits that hold the metadata of one `chunk`.

    `dense` is A (M, K) before or after pruning, in the dtype of the instruction's A or as its patterns; `metadata` are
    the registers (lanes,) of uint32 that tcemu.sparse.compress returns, and `selector` is the instruction's. Bits that
    are not legal metadata are drawn, and keep nothing.
    Raises LayoutError for a row or chunk that does not exist, OperandError for a wrong shape, dtype or selector and
    for an instruction whose A is dense.

    >>> opcode = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
    >>> A = np.random.default_rng(0).normal(size=(16, 32)).astype(np.float16)
    >>> _, metadata = tcemu.sparse.compress(tcemu.sparse.prune(A, opcode), opcode)
    >>> tcemu.show.sparsity(opcode, A, metadata, row=9, chunk=3).title
    '2:4 sparsity: row 9, chunk 3 of A has its metadata in lane 4, bits 31:28'
    """
    sparse = _sparse_row(parse(instruction), dense, metadata, (row, chunk, selector))
    chosen, last = sparse.chosen, _LANES + 22 * (sparse.fragment.lanes // 32)
    notes = "Hatched: pruned, or a lane that this selector does not use. Marked: the chosen chunk and its metadata."
    body = _row(sparse), _chunk(sparse), _register(sparse), _lanes(sparse), svg.text(_LEFT, last + 20, notes, "s")
    name = pattern_of(sparse.instruction).name
    where = f"lane {chosen.lane}, bits {_bits(chosen)}"
    title = f"{name} sparsity: row {sparse.row}, chunk {sparse.chunk} of A has its metadata in {where}"
    return picture(title, _in_words(sparse), 2 * _LEFT + _WIDE, last + 34, body)


def _sparse_row(
    instruction: Instruction, dense: npt.ArrayLike, metadata: npt.ArrayLike, at: tuple[int, int, int]
) -> _SparseRow:
    pattern = pattern_of(instruction)
    fragment, form = instruction.fragments["e"], instruction.types["a"]
    chosen = checked(instruction, at[2])
    held = metadata_registers(instruction, metadata)
    matrix = form.patterns(dense, f"the dense A of {instruction}")
    _, rows, chunks = fragment.shape
    if matrix.shape != (rows, instruction.shape.k) or held.ndim != 1:
        raise OperandError(
            f"{instruction}: the dense A has shape ({rows}, {instruction.shape.k}), its metadata ({fragment.lanes},); "
            f"got {matrix.shape} and {held.shape}"
        )
    row, chunk = (whole(each, what, LayoutError) for each, what in zip(at, ("a row", "a chunk"), strict=False))
    for what, each, size in (("row", row, rows), ("chunk", chunk, chunks)):
        if not 0 <= each < size:
            raise LayoutError(f"{what} {each}: the sparse A of {instruction} has {what}s {span(0, size - 1)}")
    groups = []
    for number in range(chunks):
        lane, place = fragment.layout.holders(chosen, row, number)[0]
        code = int(held[lane]) >> 4 * place & 15
        groups.append(_Group(lane, place, code, pattern.positions.get(code, ())))
    register = int(held[groups[chunk].lane])
    return _SparseRow(instruction, fragment, form.decode(matrix[row]).tolist(), groups, row, chunk, chosen, register)


# ---------------------------------------------------------------------------------------------- the row and a chunk


def _row(sparse: _SparseRow) -> Iterator[Drawing]:
    """The whole row of A, pruned elements hatched, chunks divided by thick lines."""
    grid = Grid(_LEFT, _ROW, _WIDE / len(sparse.numbers), _HIGH, 1, len(sparse.numbers))
    yield svg.text(_LEFT, _ROW - 20, f"row {sparse.row} of A, {len(sparse.numbers)} elements", "b")
    for number, group in enumerate(sparse.groups):
        first = number * sparse.size
        for place in range(sparse.size):
            box, kept = grid.at(0, first + place), place in group.kept
            yield box.rect("fb") if kept else box.unused(step=8)
            if box.wide >= 24:
                yield box.label(_narrow(sparse.numbers[first + place]), "t c" if kept else "t c q clear")
        chunk = grid.block(0, first, 1, sparse.size)
        name = f"chunk {number}" if chunk.wide >= 50 else number
        yield chunk.rect("k"), chunk.above(name, "t b c" if number == sparse.chunk else "s t c")
    yield grid.block(0, sparse.first, 1, sparse.size)._replace(y=grid.bottom + 3, high=6).rect("x")


def _narrow(number: float) -> str:
    """A number in four characters."""
    shown = compact(number, 4)
    return shown if len(shown) <= 4 else shown.replace("0.", ".", 1)


def _chunk(sparse: _SparseRow) -> Iterator[Drawing]:
    """The chosen chunk in large boxes, with its four bits, and the columns of the stored A that it fills."""
    group, size, grid = sparse.chosen, sparse.size, Grid(_LEFT, _CHUNK + 22, 64, _HIGH, 1, sparse.size)
    heading = f"chunk {sparse.chunk}: k = {span(sparse.first, sparse.first + size - 1, '–')}"
    yield svg.text(_LEFT, _CHUNK + 8, heading, "b")
    for place in range(size):
        box, kept = grid.at(0, place), place in group.kept
        shown = compact(sparse.numbers[sparse.first + place], 7)
        yield box.rect("fb") if kept else box.unused(), box.below(shown, "n b c" if kept else "n c q clear", -10)
    unit = 2 if size == 8 else 1
    for index in range(size // unit):
        what = f"pair {index} = {index:02b}" if unit == 2 else f"{index} = {index:02b}"
        shown = what if len(pattern_of(sparse.instruction).positions) > 2 else f"element {index}"
        box = grid.block(0, index * unit, 1, unit)
        yield box.bracket(4, 4), box.below(shown, "s c", 24)
    x = max(grid.right + 24, 340)
    yield [svg.text(x, grid.top + 2 + 20 * line, text) for line, text in enumerate(_meaning(sparse))]


def _meaning(sparse: _SparseRow) -> list[str]:
    """What the four bits of the chosen chunk mean, in short lines."""
    group, size = sparse.chosen, sparse.size
    bits = f"{group.code:04b}"
    if not group.kept:
        return [f"metadata {bits}: not legal here", "so nothing can be said about this chunk"]
    stored = sparse.chunk * size // 2
    columns = f"column{'s' * (size > 2)} {span(stored, stored + size // 2 - 1, '–')} of the stored A"
    if size == 2:
        return [f"metadata {bits}: element {group.kept[0]} stays", columns]
    noun = "pairs" if size == 8 else "elements"
    low, high = group.code & 3, group.code >> 2
    kept = f"metadata {bits[:2]} {bits[2:]}: {noun} {low} and {high} stay"
    return [kept, "the low two bits name the first", columns]


# ---------------------------------------------------------------------------------------------- the register, the lanes


def _register(sparse: _SparseRow) -> Iterator[Drawing]:
    """The 32 bits of the lane's register, in groups of four, and the row and chunk of each."""
    group, grid, layout = sparse.chosen, Grid(_LEFT, _REGISTER + 28, _SMALL, _HIGH, 1, 32), sparse.fragment.layout
    yield svg.text(_LEFT, _REGISTER, f"register e of lane {group.lane}: {sparse.register:#010x}", "b")
    for bit in range(31, -1, -1):
        box, mine = grid.at(0, 31 - bit), bit // 4 == group.place
        used = layout.position(group.lane, bit // 4)[0] == sparse.selector
        yield box.rect("x" if mine else "fb" if used else "p"), "" if used else box.hatch()
        yield box.label(sparse.register >> bit & 1, f"m c{' b' * mine}{'' if used else ' clear'}")
        yield box.above(bit, "s t c")
    for place in range(8):
        f, row, chunk = layout.position(group.lane, place)
        label = f"row {row}, chunk {chunk}" if f == sparse.selector else f"selector {f}"
        box = grid.block(0, 4 * (7 - place), 1, 4)
        look = "b c t" if place == group.place else "s c t"
        yield box.rect("k"), box.bracket(4, 4), box.below(label, look, 22)


def _lanes(sparse: _SparseRow) -> Iterator[Drawing]:
    """The lanes: those that the selector uses, and the one that holds the chosen chunk."""
    used, last = _used(sparse), sparse.fragment.shape[0] - 1
    whose = f"selector {sparse.selector} of {span(0, last)}" if last else "the only selector, 0"
    yield svg.text(_LEFT, _LANES - 12, f"lanes whose metadata counts, {whose}", "b")
    grid = Grid(_LEFT, _LANES, _SMALL, 22, sparse.fragment.lanes // 32, 32)
    for lane in range(sparse.fragment.lanes):
        box, mine = grid.at(*divmod(lane, 32))._replace(high=20), lane == sparse.chosen.lane
        yield box.rect("x" if mine else "fb" if lane in used else "p"), "" if lane in used else box.hatch()
        yield box.label(lane, "n b c" if mine else "n c" if lane in used else "n c q clear")


def _used(sparse: _SparseRow) -> set[int]:
    """The lanes that hold metadata for the selector."""
    layout = sparse.fragment.layout
    slots = range(layout.slots)
    return {lane for lane in range(layout.lanes) if any(layout.position(lane, s)[0] == sparse.selector for s in slots)}


def _bits(group: _Group) -> str:
    return f"{group.low + 3}:{group.low}"


def _in_words(sparse: _SparseRow) -> str:
    """The text alternative: the chunk, its metadata, the rest of the register, the lanes of the selector."""
    group, size = sparse.chosen, sparse.size
    numbers = sparse.numbers[sparse.first : sparse.first + size]
    fates = ("" if place in group.kept else " (pruned)" for place in range(size))
    shown = ", ".join(f"{value(number, 6)}{fate}" for number, fate in zip(numbers, fates, strict=True))
    layout = sparse.fragment.layout
    others = []
    for place in range(8):
        f, row, chunk = layout.position(group.lane, place)
        whose = "" if f == sparse.selector else f" for selector {f}"
        others.append(f"bits {4 * place + 3}:{4 * place} row {row} chunk {chunk}{whose}")
    used = sorted(_used(sparse))
    return (
        f"Row {sparse.row}, chunk {sparse.chunk}, k = {span(sparse.first, sparse.first + size - 1)}: {shown}. "
        f"Bits {_bits(group)} of lane {group.lane}: {'; '.join(_meaning(sparse))}. "
        f"Register {sparse.register:#010x} of lane {group.lane} holds {'; '.join(others)}. "
        f"Selector {sparse.selector} uses {counted(len(used), 'lane')}: {ranges(used)}. "
        f"Layout of the metadata: {layout}."
    )

"""The rules about tiles: one is read in the layout, and with the swizzle, that it was written with.

The rules, the smallest kernel that breaks each, and the section that checks them for tensor copies.
tcemu/sanitizer/tiles.py compares the elements; here is who reads them, and what a report says. stored_tiles.py checks
the same rules for tiles that threads write themselves.
"""

from __future__ import annotations

from itertools import count
from math import prod
from typing import Any

import numpy as np

from tcemu.errors import LayoutError, byte_span
from tcemu.layouts import Descriptor
from tcemu.layouts.canonical import Major
from tcemu.machine.events import Accessed, CopyIssued, Wgmma, WgmmaIssued
from tcemu.machine.tensor_map import TensorMap
from tcemu.sanitizer.block import Access, Block, ForAccesses, Handlers, section
from tcemu.sanitizer.clocks import Array
from tcemu.sanitizer.rules import Rule, breaks, rules
from tcemu.sanitizer.rules.parts import MMA, ORDINARY, TILES, barrier, finish
from tcemu.sanitizer.tiles import Box, Misread, misread

rules(
    Rule(
        "swizzle-mismatch",
        "a tile is written and read with different swizzles",
        "9.7.15.5.1",
        "A swizzle permutes units of 16 bytes within shared memory. Whatever writes a tile (a tensor map, or the "
        "addresses of stores) and whatever reads it (the matrix descriptor of wgmma, or the addresses of ldmatrix) "
        "must have the same one, or the product has elements in the wrong places.",
        "Give the tensor map and the descriptor the same swizzle: none, 32, 64 or 128 bytes.",
        "warning",
    ),
    Rule(
        "tile-layout",
        "a tile is read in another layout than it was written in",
        "9.7.15.5.1.2",
        "A matrix descriptor expects lines as wide as its swizzle, or 16 bytes without one; 8 lines follow each other, "
        "and LBO and SBO lead to the next 8. A tensor copy puts the lines of its box one after the other, as wide as "
        "the box; threads put them where their addresses say. If writer and reader do not agree, the product has "
        "elements in the wrong places.",
        "Give the tensor map and the descriptor the same swizzle, and the box lines of as many bytes; or, without a "
        "swizzle, copy boxes with lines of 16 bytes side by side.",
        "warning",
    ),
)


@breaks("swizzle-mismatch")
def a_box_with_a_swizzle_and_a_descriptor_without(warp: Any, g: Any) -> None:
    barrier(warp, 4096)
    box = TensorMap(int(g), "f16", (16, 64), (32,), (16, 64), swizzle=32)
    with warp.only(warp.threads == 0):
        warp.mbarrier_arrive_expect_tx(4096, box.bytes)
        warp.cp_async_bulk_tensor_shared_global(0, box, (0, 0), 4096)
    warp.mbarrier_wait(4096, 0)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, TILES[0], TILES[0], *ORDINARY)  # <- reported
    finish(warp)


@breaks("tile-layout")
def a_box_of_whole_rows_and_a_descriptor_of_core_matrices(warp: Any, g: Any) -> None:
    barrier(warp, 4096)
    box = TensorMap(int(g), "f16", (16, 64), (32,), (16, 64))
    with warp.only(warp.threads == 0):
        warp.mbarrier_arrive_expect_tx(4096, box.bytes)
        warp.cp_async_bulk_tensor_shared_global(0, box, (0, 0), 4096)
    warp.mbarrier_wait(4096, 0)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, TILES[0], TILES[0], *ORDINARY)  # <- reported
    finish(warp)


#: By what decides about it, the places of a tile and of its boxes relative to each other: the element that is misread,
#: and which of the boxes it should be in. Neither depends on the launch.
_judged: dict[tuple[object, ...], tuple[Misread | None, int]] = {}
#: A number for each array of addresses, relative to the first.
_numbers: dict[bytes, int] = {}
_number = count()
#: The most of them.
_MOST = 2048


def _by_rows(access: Access) -> bool:
    return access.collective and not access.writes and access.space == "shared"


@section
class Tiles:
    """The tiles that a block reads, and the tensor copies that filled them."""

    def __init__(self, block: Block) -> None:
        self._block = block
        #: arrays of addresses with their numbers, by identity: a pipeline passes the same ones again and again
        self._known: dict[int, tuple[Array, int]] = {}
        self.handlers: Handlers = {
            WgmmaIssued: self._issued,
            Accessed: ForAccesses(self._accessed, _by_rows),
            CopyIssued: self._leaves,
        }

    # ---------------------------------------------------------------------------------------- wgmma

    def _issued(self, event: WgmmaIssued) -> None:
        wgmma, boxes = event.wgmma, self._block.records.boxes
        if not boxes:
            return
        for read, tile in zip(wgmma.reads, wgmma.tiles, strict=True):
            role, addresses, size = read
            record = self._block.shadow.writer(addresses[0])
            box = boxes.get(record)
            if box is None:
                continue
            matrix = addresses.reshape(wgmma.instruction.shape[1 if role == "b" else 0], -1)
            mistake = self._judge(addresses, matrix, size, tile[1])
            if mistake is not None or box.tensor_map.swizzle != tile[0].swizzle:
                self._report(wgmma, read, matrix, tile, mistake or Misread(record, (0, 0), -1))

    def _judge(self, addresses: Array, matrix: Array, size: int, major: Major) -> Misread | None:
        """The element of a tile that is misread, if any; what has been judged once is remembered."""
        records, shadow = self._block.records, self._block.shadow
        marks = shadow.written[shadow.tile(addresses, size)] >> 5
        first = int(marks[0])
        if np.count_nonzero(marks == first) == len(marks):
            names, pattern = [first], b""
        else:
            unique, inverse = np.unique(marks, return_inverse=True)
            names, pattern = unique.tolist(), inverse.tobytes()
        boxes = [records.boxes.get(each) for each in names]
        places = [each and (self._number_of(each.addresses), *each.key_from(boxes[0], addresses)) for each in boxes]
        key = self._number_of(addresses), len(matrix), size, major, pattern, *places
        if key not in _judged:
            if len(_judged) == _MOST:
                _judged.clear()
            owners = shadow.written[matrix // shadow.cell] >> 5
            wrong = misread(matrix, size, owners, records.boxes, mn_major=major == "MN")
            _judged[key] = wrong, names.index(wrong.record) if wrong else 0
        wrong, place = _judged[key]
        return wrong and wrong._replace(record=names[place])

    def _number_of(self, addresses: Array) -> int:
        """A number that arrays share if they are alike but for the first address."""
        kept = self._known.get(id(addresses))
        if kept is None:
            for full in (self._known, _numbers):
                if len(full) >= _MOST:
                    full.clear()
            content = (addresses - addresses[0]).tobytes()
            kept = self._known[id(addresses)] = addresses, _numbers.setdefault(content, next(_number))
        return kept[1]

    def _report(
        self,
        wgmma: Wgmma,
        read: tuple[str, Array, int],
        matrix: Array,
        tile: tuple[Descriptor, Major],
        mistake: Misread,
    ) -> None:
        (role, addresses, size), (descriptor, major) = read, tile
        records, shadow = self._block.records, self._block.shadow
        box, opcode = records.boxes.get(mistake.record), records.opcode[mistake.record]
        assert box is not None  # noqa: S101 - for the types
        what, swizzle = shadow.extent(shadow.tile(addresses, size)), box.tensor_map.swizzle
        differ = swizzle != descriptor.swizzle
        if differ:
            message = (
                f"{wgmma.instruction} reads {role.upper()} {_swizzled(descriptor.swizzle)}, but {opcode} filled {what} "
                f"{_swizzled(swizzle)}"
            )
        else:
            message = (
                f"{wgmma.instruction} reads {role.upper()} from {what} in another layout than {opcode} filled them in, "
                f"which put the lines of its box, {box.line} bytes each, one after the other"
            )
        axes = "(n, k)" if role == "b" else "(m, k)"
        example = _example(mistake, box, matrix, size, axes)
        rule, remedy = "swizzle-mismatch", ""
        if not differ:
            rule, remedy = "tile-layout", _remedy(box, descriptor, major, size, matrix.shape)
        self._block.conflict(rule, wgmma.bys[0], mistake.record, f"{message}: {example}", what, remedy)

    # ---------------------------------------------------------------------------------------- other readers

    def _accessed(self, event: Accessed) -> None:
        """ldmatrix: the 8 rows of a matrix are one column of units in 8 lines, or no matrix of the box."""
        boxes = self._block.records.boxes
        if not boxes or event.instruction.family != "ldmatrix" or len(event.addresses) % 8:
            return
        written, cell = self._block.shadow.written, self._block.shadow.cell
        for addresses in event.addresses.reshape(-1, 8):
            owners = written[addresses // cell] >> 5
            record = int(owners[0])
            box = boxes.get(record)
            if box is None or (owners != record).any():
                continue
            lines, units = np.divmod(box.positions(addresses), box.line)
            if (units == units[0]).all() or len(np.unique(lines)) < len(lines) or lines.min() < 0:
                continue
            row = int((units != units[0]).argmax())
            wanted = box.address(int(lines[row]) * box.line + int(units[0]))
            span = byte_span(int(addresses[row]), int(addresses[row]) + 15)
            message = (
                f"{event.opcode} reads a tile without the swizzle with which {self._block.records.opcode[record]} "
                f"filled it: for row {row} of a matrix it takes {span}, which hold bytes {units[row]} to "
                f"{units[row] + 15} of a line, though for row 0 it takes bytes {units[0]} to {units[0] + 15}, which in "
                f"this line are at {wanted}"
            )
            remedy = _XOR[box.tensor_map.swizzle]
            self._block.conflict("swizzle-mismatch", event.by, record, message, "shared memory", remedy)
            return

    def _leaves(self, event: CopyIssued) -> None:
        """A tensor copy into global memory reads a box as it was filled, with the same swizzle."""
        copy, records = event.copy, self._block.records
        if copy.reads[0] != "shared" or copy.tensor_map is None or not (records.boxes and len(copy.reads[1])):
            return
        _, addresses, size = copy.reads
        record = self._block.shadow.writer(addresses[0])
        box, tensor_map = records.boxes.get(record), copy.tensor_map
        if box is None or box.tensor_map.swizzle == tensor_map.swizzle or box.line != tensor_map.line:
            return
        what = self._block.shadow.extent(self._block.shadow.tile(addresses, size))
        message = (
            f"{copy.opcode} reads {what} {_swizzled(tensor_map.swizzle)}, but {records.opcode[record]} filled them "
            f"{_swizzled(box.tensor_map.swizzle)}"
        )
        remedy = "Give both tensor maps the same swizzle."
        self._block.conflict("swizzle-mismatch", copy.by, record, message, what, remedy)


# ---------------------------------------------------------------------------------------------------- words


#: The fix for loads that leave out the swizzle, by its bytes.
_XOR = {
    width: f"Take unit u of a line from its unit u ^ (address >> 7 & {width // 16 - 1}), with the address of the line: "
    "there the swizzle of the tensor map puts it."
    for width in (32, 64, 128)
}


def _swizzled(swizzle: int) -> str:
    """``with a swizzle of 128 bytes``."""
    return f"with a swizzle of {swizzle} bytes" if swizzle else "without a swizzle"


def _example(mistake: Misread, box: Box, addresses: Array, size: int, axes: str) -> str:
    """``for element (m, k) = (1, 0) it takes bytes 16 and 17, which hold element 8 of line 0 of the box; ...``."""
    at = int(addresses[mistake.element])
    position = int(box.positions(np.array([at]))[0])
    held = f"hold {_place(position, box, size)} of the box" if position >= 0 else "do not belong to the box"
    text = f"for element {axes} = {mistake.element} it takes {byte_span(at, at + size - 1)}, which {held}"
    if mistake.wanted >= 0:
        wanted = box.address(mistake.wanted)
        text += f"; {_place(mistake.wanted, box, size)} is at {byte_span(wanted, wanted + size - 1)}"
    return text


def _place(position: int, box: Box, size: int) -> str:
    return f"element {position % box.line // size} of line {position // box.line}"


def _remedy(box: Box, descriptor: Descriptor, major: Major, size: int, shape: tuple[int, ...]) -> str:
    """The fix: the descriptor that fits the box, or the box that some descriptor fits."""
    width = box.tensor_map.swizzle
    if width or box.line == 16:
        along: Major = "MN" if major == "K" else "K"
        pitch = prod(box.counts[1:2]) * (width or 16)
        try:
            right = Descriptor.for_tile(
                8 * size, *shape, major=major, swizzle=width, atoms_along=along, pitch=max(pitch, 128)
            )
        except LayoutError:
            return ""
        base = f" and base offset 0, not {descriptor.base_offset}," if descriptor.base_offset else ""
        return (
            f"The lines of this box need a descriptor with LBO {right.lbo} and SBO {right.sbo}{base} if the boxes of "
            f"the tile follow each other; this one has LBO {descriptor.lbo} and SBO {descriptor.sbo}."
        )
    apart = prod(box.counts[1:]) * 16
    narrow = f"copy boxes of 16 bytes ({16 // size} elements) in width side by side, each {apart} bytes after the last"
    if box.line in _XOR:
        return (
            f"No LBO and SBO fit lines of {box.line} bytes without a swizzle. Give the tensor map and the descriptor a "
            f"swizzle of {box.line} bytes; or {narrow}."
        )
    return f"No LBO and SBO fit lines of {box.line} bytes without a swizzle. Instead, {narrow}."

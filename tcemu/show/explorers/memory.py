"""Explorers of shared memory and its descriptors: addresses, banks, swizzles; and of Tensor Memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu import show
from tcemu.formats import Container, lookup
from tcemu.formats.arrays import as_array
from tcemu.instructions import Instruction, parse, run
from tcemu.layouts import Descriptor, Fragment, copy_tile
from tcemu.layouts.canonical import Major
from tcemu.layouts.tcgen05_ld_st import layout_of
from tcemu.show.explorers.explorer import Choice, Explorer, Range, controls
from tcemu.show.picture import Picture


def conflicts_of_ldmatrix(row_bytes: int = 128, swizzle: int = 1, unit: int = 0) -> Explorer:
    """The banks of a tile's rows, and the wavefronts of an ldmatrix.x4: a slider for padding, a list of swizzles.

    The slider for the unit moves the 16 by 16 elements that are read; see show.padded_tile. Raises OperandError for
    rows or a start that are not possible.
    """
    show.padded_tile(row_bytes, 0, swizzle, unit)  # raises for another size
    units = row_bytes // 16
    swizzles = {"none" if each == 1 else f"XOR mod {each}": each for each in (1, 2, 4, 8) if each <= units}
    start = {"swizzle": next(name for name, each in swizzles.items() if each == swizzle), "unit": unit}
    return Explorer(
        lambda padding, swizzle, unit: show.padded_tile(row_bytes, padding, swizzles[swizzle], unit),
        controls(
            start,
            padding=Range("padding in bytes", 128, step=16),
            swizzle=tuple(swizzles),
            unit=Range("first unit", units - 2),
        ),
    )


def address_of_an_element(
    element: str = "f16", mn: int = 64, k: int = 64, swizzle: int = 128, major: Major = "K", **start: int
) -> Explorer:
    """Where a tile of mn by k elements is in shared memory: lists of swizzles and orders, sliders for one element.

    The descriptor is that of Descriptor.for_tile. `start` may give at_mn and at_k. Raises LayoutError for a tile that
    no descriptor can express, OperandError for a start that is not possible.
    """
    form = lookup(element).name

    def draw(swizzle: str, major: Major, at_mn: int, at_k: int) -> Picture:
        tile = Descriptor.for_tile(form, mn, k, major=major, swizzle=_SWIZZLES[swizzle])
        return show.shared_tile(tile, form, mn, k, major, at_mn=at_mn, at_k=at_k, lines=20)

    begin = {"swizzle": _swizzle(swizzle), "major": major, **start}
    return Explorer(
        draw,
        controls(begin, swizzle=tuple(_SWIZZLES), major=("K", "MN"), at_mn=Range("mn", mn - 1), at_k=Range("k", k - 1)),
    )


def descriptor_of_two_generations(start: int = 0, lbo: int = 16, sbo: int = 1024, swizzle: int = 128) -> Explorer:
    """One tile of shared memory as wgmma and as tcgen05 describe it, with sliders for the fields.

    Raises LayoutError for fields that cannot be encoded, OperandError for those beyond the sliders (16,368 bytes).
    """

    def draw(start: int, lbo: int, sbo: int, swizzle: str, of: str) -> Picture:
        tile = Descriptor(start, lbo, sbo, _SWIZZLES[swizzle])
        return show.descriptor(tile) if of == "wgmma" else show.descriptor_of_tcgen05(tile)

    fields = {"start": start, "lbo": lbo, "sbo": sbo}
    sliders = {name: Range(name.upper() if name.endswith("bo") else name, 16368, step=16) for name in fields}
    of = Choice("descriptor of", ("tcgen05", "wgmma"), "tcgen05")
    return Explorer(draw, controls(fields | {"swizzle": _swizzle(swizzle)}, **sliders, swizzle=tuple(_SWIZZLES), of=of))


def cell_of_tensor_memory(warp: int = 1, lane: int = 40, column: int = 100) -> Explorer:
    """A cell of Tensor Memory, its address, and whether a warp can load it; with sliders for all three.

    Raises OperandError for a cell that does not exist.
    """
    start = {"warp": warp, "lane": lane, "column": column}
    return Explorer(show.tensor_memory, controls(start, warp=7, lane=127, column=511))


#: Shapes of tcgen05.ld and their .num that fills 8 columns.
_LOADS = {"32x32b": 8, "16x64b": 4, "16x128b": 2, "16x256b": 1}


def registers_of_tcgen05_ld(shape: str = "16x256b", thread: int = 5) -> Explorer:
    """The cells of Tensor Memory from which tcgen05.ld fills each register, with those of one thread marked.

    `shape` is one of PTX's, with the number of repetitions that fills 8 columns. Raises OperandError for another one.
    """
    container = Container(lookup("s32"), 32)
    loads = {name: Fragment("r", layout_of(name, num), container, "b32") for name, num in _LOADS.items()}
    return Explorer(
        lambda shape, thread: show.fragment_map(loads[shape], thread),
        controls({"shape": shape, "thread": thread}, shape=tuple(_LOADS), thread=31),
    )


_SWIZZLES = {"none": 0, "32 bytes": 32, "64 bytes": 64, "128 bytes": 128}


def _swizzle(size: int) -> str:
    """The name of a swizzle in the lists; of an unknown one, its size."""
    return next((name for name, each in _SWIZZLES.items() if each == size), str(size))


def row_from_elsewhere(
    load: str | Instruction, addresses: npt.ArrayLike, shared: npt.ArrayLike, fragment: Fragment, **start: int
) -> Explorer:
    """Let one lane give ldmatrix another address, and see which elements of the matrix that it loads change.

    `addresses` (32,) are those of all lanes and `shared` (bytes,) is shared memory; `fragment` says what matrix the
    registers of the load are. The sliders are the lane and the 16-byte unit of shared memory that it names instead;
    `start` may give both. Raises OperandError for addresses that the instruction does not take, and for a start that
    is not possible.
    """
    parsed, memory, usual = parse(load), as_array(shared, "shared"), as_array(addresses, "addresses")
    before = fragment.unpack(run(parsed, usual, shared=memory))

    def draw(lane: int, unit: int) -> Picture:
        moved = usual.copy()
        moved[lane] = 16 * unit
        after, what = fragment.unpack(run(parsed, moved, shared=memory)), fragment.role.upper()
        return show.changes(before, after, fragment.format, what, cause=f"lane {lane} gives the address {16 * unit}")

    return Explorer(draw, controls(start, lane=31, unit=Range("unit of 16 bytes", memory.size // 16 - 1)))


#: Ways to step a descriptor along K in a loop: Descriptor.advance, and two recipes that often fail.
_ADVANCES: Mapping[str, Callable[[Descriptor, int, Major], Descriptor]] = {
    "to element (0, k)": lambda tile, k, major: tile.advance("f16", k=k, major=major),
    "start + 2 k bytes": lambda tile, k, _: tile.step(2 * k),
    "LBO + 2 k bytes": lambda tile, k, _: replace(tile, lbo=tile.lbo + 2 * k),
}

#: wgmma with f16, and the bytes of shared memory that its wrong descriptors may reach; B is behind A's 64 KiB.
_WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"

_REACH = 1 << 16


@dataclass(frozen=True)
class _Multiplied:
    """A of 64 rows in one layout and B of 8 columns, both f16, and what wgmma makes of them."""

    a: npt.NDArray[Any]
    b: npt.NDArray[Any]
    tile: Descriptor
    major: Major

    def notes(self, tried: Descriptor, k: int) -> list[str]:
        """The product of 16 columns from k on if A's descriptor is `tried`."""
        shared = np.zeros(2 * _REACH, np.uint8)
        columns = Descriptor.for_tile("f16", 8, self.b.shape[1], swizzle=128, start=_REACH)
        copy_tile(self.a, shared, self.tile, self.major)
        copy_tile(self.b, shared, columns)
        b, zero = columns.advance("f16", k=k), np.zeros((128, 4), np.uint32)
        transposed = int(self.major == "MN")
        right, got = (
            run(_WGMMA, zero, a, b, 0, 1, 1, transposed, 0, shared=shared)
            for a in (self.tile.advance("f16", k=k, major=self.major), tried)
        )
        wrong = int((right != got).sum())
        return [f"wgmma with this descriptor: {wrong or 'none'} of 512 elements of D are wrong."]


def descriptor_of_a_tile(a: npt.ArrayLike, b: npt.ArrayLike, swizzle: int = 128, **start: Any) -> Explorer:
    """Set the fields of A's descriptor, and see which elements it reads and how much of wgmma's product is wrong.

    A (64, K) and B (8, K) are f16; A's tile is K-major and laid out at byte 0 with that `swizzle`. `start` may give
    other fields to begin with, as they are encoded, in units of 16 bytes: start, lbo, sbo; and swizzle_field. Raises
    OperandError for a start that is not possible.
    """
    tile = Descriptor.for_tile("f16", 64, np.shape(a)[1], swizzle=swizzle)
    operands = _Multiplied(as_array(a, "A"), as_array(b, "B"), tile, "K")

    def draw(swizzle_field: str, start: int, lbo: int, sbo: int) -> Picture:
        tried = Descriptor(16 * start, 16 * lbo, 16 * sbo, _SWIZZLES[swizzle_field])
        notes = operands.notes(tried, 0)
        return show.tile_read(tile, tried, "f16", 64, 16, of_k=operands.a.shape[1], notes=notes)

    fields = {name: getattr(tile, name) >> 4 for name in ("start", "lbo", "sbo")}
    return Explorer(
        draw,
        controls(
            {**fields, "swizzle_field": _swizzle(swizzle), **start},
            swizzle_field=Choice("swizzle", tuple(_SWIZZLES), ""),
            start=Range("start address (× 16 bytes)", 64),
            lbo=Range("LBO (× 16 bytes)", 256),
            sbo=Range("SBO (× 16 bytes)", 256),
        ),
    )


def step_along_k(a: npt.ArrayLike, b: npt.ArrayLike, **start: Any) -> Explorer:
    """Step A's descriptor along K, right or by a recipe that only some layouts allow, and see the product.

    A (64, K) and B (8, K) are f16. The tile is laid out with the swizzle and the major direction of the lists; the
    slider is the number of the instruction, which multiplies 16 columns. `start` may give swizzle, major, advance and
    step. Raises OperandError for a start that is not possible.
    """
    first, second = as_array(a, "A"), as_array(b, "B")
    depth = first.shape[1]

    def draw(swizzle: str, major: Major, advance: str, step: int) -> Picture:
        tile = Descriptor.for_tile("f16", 64, depth, swizzle=_SWIZZLES[swizzle], major=major)
        tried = _ADVANCES[advance](tile, 16 * step, major)
        notes = _Multiplied(first, second, tile, major).notes(tried, 16 * step)
        return show.tile_read(tile, tried, "f16", 64, 16, major, at_k=16 * step, of_k=depth, notes=notes)

    return Explorer(
        draw,
        controls(
            {"swizzle": "128 bytes", "step": 1} | start,
            swizzle=tuple(_SWIZZLES),
            major=Choice("major direction", ("K", "MN"), "K"),
            advance=Choice("how the descriptor moves", tuple(_ADVANCES), next(iter(_ADVANCES))),
            step=Range("instruction along K", depth // 16 - 1),
        ),
    )
